# Written by `python -m launch.stub`, for type checkers and editors. Do not edit.

from collections.abc import Iterable
from hpcml.conversion.convert import ConvertReport
from hpcml.crossval.table import CrossValidation as CrossValidation
from hpcml.dataset import Dataset as Dataset
from hpcml.evaluation.bioasq import BioasqEvaluation
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.explain import Explanation
from hpcml.evaluation.explain import WhyRows
from hpcml.evaluation.matrices import evaluate_scores as evaluate_scores
from hpcml.evaluation.thresholds import CalibrationReport
from hpcml.evaluation.thresholds import ThresholdReport
from hpcml.evaluation.unlearnt import Learnability
from hpcml.evaluation.wrong import MostWrong
from hpcml.log import Log
from hpcml.methods.bayes.estimator import BernoulliNBClassifier as BernoulliNBClassifier
from hpcml.methods.bayes.estimator import BoostedBayesClassifier as BoostedBayesClassifier
from hpcml.methods.bayes.estimator import StagedBayesClassifier as StagedBayesClassifier
from hpcml.methods.bayes.estimator import StagedSvmClassifier as StagedSvmClassifier
from hpcml.methods.dual.estimator import DualClassifier as DualClassifier
from hpcml.methods.elastic_net.estimator import ElasticNetClassifier as ElasticNetClassifier
from hpcml.methods.linear.report import TrainReport
from hpcml.methods.online.estimator import OnlineClassifier as OnlineClassifier
from hpcml.methods.online.train import OnlineReport
from hpcml.methods.probe.estimator import ProbeClassifier as ProbeClassifier
from hpcml.methods.psbml.estimator import PsbmlClassifier as PsbmlClassifier
from hpcml.methods.psbml.train import AdaboostReport
from hpcml.methods.psbml.train import PsbmlReport
from hpcml.model.classifier import ClassifierModel as ClassifierModel
from hpcml.model.linear import Model as Model
from hpcml.model.naive_bayes import KernelNB as KernelNB
from hpcml.model.open import open_model as open_model
from hpcml.mpi import Comm
from hpcml.near_duplicates.search import Duplicates
from hpcml.prediction.loaded import LoadedModel as LoadedModel
from hpcml.prediction.loaded import ScoredLabel as ScoredLabel
from hpcml.prediction.loaded import load as load
from hpcml.prediction.saved import save as save
from hpcml.signals import StopSignals
from hpcml.tuning.tune import TuneReport
from pathlib import Path
from typing import Literal
from typing import overload

__version__: str
__all__ = [
    "__version__",
    "BernoulliNBClassifier",
    "BoostedBayesClassifier",
    "ClassifierModel",
    "CrossValidation",
    "Dataset",
    "DualClassifier",
    "ElasticNetClassifier",
    "KernelNB",
    "LoadedModel",
    "Model",
    "OnlineClassifier",
    "ProbeClassifier",
    "PsbmlClassifier",
    "ScoredLabel",
    "StagedBayesClassifier",
    "StagedSvmClassifier",
    "calibrate",
    "convert",
    "cross_validate",
    "duplicates",
    "evaluate",
    "evaluate_scores",
    "explain",
    "load",
    "open_model",
    "predict",
    "report",
    "retrain",
    "save",
    "threshold",
    "train",
    "tune",
]

def calibrate(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    *,
    split: str | None = None,
    output: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> CalibrationReport:
    """Calibrate probabilities of a linear model on held-out rows.

    Fits a sigmoid to the scores of each label (Platt scaling) and stores it in the model, so that predict writes probabilities.
    The sigmoid of a rare label is shrunk towards the sigmoid of labels of similar frequency.

    Examples
    --------
    >>> report = hpcml.calibrate("run", "docs.h5", split="valid", output="calibrated.h5")
    >>> hpcml.load("calibrated.h5").predict_proba(["port 3"]).shape
    (1, 2)
    """

@overload
def convert(
    source: Literal["jsonl"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    empty_labels: Literal["none"] | None = None,
    unique_ids: bool = False,
    group: str | None = None,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    ignore_splits: bool = False,
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """JSON lines: an object with title, text and labels on each line."""

@overload
def convert(
    source: Literal["pubmed"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    test_years: str | int | Iterable[str | int] = (),
    major_topics: bool = False,
    no_check_tags: bool = False,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """NLM's PubMed files: citations with MeSH headings."""

@overload
def convert(
    source: Literal["annif"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    group: str | None = None,
    vocabulary: Path | str | None = None,
    language: str | None = None,
    unindexed: bool = False,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Annif's document corpora."""

@overload
def convert(
    source: Literal["bioasq"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """BioASQ's JSON: articles with MeSH headings."""

@overload
def convert(
    source: Literal["folder"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    folder_splits: bool = False,
    encoding: str | None = None,
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """A folder of text files; folders are labels."""

@overload
def convert(
    source: Literal["docstrings"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """The docstrings of installed Python packages."""

@overload
def convert(
    source: Literal["csv"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    text: str | Iterable[str] = (),
    labels: str | int | Iterable[str | int] = (),
    labels_as_text: bool = False,
    indicators: str | Iterable[str] = (),
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    features: str | int | Iterable[str | int] = (),
    id: str | None = None,
    unique_ids: bool = False,
    split_column: str | None = None,
    group: str | None = None,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    delimiter: str | None = None,
    no_quotes: bool = False,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """CSV tables of texts or numbers."""

@overload
def convert(
    source: Literal["tsv"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    text: str | Iterable[str] = (),
    labels: str | int | Iterable[str | int] = (),
    labels_as_text: bool = False,
    indicators: str | Iterable[str] = (),
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    features: str | int | Iterable[str | int] = (),
    id: str | None = None,
    unique_ids: bool = False,
    split_column: str | None = None,
    group: str | None = None,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    quotes: bool = False,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Tables with tabs between the columns."""

@overload
def convert(
    source: Literal["parquet"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    text: str | Iterable[str] = (),
    labels: str | int | Iterable[str | int] = (),
    labels_as_text: bool = False,
    indicators: str | Iterable[str] = (),
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    features: str | int | Iterable[str | int] = (),
    id: str | None = None,
    unique_ids: bool = False,
    split_column: str | None = None,
    group: str | None = None,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Parquet tables of texts or numbers."""

@overload
def convert(
    source: Literal["svmlight"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    zero_based: bool = False,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """svmlight text: `label index:value ...`."""

@overload
def convert(
    source: Literal["xmc"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    missing_columns_as_zero: bool = False,
    feature_names: Path | str | None = None,
    label_names: Path | str | None = None,
    descriptors: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Text of the extreme-classification repository."""

@overload
def convert(
    source: Literal["npz"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    labels_as_text: bool = False,
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    unique_ids: bool = False,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    feature_names: Path | str | None = None,
    label_names: Path | str | None = None,
    descriptors: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    ignore_splits: bool = False,
    test_share: float | None = None,
    seed: int = 0,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Matrices of NumPy and SciPy, labels in the same or a second file."""

@overload
def convert(
    source: Literal["h5ad"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    labels: str | int | Iterable[str | int] = (),
    labels_as_text: bool = False,
    indicators: str | Iterable[str] = (),
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    id: str | None = None,
    unique_ids: bool = False,
    split_column: str | None = None,
    group: str | None = None,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    layer: str | None = None,
    raw: bool = False,
    obsm: str | None = None,
    descriptors: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """AnnData files."""

@overload
def convert(
    source: Literal["arff"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    text: str | Iterable[str] = (),
    labels: str | int | Iterable[str | int] = (),
    labels_as_text: bool = False,
    indicators: str | Iterable[str] = (),
    label_xml: Path | str | None = None,
    empty_labels: Literal["none"] | None = None,
    label_separator: str | None = None,
    features: str | int | Iterable[str | int] = (),
    id: str | None = None,
    unique_ids: bool = False,
    split_column: str | None = None,
    group: str | None = None,
    missing_as_zero: bool = False,
    missing_columns_as_zero: bool = False,
    descriptors: Path | str | None = None,
    fields: str | Iterable[str] = (),
    whole_fields: str | Iterable[str] = (),
    headings_as_features: bool = False,
    binary: bool = False,
    pairs: bool = False,
    min_df: int = 1,
    stop_words: Path | str | None = None,
    like: Path | str | None = None,
    new_labels: bool = False,
    renamed: str | Iterable[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    skip_bad: int = 0,
    max_line_mb: int | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """ARFF files of Weka, MULAN and MEKA."""

@overload
def convert(
    source: Literal["synthetic"],
    input: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    labels: str | int | Iterable[str | int] = (),
    features: str | int | Iterable[str | int] = (),
    rows: int | None = None,
    least_positives: float | None = None,
    test_share: float | None = None,
    seed: int = 0,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ConvertReport:
    """Synthetic rows: checkerboard, circle, gaussians, sine, text."""

def cross_validate(
    methods: str | Iterable[str],
    data: Path | str | Iterable[Path | str] = (),
    *,
    folds: int = 5,
    label: str | Iterable[str] = (),
    split: str = "all",
    seed: int = 0,
    baseline: str | None = None,
    in_order: bool = False,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    bias: bool = True,
    output: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> CrossValidation:
    """Compare methods by cross-validation.

    Prints F1 in stratified folds, with corrected t-tests and mean ranks.

    Examples
    --------
    >>> table = hpcml.cross_validate(["perceptron", "pa"], ["docs.h5:sea"], folds=3)
    >>> table.methods
    ['perceptron', 'pa']
    """

def duplicates(
    data: Path | str,
    *,
    split: str = "all",
    similarity: float = 0.8,
    output: Path | str | None = None,
    csv: Path | str | None = None,
    json: Path | str | None = None,
    top: int = 10,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Duplicates:
    """Find near-duplicate rows and the agreement of their labels.

    Rows are compared by the sets of their features. Duplicate documents were labelled more than once, so their labels show how
    consistent the annotators were.

    Examples
    --------
    >>> hpcml.duplicates("docs.h5", similarity=0.9, output="pairs.csv").n_pairs
    0
    """

@overload
def evaluate(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    *,
    split: str | None = None,
    labels: int | Iterable[int] | None = None,
    threshold: float | None = None,
    csv: Path | str | None = None,
    json: Path | str | None = None,
    best: int = 5,
    measures: Literal["bioasq"],
    descriptors: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> BioasqEvaluation:
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

@overload
def evaluate(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    *,
    split: str | None = None,
    labels: int | Iterable[int] | None = None,
    threshold: float | None = None,
    csv: Path | str | None = None,
    json: Path | str | None = None,
    best: int = 5,
    measures: None = None,
    descriptors: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Evaluation:
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

@overload
def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: str | Iterable[str] = (),
    row: str | Iterable[str],
    wrong: None = None,
    unlearnt: Literal[False] = False,
    split: str | None = None,
    top: int | None = None,
    titles: Path | str | None = None,
    json: Path | str | None = None,
    force: bool = False,
    shown_only: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> WhyRows:
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

@overload
def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: str | Iterable[str] = (),
    wrong: int,
    unlearnt: Literal[False] = False,
    split: str | None = None,
    top: int | None = None,
    titles: Path | str | None = None,
    json: Path | str | None = None,
    force: bool = False,
    shown_only: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> MostWrong:
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

@overload
def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: str | Iterable[str] = (),
    wrong: None = None,
    unlearnt: Literal[True],
    split: str | None = None,
    top: int | None = None,
    titles: Path | str | None = None,
    json: Path | str | None = None,
    force: bool = False,
    shown_only: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Learnability:
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

@overload
def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: str | Iterable[str] = (),
    wrong: None = None,
    unlearnt: Literal[False] = False,
    split: str | None = None,
    top: int | None = None,
    titles: Path | str | None = None,
    json: Path | str | None = None,
    force: bool = False,
    shown_only: bool = False,
    comm: Comm,
    log: Log | None = None,
) -> Explanation | None:
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

@overload
def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: str | Iterable[str] = (),
    wrong: None = None,
    unlearnt: Literal[False] = False,
    split: str | None = None,
    top: int | None = None,
    titles: Path | str | None = None,
    json: Path | str | None = None,
    force: bool = False,
    shown_only: bool = False,
    comm: None = None,
    log: Log | None = None,
) -> Explanation:
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

def predict(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    output: Path | str,
    *,
    split: str = "all",
    threshold: float | None = None,
    top: int | None = None,
    all_scores: bool = False,
    source: Literal["jsonl", "csv", "tsv", "parquet", "svmlight"] | None = None,
    id: str | None = None,
    delimiter: str | None = None,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    format: Literal["csv", "tsv", "jsonl", "bioasq"] | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Path:
    """Predict the labels of texts, tables or datasets.

    The output is a table with the columns id, label, title (if labels have titles) and probability (or score, if the model has no
    probabilities). It has one line for each label above its threshold, row by row, best label first. The extension of the output
    sets the format: .csv, .tsv, .jsonl, .parquet, .h5, or .json (BioASQ).

    Examples
    --------
    >>> path = hpcml.predict("run", "docs.csv", "labels.csv")
    >>> path.read_text().splitlines()[0]
    'id,label,probability'
    """

def report(
    runs: Path | str | Iterable[Path | str],
    output: Path | str,
    *,
    data: Path | str | None = None,
    split: str | None = None,
    titles: Path | str | None = None,
    optimiser: bool = False,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Path:
    """Write an HTML report of one run, or of several side by side.

    The page has measures, curves, a table of all labels, and misclassified rows. It loads nothing from the network. Needs:
    pip install 'hpcml[report]'.

    Examples
    --------
    >>> hpcml.report(["run"], "page.html", data="docs.h5").name
    'page.html'
    """

def retrain(
    run: Path | str,
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    time_limit: float | None = None,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Update a model of method dual after its data changed.

    Uses the options of the finished run. If the documents are the same, only labels with other positive rows are trained, and the
    other labels are copied. If documents were added or removed, all labels are trained. Either way the model equals that of a new
    training, byte for byte.

    Examples
    --------
    >>> hpcml.retrain("run", "new.h5", "updated").model.name
    'model.h5'
    """

def threshold(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    measure: Literal["label", "micro", "instance"],
    *,
    method: Literal["shrink", "search", "half"] | None = None,
    split: str | None = None,
    min_positives: int | None = None,
    chance: float | None = None,
    output: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> ThresholdReport:
    """Choose the thresholds that maximise F1 on held-out rows.

    The thresholds are stored in the model, and predict and evaluate use them. The best threshold of a rare label on few rows may be
    chance, so it is shrunk towards the threshold of labels of similar frequency.

    Examples
    --------
    >>> report = hpcml.threshold("run", "docs.h5", "label", split="valid", output="thresholds.h5")
    >>> hpcml.load("thresholds.h5").thresholds.shape
    (2,)
    """

@overload
def train(
    method: Literal["probe"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool = True,
    epsilon: float = 0.05,
    dormant: bool = True,
    seed: int = 0,
    ranks_per_group: int | None = None,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["hinge", "huber", "logistic"] = "hinge",
    lam: str | float = "X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """PROBE: subgradient steps from an estimated lower bound."""

@overload
def train(
    method: Literal["dual"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool = True,
    seed: int = 0,
    positive_weight: str | float = "1",
    max_gap: float | None = None,
    show_gaps: bool = False,
    ranks_per_group: int | None = None,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["squared-hinge", "hinge", "logistic"] = "squared-hinge",
    lam: str | float = "X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    dual_tol: float = 0.1,
    no_scores: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Dual coordinate descent, many labels at once, each certified."""

@overload
def train(
    method: Literal["pegasos"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    ranks_per_group: int | None = None,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["hinge"] = "hinge",
    lam: str | float = "X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Pegasos: full subgradient, step 1/(λt), projection, bias."""

@overload
def train(
    method: Literal["svmperf"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool = True,
    ranks_per_group: int | None = None,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["hinge"] = "hinge",
    lam: str | float = "X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    svmperf_epsilon: float = 0.1,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """SVMperf: the 1-slack cutting-plane method, certified gap."""

@overload
def train(
    method: Literal["liblinear"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool = True,
    seed: int = 0,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["hinge"] = "hinge",
    lam: str | float = "X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    liblinear_tol: float = 0.1,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """LIBLINEAR: dual coordinate descent."""

@overload
def train(
    method: Literal["elastic-net"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    seed: int = 0,
    max_gap: float | None = None,
    show_gaps: bool = False,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: Literal["logistic", "squared"] = "logistic",
    lam: str | float = "0.01X/m",
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = 0.0,
    no_id_hashes: bool = False,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    l1: str | float = "0.01N/m",
    path: str | float | Iterable[str | float] = (),
    initial_model: Path | str | None = None,
    solver: Literal["newton", "fobos", "sgd"] = "newton",
    rate: Literal["decaying", "constant", "adagrad"] = "decaying",
    eta: float | None = None,
    passes: int = 40,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """The elastic net, exact; its time follows a label's positives."""

@overload
def train(
    method: Literal["bernoulli-nb"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    exclude: str | Iterable[str] = (),
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    smoothing: float = 0.5,
    min_weight: float = 1.5,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Naive Bayes of features present or not: all labels from counts."""

@overload
def train(
    method: Literal["boosted-bayes"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    exclude: str | Iterable[str] = (),
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    smoothing: float = 0.5,
    min_weight: float = 1.5,
    rounds: int = 6,
    trim: float = 0.2,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """AdaBoost with naive Bayes."""

@overload
def train(
    method: Literal["staged-bayes"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    exclude: str | Iterable[str] = (),
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    smoothing: float = 0.5,
    min_weight: float = 1.5,
    stages: int = 2,
    cut: float = 2.9444389791664403,
    factor: float = 3.0,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Naive Bayes, once more on the rows that it takes for positive."""

@overload
def train(
    method: Literal["staged-svm"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    exclude: str | Iterable[str] = (),
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    smoothing: float = 0.5,
    min_weight: float = 1.5,
    cut: float = 2.9444389791664403,
    factor: float = 10.0,
    svm_c: float = 0.1,
    svm_tol: float = 0.01,
    chi_square: float = 3.84,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Naive Bayes, then an SVM on rows that it takes for positive."""

@overload
def train(
    method: Literal["mbw"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    alpha: float = 1.5,
    beta: float = 0.5,
    theta: float = 1.0,
    margin: float = 1.0,
    live_features: int | None = None,
    share: float = 0.9,
    voted: bool = False,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    initial_model: Path | str | None = None,
    final: bool = False,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """Modified Balanced Winnow, in a single pass."""

@overload
def train(
    method: Literal["pa"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    epsilon: float = 1.0,
    gamma: float = 0.1,
    bias: bool | None = None,
    voted: bool = False,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    initial_model: Path | str | None = None,
    final: bool = False,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """Passive-Aggressive, in a single pass."""

@overload
def train(
    method: Literal["bw"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    alpha: float = 1.5,
    beta: float = 0.5,
    theta: float = 1.0,
    live_features: int | None = None,
    share: float = 0.9,
    voted: bool = False,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    initial_model: Path | str | None = None,
    final: bool = False,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """Balanced Winnow, in a single pass."""

@overload
def train(
    method: Literal["pw"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    alpha: float = 1.5,
    beta: float = 0.5,
    theta: float = 1.0,
    voted: bool = False,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    initial_model: Path | str | None = None,
    final: bool = False,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """Positive Winnow, in a single pass."""

@overload
def train(
    method: Literal["perceptron", "romma"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool | None = None,
    voted: bool = False,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    initial_model: Path | str | None = None,
    final: bool = False,
    zero_based: bool = False,
    max_line_mb: int | None = None,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """The perceptron, in a single pass. ROMMA (relaxed online maximum margin), in a single pass."""

@overload
def train(
    method: Literal["psbml"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    base: str | Iterable[str] = ("kernel-nb",),
    grid: str = "3x3",
    neighbourhood: Literal["L5", "L9", "C9", "C13"] = "C9",
    replace: float = 0.2,
    cycles: int = 20,
    validation_share: float = 0.1,
    judge: Literal["error", "auc"] = "error",
    patience: int | None = None,
    asynchronous: bool = False,
    device: Literal["cpu", "gpu"] = "cpu",
    split: str | None = None,
    label: str | None = None,
    seed: int = 0,
    no_id_hashes: bool = False,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    slow_rank: int | None = None,
    slow_factor: float = 2.0,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> PsbmlReport:
    """PSBML: one classifier of all classes, from the hard rows."""

@overload
def train(
    method: Literal["adaboost"],
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    base: str | Iterable[str] = ("stump",),
    rounds: int = 10,
    split: str | None = None,
    label: str | None = None,
    seed: int = 0,
    no_id_hashes: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> AdaboostReport:
    """AdaBoostM1 (scikit-learn's), on one rank: to compare with psbml."""

def tune(
    data: Path | str,
    output: Path | str,
    *,
    force: bool = False,
    resume: bool = False,
    bias: bool | None = None,
    seed: int = 0,
    scale: Literal["standard", "max-abs", "none"] | None = None,
    loss: str | None = None,
    lam: str | float | None = None,
    split: str | None = None,
    label: str | Iterable[str] = (),
    min_positives: int = 1,
    label_part: str | None = None,
    precision: Literal["single", "double"] = "single",
    drop: float | None = None,
    no_id_hashes: bool = False,
    labels_per_pass: int | None = None,
    max_steps: int | None = None,
    checkpoint_every: float | None = None,
    time_limit: float | None = None,
    profile: bool = False,
    method: str = "dual",
    folds: int = 5,
    by: Literal["map", "f1", "auc"] = "map",
    thresholds: Literal["label", "micro"] = "label",
    one: bool = False,
    lambdas: float | Iterable[float] = (),
    weights: float | Iterable[float] = (),
    l1: str | float | None = None,
    comm: Comm | None = None,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TuneReport:
    """Train with options chosen for each label by cross-validation.

    Chooses the regularisation λ and the weight of positive rows on the training rows. The model also gets a threshold and
    calibrated probabilities for each label, from the scores of the held-out folds.

    Examples
    --------
    >>> hpcml.tune("docs.h5", "tuned", folds=3, lambdas=[0.1, 1.0]).model.name
    'model.h5'
    """
