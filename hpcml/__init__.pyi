# Written by `python -m launch.stub`, for type checkers, editors and `help`. Do not edit.
# fmt: off

from collections.abc import Iterable
from hpcml.commands.explain import Answer
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
from hpcml.methods.method import Report
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
from typing import TYPE_CHECKING
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

    Collective over `comm`.

    Parameters
    ----------
    model : Path or str or Model or ClassifierModel
        Run folder, or model file (model.h5).
    data : Path or str
        Dataset with the features and labels of the model.
    split : str or None, default None
        Rows that were not used for training: a split of the dataset, or all. Default: valid.
    output : Path or str or None, default None
        Model file to write. Default: store the sigmoids in the given model.
    force : bool, default False
        Replace the output, or the sigmoids of the model, if they exist.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    CalibrationReport
        The report as a text, with slope and offset of each label as `sigmoids`.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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
    scale: Literal["none", "standard", "max-abs"] | None = None,
    bias: bool = True,
    output: Path | str | None = None,
    force: bool = False,
    comm: Comm | None = None,
    log: Log | None = None,
) -> CrossValidation:
    """Compare methods by cross-validation.

    Prints F1 in stratified folds, with corrected t-tests and mean ranks.

    Collective over `comm`.

    Parameters
    ----------
    methods : str or iterable of str
        Methods and datasets, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (all-
        bernoulli-nb: without its minimum weight), boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw,
        perceptron, pa, romma, their voted forms v-NAME, psbml, svm, multinomial-nb, a base learner of
        psbml, or the path of a scikit-learn classifier. Datasets: FILE, whose labels are classified one
        against the rest, or FILE:LABEL.
    data : Path or str or iterable of Path | str, default ()
        Further datasets.
    folds : int, default 5
        Number of folds; the rows of each fold are tested by models trained on the other folds.
    label : str or iterable of str, default ()
        Labels to use of the files given without a label. Default: all with enough rows.
    split : str, default 'all'
        Split of the files to use, or all.
    seed : int, default 0
        Random seed for the folds and for the order of training rows.
    baseline : str or None, default None
        Method that the others are compared with. Default: the first method.
    in_order : bool, default False
        Train on the rows in file order. Default: shuffled.
    scale : {"none", "standard", "max-abs"} or None, default None
        Divide each feature by its standard deviation (standard, without centring) or by its largest
        magnitude (max-abs) over the training rows of a fold. Default: none, with a warning if the
        scales differ by more than 100.
    bias : bool, default True
        Fit an intercept (default). `bias=False` affects probe, dual, perceptron, pa, romma, their voted
        forms, and svm.
    output : Path or str or None, default None
        CSV file for the table, with F1 in each fold. Default: only print it.
    force : bool, default False
        Replace the output if it exists.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    CrossValidation
        The table; `str` formats it.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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

    Collective over `comm`.

    Parameters
    ----------
    data : Path or str
        Dataset made with `hpcml convert`.
    split : str, default 'all'
        Rows to compare: a split of the dataset, or all.
    similarity : float, default 0.8
        Minimum Jaccard similarity of the feature sets of two rows (features of both over features of
        either), from 0.1 to 1.
    output : Path or str or None, default None
        CSV file for the pairs. Default: none.
    csv : Path or str or None, default None
        CSV file for the consistency of each label. Default: none.
    json : Path or str or None, default None
        JSON file for all results except the pairs. Default: none.
    top : int, default 10
        Number of labels to print, most frequent first.
    force : bool, default False
        Replace the files if they exist.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    Duplicates
        The report as a text on all ranks, with the consistency of each label as `labels`.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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

    Collective over `comm`.

    Parameters
    ----------
    model : Path or str or Model or ClassifierModel
        Run folder, or model file (model.h5).
    data : Path or str
        Input in the format of the training data (.jsonl, .csv, .tsv or .parquet), a dataset with the
        features of the model, or svmlight text, whose indices are the positions of the features, from
        1. All but Parquet may be compressed (gz, bz2, xz, zst, zip). - is standard input.
    output : Path or str
        File to write; its extension sets the format. - is standard output.
    split : str, default 'all'
        Rows to score: a split of the dataset, or all.
    threshold : float or None, default None
        Score above which a row gets a label. Default: the thresholds of the model, or 0 if it has none.
    top : int or None, default None
        Number of labels to write for each row, highest scores first. Default: all labels above their
        thresholds.
    all_scores : bool, default False
        Write the scores of all rows and labels to an .h5 file, as a matrix, with thresholds and
        sigmoids of the labels.
    source : {"jsonl", "csv", "tsv", "parquet", "svmlight"} or None, default None
        Format of the input, unless it is a dataset. Default: by the extension, else jsonl for a model
        of texts on standard input, else svmlight.
    id : str or None, default None
        Column with the ids of the rows. Default: the id column of the training data, else id if the
        table has it.
    delimiter : str or None, default None
        Character between the columns of csv, such as ";". Default: a comma.
    zero_based : bool, default False
        Indices of svmlight text start at 0.
    max_line_mb : int or None, default None
        Maximum length of a line of text, in MiB. Default: 16.
    format : {"csv", "tsv", "jsonl", "bioasq"} or None, default None
        Format of standard output; bioasq is the format of .json, for rows of a dataset. Default: csv.
    force : bool, default False
        Replace the output if it exists.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    Path
        The path of the output.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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

    Collective over `comm`.

    Parameters
    ----------
    runs : Path or str or iterable of Path | str
        Run folders, or model files. The others are compared with the first one.
    output : Path or str
        HTML file to write.
    data : Path or str or None, default None
        Dataset to evaluate on, with the features and labels of the models. Default: the dataset of each
        run.
    split : str or None, default None
        Rows to evaluate on: a split of the dataset, or all. Default: test if the dataset has it, else
        all.
    titles : Path or str or None, default None
        JSON lines with the titles of the rows, such as the file that was converted. Default: show ids
        only.
    optimiser : bool, default False
        Add iterations, certified duality gaps and numbers of weights.
    force : bool, default False
        Replace the page if it exists.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    Path
        The path of the page.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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

    Collective over `comm`.

    Parameters
    ----------
    run : Path or str
        Run folder of a finished `hpcml train dual`.
    data : Path or str
        Dataset with the features of the run's dataset, made with `hpcml convert --like` (and `--new-
        labels` for new labels).
    output : Path or str
        New run folder. An existing one needs `resume` or `force`.
    force : bool, default False
        Replace the run if the folder holds one.
    resume : bool, default False
        Continue an interrupted run from its last checkpoint. The number of ranks may differ.
    time_limit : float or None, default None
        Seconds of training (without loading) after which to write a checkpoint and stop with exit code
        75. Default: no limit.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.
    signals : StopSignals or None, default None
        Signals that stop the run. Default: SIGTERM, SIGINT, SIGUSR1 and SIGHUP of this process.

    Returns
    -------
    TrainReport
        The report as a text, with the path of the model as `model`.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.
    Interrupted
        After a signal or the time limit, when a checkpoint has been written (`resume` continues).

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

    Collective over `comm`.

    Parameters
    ----------
    model : Path or str or Model or ClassifierModel
        Run folder, or model file (model.h5).
    data : Path or str
        Dataset with the features and labels of the model.
    measure : {"label", "micro", "instance"}
        F1 to maximise. label: F1 of each label, with one threshold per label (macro F1). micro: F1 over
        all row-label pairs, with one threshold for all labels. instance: mean F1 of the labels of a
        row, with one threshold for all labels.
    method : {"shrink", "search", "half"} or None, default None
        shrink: the best threshold of each label, shrunk towards that of labels of similar frequency.
        search: the best of all thresholds. half: the probability that is half of the best F1, for
        models of `loss` logistic. Default: shrink for `measure` label without `min_positives` and
        `chance`, else search.
    split : str or None, default None
        Rows that are used neither for training nor for evaluation: a split of the dataset, or all.
        Default: valid.
    min_positives : int or None, default None
        Minimum number of positive rows for an own threshold; other labels share one. For search and
        half. Default: 1.
    chance : float or None, default None
        Maximum probability that a random order of the rows gives as high an F1 as an own threshold;
        other labels share one. For search and half. Default: 0.01.
    output : Path or str or None, default None
        Model file to write. Default: store the thresholds in the given model.
    force : bool, default False
        Replace the output, or the thresholds of the model, if they exist.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.

    Returns
    -------
    ThresholdReport
        The report as a text.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.

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
    neighbourhood: str = "C9",
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

    Collective over `comm`.

    Parameters
    ----------
    data : Path or str
        Dataset made with `hpcml convert`.
    output : Path or str
        Run folder; tuning.csv has all settings, choice.csv those of each label. An existing one needs
        `resume` or `force`.
    force : bool, default False
        Replace the run if the folder holds one.
    resume : bool, default False
        Continue an interrupted run from its last checkpoint. The number of ranks may differ.
    bias : bool or None, default None
        Fit an intercept as the weight of a constant feature 1 (default). elastic-net always has an
        intercept.
    seed : int, default 0
        Random seed for dealing rows to folds and for the order of training rows.
    scale : {"standard", "max-abs", "none"} or None, default None
        Feature scaling: divide by the standard deviation without centring (standard) or by the largest
        magnitude (max-abs) over the training rows, or do not scale (none). The model stores the
        factors, so rows to predict are not scaled beforehand. Default: none, with a warning if the
        scales differ by a factor of more than 100.
    loss : str or None, default None
        Convex loss ℓ, one of the method's. Default: the method's default.
    lam : str or float or None, default None
        Value of λ that `lambdas` are multiples of, as in hpcml train METHOD. Default: the method's
        default.
    split : str or None, default None
        Split of the file to train on, or all. Default: train if the file has it.
    label : str or iterable of str, default ()
        Train only these labels.
    min_positives : int, default 1
        Train only labels with at least this number of positive rows (default: 1).
    label_part : str or None, default None
        Train only the K-th of N equal ranges of the labels, given as K/N; `hpcml merge` joins the
        models.
    precision : {"single", "double"}, default 'single'
        Precision of weights and margins: single (default) or double. Sums are exact in both.
    drop : float or None, default None
        Discard weights with a magnitude below this value and store the model sparse. See `hpcml prune`
        for the effect on quality.
    no_id_hashes : bool, default False
        Do not store hashes of the training rows in the model; `hpcml evaluate` then cannot warn about
        training rows.
    labels_per_pass : int or None, default None
        Number of labels that share a pass over the rows, per rank group (default: 16). Does not change
        the result.
    max_steps : int or None, default None
        Maximum number of steps per label; a label that reaches it is reported as not converged.
    checkpoint_every : float or None, default None
        Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5
        to 600 s).
    time_limit : float or None, default None
        Seconds of training (without loading) after which to write a checkpoint and stop with exit code
        75.
    profile : bool, default False
        Show each rank's seconds of computation, communication and waiting.
    method : str, default 'dual'
        Method to train: dual, probe, elastic-net, or another method that supports tuning according to
        the table of methods.
    folds : int, default 5
        Number of folds of the training rows, at least 3; each is scored by models trained on the other
        folds.
    by : {"map", "f1", "auc"}, default 'map'
        Measure that selects the settings, over the scores of all folds: map (mean average precision),
        f1 (F1 at the best threshold) or auc (area under the ROC curve).
    thresholds : {"label", "micro"}, default 'label'
        Choice of thresholds: label (maximises each label's F1; rare labels are pulled towards labels of
        similar frequency) or micro (one probability for all labels that maximises micro F1 in the
        folds).
    one : bool, default False
        Use one setting for all labels. Default: a setting per label; rare labels are pulled towards the
        best common setting.
    lambdas : float or iterable of float, default ()
        Multiples of `lam` to try (for elastic-net: of `l1`). Default: 0.1, 0.316, 1, 3.16 and 10, and
        further values while the best one lies at an end.
    weights : float or iterable of float, default ()
        Weights of positive rows to try (dual only). Default: 1 and 4, and further values while the best
        one lies at an end.
    l1 : str or float or None, default None
        Value of λ₁ that `lambdas` are multiples of (elastic-net only). Default: the method's default.
    comm : Comm or None, default None
        MPI communicator whose ranks share the work. Default: this process only.
    log : Log or None, default None
        Receiver of the messages. Default: the logger `hpcml`.
    signals : StopSignals or None, default None
        Signals that stop the run. Default: SIGTERM, SIGINT, SIGUSR1 and SIGHUP of this process.

    Returns
    -------
    TuneReport
        The report as a text, with the path of the model as `model`.

    Raises
    ------
    ConfigError
        If an option is invalid, or does not apply to the model or the data.
    DataError
        If a file is damaged, or cannot be read or written.
    NonFiniteError
        If a score, a loss or a gradient is not a finite number.
    Interrupted
        After a signal or the time limit, when a checkpoint has been written (`resume` continues).

    Examples
    --------
    >>> hpcml.tune("docs.h5", "tuned", folds=3, lambdas=[0.1, 1.0]).model.name
    'model.h5'
    """

if not TYPE_CHECKING:  # with all parameters
    def convert(
        source: str,
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
        test_years: str | int | Iterable[str | int] = (),
        major_topics: bool = False,
        no_check_tags: bool = False,
        vocabulary: Path | str | None = None,
        language: str | None = None,
        unindexed: bool = False,
        folder_splits: bool = False,
        encoding: str | None = None,
        text: str | Iterable[str] = (),
        labels: str | int | Iterable[str | int] = (),
        labels_as_text: bool = False,
        indicators: str | Iterable[str] = (),
        label_separator: str | None = None,
        features: str | int | Iterable[str | int] = (),
        id: str | None = None,
        split_column: str | None = None,
        missing_as_zero: bool = False,
        missing_columns_as_zero: bool = False,
        delimiter: str | None = None,
        no_quotes: bool = False,
        quotes: bool = False,
        zero_based: bool = False,
        feature_names: Path | str | None = None,
        label_names: Path | str | None = None,
        layer: str | None = None,
        raw: bool = False,
        obsm: str | None = None,
        label_xml: Path | str | None = None,
        rows: int | None = None,
        least_positives: float | None = None,
        force: bool = False,
        comm: Comm | None = None,
        log: Log | None = None,
    ) -> ConvertReport:
        """Convert texts or tables of numbers to a dataset.

        `hpcml.Dataset.from_sparse` and `hpcml.Dataset.from_frame` convert rows in memory.

        Collective over `comm`.

        Parameters
        ----------
        source : str
            Format of the input. Texts: jsonl, pubmed, annif, bioasq, folder, docstrings. Texts or numbers:
            csv, tsv, parquet, arff. Numbers: svmlight, xmc, npz, h5ad, synthetic.
        input : Path or str or iterable of Path | str
            Input file; several for csv, tsv, parquet, pubmed and annif; for npz optionally a second file
            with the labels; none for docstrings. For synthetic, the kind of rows to generate: text (a
            corpus), checkerboard, circle, gaussians or sine. Text files may be compressed (gz, bz2, xz,
            zst, zip).
        output : Path or str
            HDF5 file to write.
        empty_labels : {"none"} or None, default None
            For jsonl, csv, tsv, parquet, npz, h5ad, arff: none: a row with empty or missing labels has no
            labels and is a negative example of every label. Default: the row is unlabelled and is not used
            for training or evaluation.
        unique_ids : bool, default False
            For jsonl, csv, tsv, parquet, npz, h5ad, arff: Reject repeated ids. Default: repeated ids are
            counted in the log.
        group : str or None, default None
            For jsonl, annif, csv, tsv, parquet, h5ad, arff: Column (jsonl: key, annif: metadata field) with
            the group of each row, such as the work of an edition or the patient of a sample. Splits, folds
            and samples keep groups together. A row without a value is its own group.
        descriptors : Path or str or None, default None
            For jsonl, pubmed, bioasq, csv, tsv, parquet, xmc, npz, h5ad, arff: File with a readable title
            per label: NLM's MeSH descriptors (desc2026.xml or .gz), or lines of "name=UI" or
            `UI<tab>name<tab>tree numbers`. Titles are shown next to label names.
        fields : str or iterable of str, default ()
            For jsonl, pubmed, annif, bioasq, docstrings, csv, tsv, parquet, arff: Text fields with separate
            features. With title=T,text=A, the word crop in a title is the feature "crop T". Without =T the
            tag is the name. JSON lines and tables may have any fields with strings or lists. Default: the
            words of title and text are the same features.
        whole_fields : str or iterable of str, default ()
            For jsonl, pubmed, annif, bioasq, docstrings, csv, tsv, parquet, arff: Fields among `fields`
            whose whole values are features, such as journal names.
        headings_as_features : bool, default False
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, arff: Use the labels of
            a row as features, too, with names such as "Humans (heading)". Training a label excludes its own
            heading.
        binary : bool, default False
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, arff: Give words the
            value 1. Default: log(tf + 1) · idf with unit length.
        pairs : bool, default False
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, arff: Also use pairs of
            adjacent words, without stop words or punctuation between them.
        min_df : int, default 1
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, arff: Minimum number of
            training rows with a word.
        stop_words : Path or str or None, default None
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, arff: File with one
            word per line to exclude.
        like : Path or str or None, default None
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, svmlight, xmc, npz,
            h5ad, arff: Dataset, or run folder of a model, with the features and labels to use. Labels
            missing from it are stored as unknown.
        new_labels : bool, default False
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, svmlight, xmc, npz,
            h5ad, arff: With `like`: add labels missing from that file, after its labels.
        renamed : str or iterable of str, default ()
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, svmlight, xmc, npz,
            h5ad, arff: With `like`: renamed labels as OLD=NEW, or files with `OLD<tab>NEW` on each line.
        ignore_splits : bool, default False
            For jsonl, npz: Ignore the splits in the input (jsonl: key split; npz: array splits), for
            instance to draw new ones with `test_share`.
        test_share : float or None, default None
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, svmlight, xmc, npz,
            h5ad, arff, synthetic: Share of rows in the random split test; other rows form the split train.
            Default: no random split.
        seed : int, default 0
            For jsonl, pubmed, annif, bioasq, folder, docstrings, csv, tsv, parquet, svmlight, xmc, npz,
            h5ad, arff, synthetic: Random seed for `test_share` and for synthetic rows. Default: 0.
        skip_bad : int, default 0
            For jsonl, pubmed, annif, bioasq, folder, csv, tsv, svmlight, xmc, arff: Maximum number of bad
            records to skip; they are counted in the log and in the dataset. Default: 0, a bad record is an
            error.
        max_line_mb : int or None, default None
            For jsonl, pubmed, annif, bioasq, folder, csv, tsv, svmlight, xmc, arff: Maximum size of a line
            (csv, tsv: row; folder, annif: file; pubmed: record) in MiB. Default: 16.
        test_years : str or int or iterable of str | int, default ()
            For pubmed: Years whose citations form the split test, such as 2019, 2017-2019 or 2019- (and
            later); other citations form the split train.
        major_topics : bool, default False
            For pubmed: Use only headings that are major topics of a citation as labels.
        no_check_tags : bool, default False
            For pubmed: Exclude MeSH check tags, the headings that indexers check for every article, such as
            Humans and Adult.
        vocabulary : Path or str or None, default None
            For annif: Subject vocabulary (TSV or CSV) with the names of subjects; other subjects are
            skipped. Default: all subjects of the documents.
        language : str or None, default None
            For annif: Language of the labels in a CSV vocabulary, such as en.
        unindexed : bool, default False
            For annif: Keep documents without subjects, for prediction. Default: they are skipped.
        folder_splits : bool, default False
            For folder: The top folders (such as train, test) are splits, and their subfolders are labels.
        encoding : str or None, default None
            For folder: Encoding of the files, such as latin-1. Default: utf-8.
        text : str or iterable of str, default ()
            For csv, tsv, parquet, arff: Text columns. A word is the same feature in all of them; use
            `fields` for separate features.
        labels : str or int or iterable of str | int, default ()
            For csv, tsv, parquet, h5ad, arff, synthetic: Columns with labels (h5ad: of obs). A list is
            several labels. A row whose values are all empty is unlabelled (see `empty_labels`). synthetic
            text: number of labels.
        labels_as_text : bool, default False
            For csv, tsv, parquet, npz, h5ad, arff: Keep the values of `labels` as written. Default: in a
            column of numbers, 1 and 1.0 are one label, and 2.5 is an error.
        indicators : str or iterable of str, default ()
            For csv, tsv, parquet, h5ad, arff: Columns of 1 or True and 0 or False; each is a label with the
            name of the column. A row with an empty value is unlabelled (see `empty_labels`).
        label_separator : str or None, default None
            For csv, tsv, parquet, npz, h5ad, arff: Text between labels in one value, such as ";"; write
            `\\;` for the separator in a label and `\\\\` for `\\`. Default: a value is one label.
        features : str or int or iterable of str | int, default ()
            For csv, tsv, parquet, arff, synthetic: Numeric feature columns. Default without text: all
            columns without another role, except row numbers, pandas indexes and identifiers. synthetic
            text: number of features.
        id : str or None, default None
            For csv, tsv, parquet, h5ad, arff: Column with row names. Default for h5ad: the index of obs.
        split_column : str or None, default None
            For csv, tsv, parquet, h5ad, arff: Column with the split of each row, such as train or test.
        missing_as_zero : bool, default False
            For csv, tsv, parquet, npz, h5ad, arff: Read missing numbers as 0. Default: a missing number is
            an error.
        missing_columns_as_zero : bool, default False
            For csv, tsv, parquet, xmc, npz, h5ad, arff: With `like`: features of that file that are missing
            from the input are 0 in all rows. Default: a missing column is an error.
        delimiter : str or None, default None
            For csv: Character between columns, such as ";". Default: a comma.
        no_quotes : bool, default False
            For csv: Treat quotation marks as ordinary characters. Default: values may be quoted.
        quotes : bool, default False
            For tsv: Values may be quoted, as in "a b". Default: quotation marks are ordinary characters.
        zero_based : bool, default False
            For svmlight: Indices start at 0. Default: at 1.
        feature_names : Path or str or None, default None
            For xmc, npz: Text file with one feature name per line.
        label_names : Path or str or None, default None
            For xmc, npz: Text file with one label name per line.
        layer : str or None, default None
            For h5ad: Layer with the feature matrix. Default: X.
        raw : bool, default False
            For h5ad: Use matrix and features of raw. Default: X and var.
        obsm : str or None, default None
            For h5ad: Entry of obsm with the feature matrix; features are named NAME:0, NAME:1 and so on.
            Default: X.
        label_xml : Path or str or None, default None
            For arff: MULAN XML file; its labels are the indicators. Default: the attributes that MEKA's -C
            in the relation names, unless another option names labels.
        rows : int or None, default None
            For synthetic: Number of rows to generate.
        least_positives : float or None, default None
            For synthetic: synthetic text: minimum expected number of rows per label; may be a fraction.
            Default: no minimum.
        force : bool, default False
            Replace the output if it exists.
        comm : Comm or None, default None
            MPI communicator whose ranks share the work. Default: this process only.
        log : Log or None, default None
            Receiver of the messages. Default: the logger `hpcml`.

        Returns
        -------
        ConvertReport
            The report as a text.

        Raises
        ------
        ConfigError
            If an option is invalid, or does not apply to the model or the data.
        DataError
            If a file is damaged, or cannot be read or written.
        NonFiniteError
            If a score, a loss or a gradient is not a finite number.

        Examples
        --------
        >>> report = hpcml.convert("csv", "docs.csv", "new-docs.h5", text=["text"], labels=["topic"], test_share=0.2)
        >>> hpcml.Dataset("new-docs.h5").labels("train").shape
        (80, 2)
        """

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
        measures: Literal["bioasq"] | None = None,
        descriptors: Path | str | None = None,
        force: bool = False,
        comm: Comm | None = None,
        log: Log | None = None,
    ) -> Evaluation | BioasqEvaluation:
        """Evaluate a model: average precision, ROC AUC, F1 and others.

        Average precision, break-even point, ROC AUC, F1 and the number of misclassified rows are computed for each label, as their
        mean over labels (macro), and over all row-label pairs in one ranking (micro). Average precision and break-even point are
        averaged over the orders of tied scores. Precision, nDCG and propensity-scored precision of the 1, 3 and 5 best labels are
        means over rows, and so is the F1 of each row's labels.

        Collective over `comm`.

        Parameters
        ----------
        model : Path or str or Model or ClassifierModel
            Run folder, or model file (model.h5).
        data : Path or str
            Dataset with the features and labels of the model.
        split : str or None, default None
            Rows to evaluate on: a split of the dataset, or all. Default: test if the dataset has it, else
            all.
        labels : int or iterable of int or None, default None
            Indices of the model's labels to evaluate. Default: all; labels that the model does not know
            then count as missed.
        threshold : float or None, default None
            Threshold for all labels. Default: the thresholds of the model, or 0 if it has none.
        csv : Path or str or None, default None
            CSV file for the measures of each label. Default: none.
        json : Path or str or None, default None
            JSON file for all results. Default: none.
        best : int, default 5
            Number of best and of worst labels to print. Among many labels, those with fewer than 3 positive
            rows are not listed.
        measures : {"bioasq"} or None, default None
            bioasq: only the measures of BioASQ task a: micro, macro and example-based F1, and accuracy, at
            the thresholds.
        descriptors : Path or str or None, default None
            NLM's file of MeSH descriptors, or a table with tree numbers, to add the hierarchical measure
            LCA-F. Default: none.
        force : bool, default False
            Replace the CSV or JSON file if it exists.
        comm : Comm or None, default None
            MPI communicator whose ranks share the work. Default: this process only.
        log : Log or None, default None
            Receiver of the messages. Default: the logger `hpcml`.

        Returns
        -------
        Evaluation | BioasqEvaluation
            The measures, the same on all ranks; with `measures` those of BioASQ.

        Raises
        ------
        ConfigError
            If an option is invalid, or does not apply to the model or the data.
        DataError
            If a file is damaged, or cannot be read or written.
        NonFiniteError
            If a score, a loss or a gradient is not a finite number.

        Examples
        --------
        >>> hpcml.evaluate("run", "docs.h5").macro("average_precision")
        1.0
        """

    def explain(
        model: Path | str | Model | ClassifierModel,
        data: Path | str | None = None,
        *,
        label: str | Iterable[str] = (),
        row: str | Iterable[str] = (),
        wrong: int | None = None,
        unlearnt: bool = False,
        split: str | None = None,
        top: int | None = None,
        titles: Path | str | None = None,
        json: Path | str | None = None,
        force: bool = False,
        shown_only: bool = False,
        comm: Comm | None = None,
        log: Log | None = None,
    ) -> Answer:
        """Show important features of labels and of predictions.

        Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
        contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
        labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

        Collective over `comm`.

        Parameters
        ----------
        model : Path or str or Model or ClassifierModel
            Run folder, or model file (model.h5).
        data : Path or str or None, default None
            Dataset with the features of the model, for `row`, `wrong` and `unlearnt`.
        label : str or iterable of str, default ()
            Labels to explain. Default: the 5 most frequent ones; with `row` the true labels, the predicted
            labels and the 3 labels with the highest scores; with `wrong` all labels together.
        row : str or iterable of str, default ()
            Ids of rows whose scores to explain, or their indices (from 0) if the dataset has no ids.
        wrong : int or None, default None
            Number of false negatives, and of false positives, to show: those farthest from the threshold
            first.
        unlearnt : bool, default False
            Show labels that the model ranks no better than chance, and labels with nearly the same rows.
        split : str or None, default None
            Rows for `wrong` and `unlearnt`: a split of the dataset, or all. Default: test if the dataset
            has it, else all.
        top : int or None, default None
            Number of features to show for each label or row. Default: 10.
        titles : Path or str or None, default None
            JSON lines with the titles of the rows for `wrong`, such as the file that was converted.
            Default: print ids only.
        json : Path or str or None, default None
            JSON file for the features of the given labels (or of all), or for the result of `row`, `wrong`
            or `unlearnt`.
        force : bool, default False
            Replace the JSON file if it exists.
        shown_only : bool, default False
            Without `label` and `json`, explain only the labels that are printed.
        comm : Comm or None, default None
            MPI communicator whose ranks share the work. Default: this process only.
        log : Log or None, default None
            Receiver of the messages. Default: the logger `hpcml`.

        Returns
        -------
        Answer
            By default an `Explanation` on rank 0 and None on other ranks; its `labels` are all labels.

            With `row` a `WhyRows`, with `wrong` a `MostWrong`, with `unlearnt` a `Learnability`, on all ranks. `str` formats each of
            them, and `as_dict()` returns its content.

        Raises
        ------
        ConfigError
            If an option is invalid, or does not apply to the model or the data.
        DataError
            If a file is damaged, or cannot be read or written.
        NonFiniteError
            If a score, a loss or a gradient is not a finite number.

        Examples
        --------
        >>> explanation = hpcml.explain("run", label=["sea"])
        >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
        """

    def train(
        method: str,
        data: Path | str,
        output: Path | str,
        *,
        force: bool = False,
        resume: bool = False,
        bias: bool | None = Ellipsis,
        epsilon: float = Ellipsis,
        dormant: bool = True,
        seed: int = 0,
        ranks_per_group: int | None = None,
        scale: Literal["standard", "max-abs", "none"] | None = None,
        loss: Literal["hinge", "huber", "logistic"] | Literal["squared-hinge", "hinge", "logistic"] | Literal["hinge"] | Literal["logistic", "squared"] = Ellipsis,
        lam: str | float = Ellipsis,
        split: str | None = None,
        label: str | Iterable[str] | None = Ellipsis,
        min_positives: int = 1,
        label_part: str | None = None,
        precision: Literal["single", "double"] = "single",
        drop: float | None = Ellipsis,
        no_id_hashes: bool = False,
        labels_per_pass: int | None = None,
        max_steps: int | None = None,
        checkpoint_every: float | None = None,
        time_limit: float | None = None,
        profile: bool = False,
        positive_weight: str | float = "1",
        max_gap: float | None = None,
        show_gaps: bool = False,
        dual_tol: float = 0.1,
        svmperf_epsilon: float = 0.1,
        liblinear_tol: float = 0.1,
        l1: str | float = "0.01N/m",
        path: str | float | Iterable[str | float] = (),
        initial_model: Path | str | None = None,
        solver: Literal["newton", "fobos", "sgd"] = "newton",
        rate: Literal["decaying", "constant", "adagrad"] = "decaying",
        eta: float | None = None,
        passes: int = 40,
        exclude: str | Iterable[str] = (),
        smoothing: float = 0.5,
        min_weight: float = 1.5,
        rounds: int = Ellipsis,
        trim: float = 0.2,
        stages: int = 2,
        cut: float = 2.9444389791664403,
        factor: float = Ellipsis,
        svm_c: float = 0.1,
        svm_tol: float = 0.01,
        chi_square: float = 3.84,
        alpha: float = 1.5,
        beta: float = 0.5,
        theta: float = 1.0,
        margin: float = 1.0,
        live_features: int | None = None,
        share: float = 0.9,
        voted: bool = False,
        shuffle: bool = False,
        final: bool = False,
        zero_based: bool = False,
        max_line_mb: int | None = None,
        gamma: float = 0.1,
        base: str | Iterable[str] = Ellipsis,
        grid: str = "3x3",
        neighbourhood: str = "C9",
        replace: float = 0.2,
        cycles: int = 20,
        validation_share: float = 0.1,
        judge: Literal["error", "auc"] = "error",
        patience: int | None = None,
        asynchronous: bool = False,
        device: Literal["cpu", "gpu"] = "cpu",
        slow_rank: int | None = None,
        slow_factor: float = 2.0,
        comm: Comm | None = None,
        log: Log | None = None,
        signals: StopSignals | None = None,
    ) -> Report:
        """Train a classifier for each label, or one for all classes.

        The run folder gets the model, its configuration, a log, and checkpoints while the run lasts.

        Collective over `comm`.

        Parameters
        ----------
        method : str
            Name of the method, such as "dual" (see `hpcml train --help`).
        data : Path or str
            Dataset; for the single-pass methods also svmlight text.
        output : Path or str
            Run folder. An existing one needs `resume` or `force`.
        force : bool, default False
            Replace the run if the folder holds one.
        resume : bool, default False
            Continue an interrupted run from its last checkpoint. The number of ranks may differ.
        bias : bool or None, optional
            For probe, dual, svmperf, liblinear: Fit an intercept as a regularised constant feature
            (default). `--no-bias` reproduces the PROBE paper and lowers quality, most for rare labels. For
            pa, perceptron, romma: Fit an intercept as the weight of a constant feature 1 (default).
        epsilon : float, optional
            For probe: Stopping tolerance for φ, the estimated relative distance from the minimum (default:
            0.05). The real distance can be several times as large. For pa: Margin: rows with at least this
            score on the correct side cause no update.
        dormant : bool, default True
            For probe: Skip rows that have not violated the margin for 10 steps, for 5 to 15 steps at a time
            (default). `dormant=False` visits all rows.
        seed : int, default 0
            For probe: Random seed for the number of steps that a row is skipped (default: 0). For dual,
            liblinear: Random seed for the order of rows. For elastic-net: Random seed for the order of rows
            (default: 0). With newton it changes the result only within the gap. For mbw, pa, bw, pw,
            perceptron, romma: Random seed for `shuffle`. For psbml: Random seed for the distribution and
            the replacement of rows. For adaboost: Random seed of the base learner.
        ranks_per_group : int or None, default None
            For probe, pegasos, svmperf: Number of ranks that share the rows; labels are distributed over
            groups of this size. Default: chosen by memory and number of labels. Does not change the result.
            For dual: Number of ranks that share the rows; labels are distributed over groups of this size
            (default: 1). Values above 1 change the model within the tolerance.
        scale : {"standard", "max-abs", "none"} or None, default None
            For probe, dual, pegasos, svmperf, liblinear, elastic-net: Feature scaling: divide by the
            standard deviation without centring (standard) or by the largest magnitude (max-abs) over the
            training rows, or do not scale (none). The model stores the factors, so rows to predict are not
            scaled beforehand. Default: none, with a warning if the scales differ by a factor of more than
            100.
        loss : {"hinge", "huber", "logistic"} or {"squared-hinge", "hinge", "logistic"} or {"hinge"} or {"logistic", "squared"}, optional
            For probe: Convex loss ℓ: hinge, huber (modified Huber) or logistic. For dual: Convex loss ℓ:
            squared-hinge, hinge or logistic. For pegasos, svmperf, liblinear: Convex loss ℓ: hinge. For
            elastic-net: Convex loss ℓ of the score z, for y = ±1: logistic, log(1 + exp(−y z)), or squared,
            ½ (z − y)².
        lam : str or float, optional
            For probe, dual, pegasos, svmperf, liblinear: Regularisation λ: X/m, 0.1X/m, X/NUMBER, NUMBER/m
            or NUMBER, where X is the squared mean norm of the m training rows. For elastic-net: Strength λ₂
            of the penalty ‖w‖²/2: X/m, 0.1X/m, X/NUMBER, NUMBER/m or NUMBER, where X is the squared mean
            norm of the m training rows.
        split : str or None, default None
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Split of the file to train on, or all. Default: train if the file has it. For
            mbw, pa, bw, pw, perceptron, romma, psbml, adaboost: Split of the dataset to train on, or all.
            Default: train if the file has it.
        label : str or iterable of str or None, optional
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Train only these labels. For mbw, pa, bw, pw, perceptron, romma: Train only
            these labels. Required for a stream with labels other than -1 and +1. For psbml, adaboost: Label
            to train against all other rows. Default: the only label, or every label as a class.
        min_positives : int, default 1
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Train only labels with at least this number of positive rows (default: 1).
            For mbw, pa, bw, pw, perceptron, romma: Minimum number of positive rows of a label to train (not
            for a stream).
        label_part : str or None, default None
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Train only the K-th of N equal ranges of the labels, given as K/N; `hpcml
            merge` joins the models.
        precision : {"single", "double"}, default 'single'
            For probe, dual, pegasos, svmperf, liblinear, elastic-net: Precision of weights and margins:
            single (default) or double. Sums are exact in both.
        drop : float or None, optional
            For probe, dual, pegasos, svmperf, liblinear: Discard weights with a magnitude below this value
            and store the model sparse. See `hpcml prune` for the effect on quality. For elastic-net:
            Discard weights with a magnitude below this value (default: 0, which discards zeros). See `hpcml
            prune` for the effect on quality.
        no_id_hashes : bool, default False
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Do not store hashes of the training rows in the model; `hpcml evaluate` then
            cannot warn about training rows. For mbw, pa, bw, pw, perceptron, romma, psbml, adaboost: Do not
            store hashes of the training rows in the model; hpcml evaluate then cannot detect training rows.
        labels_per_pass : int or None, default None
            For probe, dual, pegasos, svmperf, liblinear: Number of labels that share a pass over the rows,
            per rank group (default: 16). Does not change the result.
        max_steps : int or None, default None
            For probe: Maximum number of steps per label; a label that reaches it is reported as not
            converged. Default: 5000. For dual: Maximum number of passes over all rows per label (default:
            1000); a pass over part of the rows counts as that fraction. A label that reaches the limit gets
            its best weights and is reported as not converged. For pegasos: Number of steps (default: 500);
            there is no stopping rule. For svmperf: Maximum number of cutting planes per label (default:
            5000); a label that reaches it is reported as not converged. For liblinear: Maximum number of
            passes per label; a label that reaches it is reported as not converged. Default: 20000. For
            elastic-net: Maximum number of feature selection rounds of newton (default: 100); a label that
            reaches it is reported as not converged.
        checkpoint_every : float or None, default None
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm, mbw, pa, bw, pw, perceptron, romma, psbml: Seconds between checkpoints.
            Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s).
        time_limit : float or None, default None
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Seconds of training (without loading) after which to write a checkpoint and
            stop with exit code 75. For mbw, pa, bw, pw, perceptron, romma, psbml: Seconds of training after
            which to write a checkpoint and stop with exit code 75.
        profile : bool, default False
            For probe, dual, pegasos, svmperf, liblinear, elastic-net, bernoulli-nb, boosted-bayes, staged-
            bayes, staged-svm: Show each rank's seconds of computation, communication and waiting. For mbw,
            pa, bw, pw, perceptron, romma: Show the seconds that rank 0 spent on reading, training and
            writing. For psbml: Show the seconds that each rank spent on training, testing, exchange and
            assessment.
        positive_weight : str or float, default '1'
            For dual: Weight of positive rows: a number, or balanced (number of negative rows / number of
            positive rows). Default: 1.
        max_gap : float or None, default None
            For dual: Also require a relative duality gap (gap / objective) of at most this value. Default:
            no limit. For elastic-net: Relative duality gap (gap / objective) at which newton stops training
            a label. Default: 1e-5.
        show_gaps : bool, default False
            For dual, elastic-net: Show the objective and the certified duality gap of every label.
        dual_tol : float, default 0.1
            For dual: Stopping tolerance for the range of the projected gradients, as in LIBLINEAR (default:
            0.1). Lower values cost more passes.
        svmperf_epsilon : float, default 0.1
            For svmperf: Bound on f(w) − min f at which training stops, in percent (default: 0.1, which
            means 0.001).
        liblinear_tol : float, default 0.1
            For liblinear: LIBLINEAR's stopping tolerance (default: 0.1).
        l1 : str or float, default '0.01N/m'
            For elastic-net: Strength λ₁ of the penalty ‖w‖₁: N/m, 0.1N/m, NUMBER/m or NUMBER, where N is
            the mean norm of the m training rows. Larger values give sparser models.
        path : str or float or iterable of str | float, default ()
            For elastic-net: Values of λ₁ to train one after another instead of `l1`, each starting from the
            previous weights (newton only). Writes the run folders path-1, path-2, … and path.csv with the
            sparsity of each.
        initial_model : Path or str or None, default None
            For elastic-net: Model of the same rows to start from (newton only). It saves time and changes
            the result within the gap. For mbw, pa, bw, pw, perceptron, romma: Model of the same method and
            options whose pass is continued with these rows.
        solver : {"newton", "fobos", "sgd"}, default 'newton'
            For elastic-net: Solver: newton (exact), or stochastic gradient descent with delayed
            regularisation by forward-backward splitting (fobos) or truncated gradients (sgd).
        rate : {"decaying", "constant", "adagrad"}, default 'decaying'
            For elastic-net: Learning rate of fobos and sgd: decaying (η (1 − t)², where t goes from 0 to 1
            over all passes), constant, or adagrad (η / √(1 + sum of the feature's squared gradients)).
        eta : float or None, default None
            For elastic-net: Learning rate factor η of fobos and sgd. Default with decaying: 12/X for the
            logistic loss, 1.5 / (largest squared norm of a row) for the squared loss; with constant a sixth
            of that; with adagrad 1.
        passes : int, default 40
            For elastic-net: Passes over the rows of fobos and sgd (default: 40).
        exclude : str or iterable of str, default ()
            For bernoulli-nb, boosted-bayes, staged-bayes, staged-svm: Headings that no label may use as a
            feature (data with headings as features). A label never uses its own heading.
        smoothing : float, default 0.5
            For bernoulli-nb, boosted-bayes, staged-bayes, staged-svm: Pseudo-count added to each of the
            four counts of a feature and a label (rows with and without either).
        min_weight : float, default 1.5
            For bernoulli-nb, boosted-bayes, staged-bayes, staged-svm: Minimum magnitude of a weight;
            features with smaller weights are dropped. 0 keeps every feature of a positive row.
        rounds : int, optional
            For boosted-bayes: Maximum number of boosting rounds; a label without training errors stops
            earlier. For adaboost: Number of classifiers, trained one after another.
        trim : float, default 0.2
            For boosted-bayes: Share of the total weight whose rows are skipped in the next round: the rows
            with the smallest errors.
        stages : int, default 2
            For staged-bayes: Number of stages; each is trained on the positive rows and the negative rows
            that passed `cut` in all stages before.
        cut : float, default 2.9444389791664403
            For staged-bayes, staged-svm: Score from which a row enters the next stage. Default: log 19, the
            log-odds of a probability of 95 %.
        factor : float, optional
            For staged-bayes: Factor of the scores of the later stages in the sum with the first score. For
            staged-svm: Factor of the SVM score in the sum with the naive Bayes score.
        svm_c : float, default 0.1
            For staged-svm: Regularisation parameter C of the SVM.
        svm_tol : float, default 0.01
            For staged-svm: Tolerance of the SVM's optimality conditions.
        chi_square : float, default 3.84
            For staged-svm: Minimum chi-square statistic, over the training rows of the SVM, of the features
            that the SVM uses.
        alpha : float, default 1.5
            For mbw, bw, pw: Promotion factor: after a false negative, the weights of the row's features are
            multiplied by this.
        beta : float, default 0.5
            For mbw, bw, pw: Demotion factor: the same after a false positive.
        theta : float, default 1.0
            For mbw, bw, pw: Threshold of the score.
        margin : float, default 1.0
            For mbw: Minimum distance of a correct score from the threshold; a smaller distance counts as a
            mistake.
        live_features : int or None, default None
            For mbw, bw: Maximum number of features in memory; when it is reached, the least important
            features are dropped (extremal selection). Memory is allocated at the start.
        share : float, default 0.9
            For mbw, bw: With `live_features`: share of the remaining features with the largest weights; the
            others have the smallest weights.
        voted : bool, default False
            For mbw, pa, bw, pw, perceptron, romma: Use the average of all intermediate weight vectors, each
            weighted by the number of rows it classified correctly.
        shuffle : bool, default False
            For mbw, pa, bw, pw, perceptron, romma: Shuffle the rows (not for a stream). The result of these
            learners depends on the row order.
        final : bool, default False
            For mbw, pa, bw, pw, perceptron, romma: Save only the weights (3 to 6 times smaller); the model
            then cannot be used with `initial_model` or EFS.
        zero_based : bool, default False
            For mbw, pa, bw, pw, perceptron, romma: For a stream: indices start at 0. Default: at 1.
        max_line_mb : int or None, default None
            For mbw, pa, bw, pw, perceptron, romma: For a stream: maximum length of a line, in MiB. Default:
            16.
        gamma : float, default 0.1
            For pa: Relaxation; larger values take smaller steps.
        base : str or iterable of str, optional
            For psbml: Base learner: kernel-nb, gaussian-nb, tree, stump, linear-svm, or the dotted path of
            a scikit-learn classifier, followed by its options as NAME=VALUE. Example: `base` tree
            max_depth=5. For adaboost: Base learner and its options, as for psbml; it must accept sample
            weights.
        grid : str, default '3x3'
            For psbml: Size of the torus, WIDTHxHEIGHT nodes. The rows are distributed over the nodes; ranks
            without a node only assess cycles.
        neighbourhood : str, default 'C9'
            For psbml: Neighbourhood in which nodes exchange rows: L5, L9, C9 or C13 (shape and number of
            nodes).
        replace : float, default 0.2
            For psbml: Probability with which a row of a node is replaced in a cycle.
        cycles : int, default 20
            For psbml: Number of cycles of every node (with `asynchronous`: of the nodes of the fastest
            rank).
        validation_share : float, default 0.1
            For psbml: Share of the training rows of each class that is held out to assess the cycles.
        judge : {"error", "auc"}, default 'error'
            For psbml: Measure on the held-out rows that selects the best cycle: error, or auc (area under
            the ROC curve; two classes only). With auc, the same rows also select the threshold.
        patience : int or None, default None
            For psbml: Stop after this number of cycles without improvement. Default: run all `cycles`.
        asynchronous : bool, default False
            For psbml: Nodes do not wait for their neighbours: faster if ranks differ in speed, but not
            reproducible.
        device : {"cpu", "gpu"}, default 'cpu'
            For psbml: Device that scores rows: cpu, or gpu (naive Bayes only; last bits differ).
        slow_rank : int or None, default None
            For psbml: For experiments: rank that is slowed down.
        slow_factor : float, default 2.0
            For psbml: For experiments: factor by which `slow_rank` is slower.
        comm : Comm or None, default None
            MPI communicator whose ranks share the work. Default: this process only.
        log : Log or None, default None
            Receiver of the messages. Default: the logger `hpcml`.
        signals : StopSignals or None, default None
            Signals that stop the run. Default: SIGTERM, SIGINT, SIGUSR1 and SIGHUP of this process.

        Returns
        -------
        Report
            The report as a text, with the path of the model as `model`.

        Raises
        ------
        ConfigError
            If an option is invalid, or does not apply to the model or the data.
        DataError
            If a file is damaged, or cannot be read or written.
        NonFiniteError
            If a score, a loss or a gradient is not a finite number.
        Interrupted
            After a signal or the time limit, when a checkpoint has been written (`resume` continues).

        Examples
        --------
        >>> hpcml.train("dual", "docs.h5", "sea-only", dual_tol=0.01, label=["sea"]).model.name
        'model.h5'
        """
