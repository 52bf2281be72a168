"""`hpcml calibrate MODEL DATA`, and `hpcml.calibrate(model, data)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session
from hpcml.options import Flag

if TYPE_CHECKING:
    from hpcml.evaluation.thresholds import CalibrationReport


@dataclass(frozen=True)
class Calibrate(Operation["CalibrationReport"]):
    """Calibrate probabilities of a linear model on held-out rows.

    Fits a sigmoid to the scores of each label (Platt scaling) and stores it in the model, so that predict writes probabilities.
    The sigmoid of a rare label is shrunk towards the sigmoid of labels of similar frequency.

    Examples
    --------
    >>> report = hpcml.calibrate("run", "docs.h5", split="valid", output="calibrated.h5")
    >>> hpcml.load("calibrated.h5").predict_proba(["port 3"]).shape
    (1, 2)
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: PathLike
    """Dataset with the features and labels of the model."""
    _: KW_ONLY
    split: str | None = None
    """Rows that were not used for training: a split of the dataset, or all. Default: valid."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """Model file to write. Default: store the sigmoids in the given model."""
    force: Flag = False
    """Replace the output, or the sigmoids of the model, if they exist."""

    def execute(self, session: Session) -> "CalibrationReport":
        """The report as a text, with slope and offset of each label as `sigmoids`. Collective over the session."""
        from hpcml.evaluation.thresholds import calibrate
        from hpcml.run.session import open_model_and_dataset

        with open_model_and_dataset(session, self.model, self.data) as (model, dataset):
            return calibrate(session.comm, model, dataset, self.split, self.output, self.force, session.log)
