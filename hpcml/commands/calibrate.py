"""`hpcml calibrate MODEL DATA`, and `hpcml.calibrate(model, data)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session, function, path_of
from hpcml.options import Flag

if TYPE_CHECKING:
    from hpcml.evaluation.thresholds import CalibrationReport


@dataclass(frozen=True)
class Calibrate(Operation["CalibrationReport"]):
    """Make probabilities of a linear model's scores.

    Fits a sigmoid to the scores of held-out rows for each label (Platt scaling) and stores it in the model; predict then writes
    probabilities. The sigmoid of a rare label is drawn to that of labels as frequent.

    Examples
    --------
    >>> hpcml.calibrate("run", "docs.h5", split="valid")
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """A dataset with the model's features and labels."""
    _: KW_ONLY
    split: str | None = None
    """Rows that did not train the model: a split of the file, or all. Default: valid."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """The model to make. Default: put the sigmoids into the model itself."""
    force: Flag = False
    """Replace the output, or the model's sigmoids, if they exist."""

    def execute(self, session: Session) -> CalibrationReport:
        """A text, with slope and offset of each label as `sigmoids`. Collective over the session."""
        from hpcml.evaluation.thresholds import calibrate
        from hpcml.run.session import opened_both

        with opened_both(session, self.model, self.data) as (model, dataset):
            return calibrate(session.comm, model, dataset, self.split, path_of(self.output), self.force, session.log)


calibrate = function(Calibrate)
