"""`hpcml threshold MODEL DATA --measure MEASURE`, and `hpcml.threshold(model, data, measure)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session, function, path_of
from hpcml.options import Flag, Range

if TYPE_CHECKING:
    from hpcml.evaluation.thresholds import ThresholdReport


@dataclass(frozen=True)
class Threshold(Operation["ThresholdReport"]):
    """Find the thresholds that maximise F1 on held-out rows.

    They are stored in the model; predict and evaluate then use them. Of a rare label the best
    threshold on a few rows may be chance, so that it is drawn to that of labels as frequent.

    Examples
    --------
    >>> hpcml.threshold("run", "docs.h5", "label", split="valid")
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """A dataset with the model's features and labels."""
    measure: Annotated[Literal["label", "micro", "instance"], Parameter(name="--measure")]
    """label: for each label the threshold with its largest F1 (macro). One for all labels: micro,
    of all pairs of a row and a label; instance, of each row's labels, mean over the rows.
    """
    _: KW_ONLY
    method: Literal["shrink", "search", "half"] | None = None
    """shrink: of each label the best threshold, drawn to that of labels as frequent. search: the
    best of all thresholds. half: half of the best F1, as a probability; for models of --loss
    logistic. Default: shrink for labels; search else, and with the two options below.
    """
    split: str | None = None
    """Rows that neither trained the model nor will judge it: a split of the file, or all. Default: valid."""
    min_positives: Annotated[int | None, Range(1)] = None
    """Search, half: minimum number of these rows per label for a threshold of its own; other labels
    share that of micro F1. Default: 1.
    """
    chance: Annotated[float | None, Range(0, 1)] = None
    """Search, half: a label has a threshold of its own only if rows in random order would give so
    good a one with at most this probability. Default: 0.01.
    """
    output: Annotated[PathLike | None, OUTPUT] = None
    """The model to make. Default: put the thresholds into the model itself."""
    force: Flag = False
    """Replace the output, or the model's thresholds, if they exist."""

    def execute(self, session: Session) -> ThresholdReport:
        """A text, with the thresholds as `found.thresholds`. Collective over the session."""
        from hpcml.evaluation.thresholds import ThresholdSearch, threshold
        from hpcml.run.session import opened_both

        search = ThresholdSearch(self.measure, self.method, self.min_positives, self.chance)
        with opened_both(session, self.model, self.data) as (model, dataset):
            return threshold(session.comm, model, dataset, self.split, search, path_of(self.output), self.force, session.log)


threshold = function(Threshold)
