"""`hpcml threshold MODEL DATA --measure MEASURE`, and `hpcml.threshold(model, data, measure)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session
from hpcml.options import Flag, Range

if TYPE_CHECKING:
    from hpcml.evaluation.thresholds import ThresholdReport


@dataclass(frozen=True)
class Threshold(Operation["ThresholdReport"]):
    """Choose the thresholds that maximise F1 on held-out rows.

    The thresholds are stored in the model, and predict and evaluate use them. The best threshold of a rare label on few rows may be
    chance, so it is shrunk towards the threshold of labels of similar frequency.

    Examples
    --------
    >>> report = hpcml.threshold("run", "docs.h5", "label", split="valid", output="thresholds.h5")
    >>> hpcml.load("thresholds.h5").thresholds.shape
    (2,)
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: PathLike
    """Dataset with the features and labels of the model."""
    measure: Annotated[Literal["label", "micro", "instance"], Parameter(name="--measure")]
    """F1 to maximise. label: F1 of each label, with one threshold per label (macro F1). micro: F1 over all row-label pairs, with
    one threshold for all labels. instance: mean F1 of the labels of a row, with one threshold for all labels.
    """
    _: KW_ONLY
    method: Literal["shrink", "search", "half"] | None = None
    """shrink: the best threshold of each label, shrunk towards that of labels of similar frequency. search: the best of all
    thresholds. half: the probability that is half of the best F1, for models of --loss logistic. Default: shrink for --measure
    label without --min-positives and --chance, else search.
    """
    split: str | None = None
    """Rows that are used neither for training nor for evaluation: a split of the dataset, or all. Default: valid."""
    min_positives: Annotated[int | None, Range(1)] = None
    """Minimum number of positive rows for an own threshold; other labels share one. For search and half. Default: 1."""
    chance: Annotated[float | None, Range(0, 1)] = None
    """Maximum probability that a random order of the rows gives as high an F1 as an own threshold; other labels share one. For
    search and half. Default: 0.01.
    """
    output: Annotated[PathLike | None, OUTPUT] = None
    """Model file to write. Default: store the thresholds in the given model."""
    force: Flag = False
    """Replace the output, or the thresholds of the model, if they exist."""

    def execute(self, session: Session) -> "ThresholdReport":
        """The report as a text. Collective over the session."""
        from hpcml.evaluation.thresholds import ThresholdSearch, threshold
        from hpcml.run.session import open_model_and_dataset

        search = ThresholdSearch(self.measure, self.method, self.min_positives, self.chance)
        with open_model_and_dataset(session, self.model, self.data) as (model, dataset):
            return threshold(session.comm, model, dataset, self.split, search, self.output, self.force, session.log)
