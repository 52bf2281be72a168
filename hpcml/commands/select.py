"""`hpcml select FILE -o OUTPUT`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session
from hpcml.options import Flag
from hpcml.reduce.select_options import SelectOptions


@dataclass(frozen=True)
class Select(Operation[str]):
    """Keep some features of a dataset, or of a model of bw or mbw.

    Of a dataset by information gain, chi-square or EFS, of a model by EFS. EFS, extremal feature selection, keeps the features
    whose positive and negative weights differ most, and some that differ least.
    """

    file: PathLike
    """A dataset made with `hpcml convert`, or a run folder of bw or mbw, or its model.h5."""
    _: KW_ONLY
    output: Annotated[PathLike, OUTPUT]
    """The dataset or model to make; a list of its features goes into the same folder."""
    options: SelectOptions
    """Options of the selection."""
    force: Flag = False
    """Replace the output and the list if they exist."""

    def execute(self, session: Session) -> str:
        """Write the output and return what was done. Collective over the session."""
        from hpcml.reduce.select import select

        return select(session.comm, Path(self.file), Path(self.output), self.options, self.force, session.log)
