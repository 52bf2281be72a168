"""`hpcml split FILE`."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session
from hpcml.options import Flag


@dataclass(frozen=True)
class Split(Operation[None]):
    """Split the rows of a dataset into train, test and valid.

    The optional split valid is used by `hpcml threshold` and `hpcml calibrate`.
    """

    file: PathLike
    """Dataset made with `hpcml convert`."""
    _: KW_ONLY
    output: Annotated[PathLike | None, OUTPUT] = None
    """Dataset to write, with the splits. Default: update the file."""
    test_share: float = 0.3
    """Share of the rows in the split test."""
    valid_share: float | None = None
    """Share of the rows in the split valid; the test rows do not depend on it. Default: no split valid."""
    stratified: Flag = False
    """Keep the shares within each label; a row belongs to its rarest label."""
    seed: int = 0
    """Random seed for the assignment of rows to splits."""
    force: Flag = False
    """Replace the output, or the splits of the file, if they exist."""

    def execute(self, session: Session) -> None:
        from hpcml.conversion.split import split

        options = (self.test_share, self.stratified, self.seed, self.force)
        split(session.comm, self.file, self.output, *options, session.log, self.valid_share)
