"""`hpcml split FILE`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session, path_of
from hpcml.options import Flag


@dataclass(frozen=True)
class Split(Operation[None]):
    """Divide the rows of a dataset into train, test and valid.

    The optional split valid is used by `hpcml threshold` and `hpcml calibrate`.
    """

    file: PathLike
    """A dataset made with `hpcml convert`."""
    _: KW_ONLY
    output: Annotated[PathLike | None, OUTPUT] = None
    """Where to write the dataset with the splits. Default: replace the file."""
    test_share: float = 0.3
    """Share of the rows that become test rows."""
    valid_share: float | None = None
    """Share of the rows that become rows of the split valid. Default: no such split. The test rows do not depend on it."""
    stratified: Flag = False
    """Keep the share within every label (by each row's rarest label)."""
    seed: int = 0
    """Random seed of the division."""
    force: Flag = False
    """Replace splits, or an output, that exist."""

    def execute(self, session: Session) -> None:
        """Write the splits. Collective over the session."""
        from hpcml.conversion.split import split

        output, valid_share = path_of(self.output), self.valid_share
        options = (self.test_share, self.stratified, self.seed, self.force)
        split(session.comm, Path(self.file), output, *options, session.log, valid_share)
