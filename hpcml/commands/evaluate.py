"""`hpcml evaluate MODEL DATA`, and `hpcml.evaluate(model, data)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from hpcml.commands.operation import HIDDEN, AnyModel, Integers, Operation, PathLike, Session, check_files, function, path_of
from hpcml.log import joined
from hpcml.options import Flag, NotWith, Only, Range

if TYPE_CHECKING:
    from hpcml.evaluation.bioasq import BioasqEvaluation
    from hpcml.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Evaluate(Operation["Evaluation | BioasqEvaluation"]):
    """Judge a model on rows: average precision, AUC, F1 and others.

    Average precision (PRC area), break-even, AUC (ROC area), F1, wrong rows, precision of the best labels: each measure per label,
    as its mean over the labels (macro), and of all pairs of a row and a label in one ranking (micro). Average precision and
    break-even are averaged over ties. The precision of a row's 1, 3 and 5 best labels is the mean over rows; so are their nDCG and
    propensity-scored precision, and F1 of a row's labels, over all labels and over the most frequent ones.

    Examples
    --------
    >>> hpcml.evaluate("run", "docs.h5").macro("average_precision")
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """A dataset with the model's features and labels."""
    _: KW_ONLY
    split: str | None = None
    """Rows to judge on: a split of the file, or all. Default: test if the file has it."""
    labels: Annotated[Integers | None, HIDDEN] = None
    """Numbers of the labels in the model that are judged. Default: all; labels of the rows that the
    model does not know then count as missed.
    """
    threshold: float | None = None
    """Judge the labels above this threshold, the same for all. Default: the model's thresholds, or else 0."""
    csv: Annotated[PathLike | None, NotWith("measures")] = None
    """Write the measures of every label to this file."""
    json: PathLike | None = None
    """Write everything to this file."""
    best: Annotated[int, Range(1), NotWith("measures")] = 5
    """Number of the best and worst labels to show; of many, none with fewer than 3 positive rows."""
    measures: Literal["bioasq"] | None = None
    """bioasq: only the measures of BioASQ's task a (micro, macro and example-based F, accuracy), of the labels above thresholds."""
    descriptors: Annotated[PathLike | None, Only("measures")] = None
    """With --measures bioasq: NLM's file of MeSH descriptors (or a table with tree numbers); then LCA-F, too."""
    force: Annotated[Flag, Only("csv", "json")] = False
    """Replace the CSV or JSON file if it exists."""

    results: ClassVar = {"measures": "BioasqEvaluation", "": "Evaluation"}

    def execute(self, session: Session) -> Evaluation | BioasqEvaluation:
        """Measures, the same on all ranks; with `measures`, those of BioASQ. Collective over the session."""
        from hpcml.evaluation.bioasq import evaluate_bioasq
        from hpcml.evaluation.evaluate import evaluate
        from hpcml.evaluation.hints import hint_at_low_recall
        from hpcml.evaluation.seen import split_to_judge
        from hpcml.run.session import opened_both

        comm, log = session.comm, session.log
        with opened_both(session, self.model, self.data, self.threshold) as (model, dataset):
            check_files(session, self.force, [self.model, self.data], csv=self.csv, json=self.json)
            split = split_to_judge(comm, dataset, self.split, log)
            if self.measures is not None:
                return evaluate_bioasq(comm, model, dataset, split, path_of(self.descriptors), log)
            result = evaluate(comm, model, dataset, split, log, None if self.labels is None else list(self.labels))
            hint_at_low_recall(log, result, model, dataset)
            return result

    def format_result(self, result: Evaluation | BioasqEvaluation) -> str:
        """Return the tables."""
        return str(result) if self.measures is not None else joined(result.describe(self.best))  # type: ignore[call-arg]


evaluate = function(Evaluate)
