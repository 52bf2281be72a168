"""`hpcml info FILE`."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated

from hpcml.commands.operation import Integers, Operation, PathLike, Session
from hpcml.options import Range, Several


@dataclass(frozen=True)
class Info(Operation[str]):
    """Describe a dataset, a model, or a file of predictions.

    For a dataset, also prints the size of a shard for each number of ranks and checks every row.
    """

    file: PathLike
    """Dataset made with `hpcml convert`, model (run folder, or its model.h5), or output of `hpcml predict`."""
    _: KW_ONLY
    ranks: Annotated[Integers, Several, Range(1)] = (1, 2, 4)
    """Numbers of ranks for which to print the size of a shard."""
    check: bool = True
    """Read the whole dataset and check every row."""

    def execute(self, session: Session) -> str:
        from hpcml.data.info import info
        from hpcml.model.open import format_model, kind_of, share_model
        from hpcml.mpi import run_on_root
        from hpcml.prediction.describe import ENDINGS, describe

        comm, file = session.comm, self.file
        kind = run_on_root(comm, f"opening {file}", partial(kind_of, file))
        if kind in ("model", "classifier"):
            return format_model(share_model(comm, file))
        if kind in ("scores", "predictions") or (not kind and file.suffix.lower() in ENDINGS):
            return run_on_root(comm, f"reading {file}", partial(describe, file, kind))
        return info(comm, file, list(self.ranks), self.check)
