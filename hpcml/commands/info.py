"""`hpcml info FILE`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import Integers, Operation, PathLike, Session
from hpcml.options import Range, Several


@dataclass(frozen=True)
class Info(Operation[str]):
    """Show what a dataset holds, or what a model is.

    Of a dataset, also the size of a shard for each number of ranks; every row is checked.
    """

    file: PathLike
    """A dataset made with `hpcml convert`, or a model: the model.h5 of a run, or its folder."""
    _: KW_ONLY
    ranks: Annotated[Integers, Several, Range(1)] = (1, 2, 4)
    """Numbers of ranks for which to print the size of a shard."""
    check: bool = True
    """Read and check the whole file."""

    def execute(self, session: Session) -> str:
        """Return the description. Collective over the session."""
        from hpcml.data.info import format_info, info
        from hpcml.model.open import format_model, kind_of, share_model
        from hpcml.mpi import run_on_root

        comm, file = session.comm, Path(self.file)
        if run_on_root(comm, f"opening {file}", partial(kind_of, file)) in ("model", "classifier"):
            return format_model(share_model(comm, file))
        return format_info(info(comm, file, list(self.ranks), self.check))
