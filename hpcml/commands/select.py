"""`hpcml select FILE -o OUTPUT`."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session
from hpcml.options import Flag
from hpcml.reduce.select_options import SelectOptions


@dataclass(frozen=True)
class Select(Operation[str]):
    """Select features of a dataset, or of a model of bw or mbw.

    Datasets: by information gain, chi-square or EFS. Models: by EFS. Extremal feature selection (EFS) keeps the features whose
    positive and negative weights differ most, and some of those that differ least.
    """

    file: PathLike
    """Dataset made with `hpcml convert`, or model of bw or mbw (run folder, or its model.h5)."""
    _: KW_ONLY
    output: Annotated[PathLike, OUTPUT]
    """Dataset or model to write. A list of its features is written to the same folder."""
    options: SelectOptions
    """Options of the selection."""
    force: Flag = False
    """Replace the output and the list if they exist."""

    def execute(self, session: Session) -> str:
        from hpcml.reduce.select import select

        return select(session.comm, self.file, self.output, self.options, self.force, session.log)
