"""`hpcml evaluate MODEL DATA`, and `hpcml.evaluate(model, data)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from hpcml.commands.operation import HIDDEN, AnyModel, Integers, Operation, PathLike, Session, check_outputs
from hpcml.log import joined
from hpcml.options import Flag, NotWith, Only, Range

if TYPE_CHECKING:
    from hpcml.evaluation.bioasq import BioasqEvaluation
    from hpcml.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Evaluate(Operation["Evaluation | BioasqEvaluation"]):
    """Evaluate a model: average precision, ROC AUC, F1 and others.

    Average precision, break-even point, ROC AUC, F1 and the number of misclassified rows are computed for each label, as their
    mean over labels (macro), and over all row-label pairs in one ranking (micro). Average precision and break-even point are
    averaged over the orders of tied scores. Precision, nDCG and propensity-scored precision of the 1, 3 and 5 best labels are
    means over rows, and so is the F1 of each row's labels.

    Examples
    --------
    >>> hpcml.evaluate("run", "docs.h5").macro("average_precision")
    1.0
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: PathLike
    """Dataset with the features and labels of the model."""
    _: KW_ONLY
    split: str | None = None
    """Rows to evaluate on: a split of the dataset, or all. Default: test if the dataset has it, else all."""
    labels: Annotated[Integers | None, HIDDEN] = None
    """Indices of the model's labels to evaluate. Default: all; labels that the model does not know then count as missed."""
    threshold: float | None = None
    """Threshold for all labels. Default: the thresholds of the model, or 0 if it has none."""
    csv: Annotated[PathLike | None, NotWith("measures")] = None
    """CSV file for the measures of each label. Default: none."""
    json: PathLike | None = None
    """JSON file for all results. Default: none."""
    best: Annotated[int, Range(1), NotWith("measures")] = 5
    """Number of best and of worst labels to print. Among many labels, those with fewer than 3 positive rows are not listed."""
    measures: Literal["bioasq"] | None = None
    """bioasq: only the measures of BioASQ task a: micro, macro and example-based F1, and accuracy, at the thresholds."""
    descriptors: Annotated[PathLike | None, Only("measures")] = None
    """NLM's file of MeSH descriptors, or a table with tree numbers, to add the hierarchical measure LCA-F. Default: none."""
    force: Annotated[Flag, Only("csv", "json")] = False
    """Replace the CSV or JSON file if it exists."""

    results: ClassVar = {"measures": "BioasqEvaluation", "": "Evaluation"}

    def execute(self, session: Session) -> "Evaluation | BioasqEvaluation":
        """The measures, the same on all ranks; with `measures` those of BioASQ. Collective over the session."""
        from hpcml.evaluation.bioasq import evaluate_bioasq
        from hpcml.evaluation.evaluate import evaluate
        from hpcml.evaluation.scored_rows import choose_split
        from hpcml.evaluation.thresholds import hint_at_low_recall
        from hpcml.run.session import open_model_and_dataset

        comm, log = session.comm, session.log
        with open_model_and_dataset(session, self.model, self.data, self.threshold) as (model, dataset):
            check_outputs(session, self.force, [self.model, self.data], csv=self.csv, json=self.json)
            split = choose_split(comm, dataset, self.split, log)
            if self.measures is not None:
                return evaluate_bioasq(comm, model, dataset, split, self.descriptors, log)
            result = evaluate(comm, model, dataset, split, log, None if self.labels is None else list(self.labels))
            hint_at_low_recall(log, result, model)
            return result

    def format_result(self, result: "Evaluation | BioasqEvaluation") -> str:
        return str(result) if self.measures is not None else joined(result.describe(self.best))  # type: ignore[call-arg]
