"""The functions for Python about models: what commands do, with errors about parameters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Never

from hpcml.api_session import errors_in_python, opened_model, options_of, path_of, python_session, refuse_mapping
from hpcml.errors import ConfigError

if TYPE_CHECKING:
    from hpcml.crossval.table import CrossValidation
    from hpcml.evaluation.evaluate import Evaluation
    from hpcml.evaluation.explain import Explanation, WhyRows
    from hpcml.evaluation.thresholds import CalibrationReport, ThresholdReport
    from hpcml.evaluation.unlearnt import Learnability
    from hpcml.evaluation.wrong import MostWrong
    from hpcml.log import Log
    from hpcml.methods.linear.report import TrainReport
    from hpcml.methods.method import Report
    from hpcml.model.classifier import ClassifierModel
    from hpcml.model.linear import Model
    from hpcml.mpi import Comm
    from hpcml.options import Value
    from hpcml.signals import StopSignals
    from hpcml.tuning.report import TuneReport


def train(
    method: str,
    data: Path | str,
    output: Path | str,
    *mapping: Never,
    comm: Comm | None = None,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
    signals: StopSignals | None = None,
    **options: Value,
) -> Report:
    """Collective over `comm`. Train with a method of `hpcml train` into the run folder `output`.

    Parameters
    ----------
    method : str
        A name in `hpcml.methods.registry.METHODS`, such as "dual".
    data : path
        A dataset; for the single-pass methods also svmlight text.
    output : path
        The run folder, which must not exist without `force` or `resume`.
    comm : mpi4py communicator or None
        The ranks that take part; None: this process alone.
    force, resume : bool
        Begin anew in an existing run folder, or continue an interrupted run.
    log, signals
        Who hears the messages (else the logger `hpcml`); what stops the run (else signals).
    **options
        Of the method, by the flags with `_` for `-`, and `lam`: `dual_tol=0.01, label=["sea"]`.

    Returns
    -------
    Report
        A text, with the path of the model as `model`.

    Raises
    ------
    ConfigError, DataError, NonFiniteError, InUseError
        For what can be mended.
    Interrupted
        After a signal or the time limit, when a checkpoint has been written.
    """
    from hpcml.methods import registry
    from hpcml.run.session import Target

    with python_session(comm, log, signals) as session:
        refuse_mapping(mapping, options)
        found = options_of(registry.method_named(method).options, options, method, f"hpcml train {method} --help")
        return registry.train(method, session, Path(data), Target(Path(output), force, resume), found)


def tune(
    data: Path | str,
    output: Path | str,
    *,
    comm: Comm | None = None,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
    signals: StopSignals | None = None,
    **options: Value,
) -> TuneReport:
    """Collective over `comm`. As `hpcml tune`: λ and weights of each label by cross-validation.

    The options are the command's, by the flags with `_` for `-`, and `lam`; the others are those of
    `train`. Returns a text, with the path of the model as `model`. Raises what `train` does.
    """
    from hpcml.run.session import Target
    from hpcml.tuning.options import TuneOptions
    from hpcml.tuning.tune import tune as work

    with python_session(comm, log, signals) as session:
        found = options_of(TuneOptions, options, "tune", "hpcml tune --help")
        return work(session, Path(data), Target(Path(output), force, resume), found)


def retrain(
    run: Path | str,
    data: Path | str,
    output: Path | str,
    *,
    comm: Comm | None = None,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Collective over `comm`. As `hpcml retrain`: a finished run of `train dual` on new data.

    Returns a text, with the path of the model as `model`. Raises what `train` does.
    """
    from hpcml.methods.retrain import retrain as work
    from hpcml.run.session import Target

    with python_session(comm, log, signals) as session:
        return work(session, Path(run), Path(data), Target(Path(output), force, resume))


def predict(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    output: Path | str,
    *,
    split: str = "all",
    labels: bool = False,
    probabilities: bool = False,
    top: int | None = None,
    threshold: float | None = None,
    comm: Comm | None = None,
    force: bool = False,
    log: Log | None = None,
) -> Path:
    """Collective over `comm`. Write rows' scores (or `labels`, or the `top` best) to `output`.

    With `probabilities` these take the place of the scores (see `calibrate`; a model of log-odds
    has its own). The ending of `output` (.h5, .csv, .svm) says how it is written. Labels are those
    with a score above `threshold`; None is the model's thresholds. Returns the path. Raises
    ConfigError or DataError.
    """
    from hpcml.prediction.predict import predict as work
    from hpcml.prediction.texts import what_of
    from hpcml.run.session import opened_both

    with python_session(comm, log) as session, opened_both(session, model, data, threshold) as (opened, dataset):
        work(session.comm, opened, dataset, split, Path(output), what_of(labels, probabilities), force, session.log, top)
    return Path(output)


def evaluate(
    model: Path | str | Model | ClassifierModel,
    data: Path | str,
    *,
    split: str | None = None,
    labels: Sequence[int] | None = None,
    threshold: float | None = None,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Evaluation:
    """Collective over `comm`. Judge a model on a split of a dataset (by default test, if there).

    `labels` are numbers in the model; None is all. Labels of the rows that the model does not know
    count as missed, unless `labels` says which ones are judged. `threshold` is for all labels; None
    is the model's thresholds. The same on all ranks. Raises ConfigError, DataError or
    NonFiniteError.
    """
    from hpcml.evaluation.evaluate import evaluate as work
    from hpcml.evaluation.hints import hint_at_low_recall
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.run.session import opened_both

    with python_session(comm, log) as session, opened_both(session, model, data, threshold) as (opened, dataset):
        judged = split_to_judge(session.comm, dataset, split, session.log)
        found = work(session.comm, opened, dataset, judged, session.log, None if labels is None else list(labels))
        hint_at_low_recall(session.log, found, opened, dataset)
        return found


def threshold(
    model: Path | str,
    data: Path | str,
    measure: str,
    *,
    split: str | None = None,
    output: Path | str | None = None,
    method: str | None = None,
    min_positives: int | None = None,
    chance: float | None = None,
    comm: Comm | None = None,
    force: bool = False,
    log: Log | None = None,
) -> ThresholdReport:
    """Collective over `comm`. As `hpcml threshold`: store thresholds in the model, or in `output`.

    Returns a text, with the thresholds as `found.thresholds`. Raises ConfigError, DataError or
    NonFiniteError.
    """
    from hpcml.evaluation.thresholds import ThresholdSearch
    from hpcml.evaluation.thresholds import threshold as work
    from hpcml.run.session import opened_both

    search = ThresholdSearch(measure, method, min_positives, chance)
    with python_session(comm, log) as session, opened_both(session, model, data) as (opened, dataset):
        return work(session.comm, opened, dataset, split, search, path_of(output), force, session.log)


def calibrate(
    model: Path | str,
    data: Path | str,
    *,
    split: str | None = None,
    output: Path | str | None = None,
    comm: Comm | None = None,
    force: bool = False,
    log: Log | None = None,
) -> CalibrationReport:
    """Collective over `comm`. As `hpcml calibrate`: store sigmoids in the model, or in `output`.

    Returns a text, with slope and offset of each label as `sigmoids`. Raises ConfigError, DataError
    or NonFiniteError.
    """
    from hpcml.evaluation.thresholds import calibrate as work
    from hpcml.run.session import opened_both

    with python_session(comm, log) as session, opened_both(session, model, data) as (opened, dataset):
        return work(session.comm, opened, dataset, split, path_of(output), force, session.log)


def explain(
    model: Path | str | Model | ClassifierModel,
    data: Path | str | None = None,
    *,
    label: Sequence[str] = (),
    row: Sequence[str] = (),
    wrong: int | None = None,
    unlearnt: bool = False,
    split: str | None = None,
    top: int = 10,
    titles: Path | str | None = None,
    comm: Comm | None = None,
    log: Log | None = None,
) -> Explanation | WhyRows | MostWrong | Learnability | None:
    """Collective over `comm`. What labels of a linear model look at, or another question about it.

    By default the `top` features of labels by squared weight, and what the others weigh. Without
    names (`label`) all labels are looked at. `data` is a dataset with the model's features, for
    their names. Returns an `Explanation` on rank 0, None elsewhere: a text about the labels that
    are named, else about the five of the most training rows, with all looked at as `labels`.

    One of these asks something else of the data; what is returned is a text, with everything as
    `as_dict()`, on all ranks:

    - `row`, ids of rows (numbers, where the data have no ids): why they got labels, a `WhyRows`
      with a `Why` for each as `found`;
    - `wrong`, a number: so many rows of `split` (by default test) that the model is most wrong
      about, a `MostWrong`; `titles`, JSON lines, say what these are called;
    - `unlearnt=True`: the labels that it ranks no better than chance on `split`, and why, a
      `Learnability`.

    Raises ConfigError, DataError or NonFiniteError.
    """
    from hpcml.cli.look import ExplainOptions
    from hpcml.run.session import opened_dataset

    with python_session(comm, log) as session:
        asked = ExplainOptions(tuple(label), tuple(row), wrong, unlearnt, split, top, path_of(titles))
        if len(asked.asked) > 1:
            raise ConfigError("row, wrong and unlearnt are different questions; ask one at a time")
        if asked.asked and data is None:
            raise ConfigError("row, wrong and unlearnt need the data")
        if split is not None and wrong is None and not unlearnt:
            raise ConfigError("--split has no effect without --wrong or --unlearnt; leave it out")
        opened = opened_model(session.comm, model)
        with nullcontext() if data is None else opened_dataset(session, data) as dataset:
            return asked.answer(session, opened, dataset, every=True)


def report(
    runs: Sequence[Path | str] | Path | str,
    output: Path | str,
    *,
    data: Path | str | None = None,
    split: str | None = None,
    titles: Path | str | None = None,
    comm: Comm | None = None,
    force: bool = False,
    log: Log | None = None,
) -> Path:
    """Collective over `comm`. As `hpcml report`: judge runs, or models, on one page of HTML.

    `data` None: each run's own. `split` None: test, if the data have it. `titles`: JSON lines with
    those of rows, as those that the data were made of. Needs the packages of
    `pip install 'hpcml[report]'`. Returns the path. Raises ConfigError, DataError or
    NonFiniteError; then there is no page.
    """
    from hpcml.reporting.report import report as work

    with python_session(comm, log) as session:
        paths = [Path(run) for run in ([runs] if isinstance(runs, (str, Path)) else runs)]
        return work(session.comm, paths, path_of(data), split, Path(output), force, session.log, path_of(titles))


def open_model(path: Path | str) -> Model | ClassifierModel:
    """The model in a file, of whatever kind. Local. Raises DataError if it is no sound model."""
    from hpcml.model.open import open_model as work

    with errors_in_python():
        return work(path)


def cross_validate(
    methods: Sequence[str],
    data: Sequence[Path | str],
    *,
    folds: int = 5,
    label: Sequence[str] = (),
    split: str = "all",
    seed: int = 0,
    baseline: str | None = None,
    in_order: bool = False,
    scale: str = "none",
    bias: bool = True,
    comm: Comm | None = None,
    log: Log | None = None,
) -> CrossValidation:
    """Collective over `comm`. As `hpcml.crossval.cross_validate`: F1 of methods on files, in folds.

    Raises ConfigError or DataError.
    """
    from hpcml.crossval.validate import cross_validate as work

    with python_session(comm, log) as session:
        options = {"folds": folds, "label": label, "split": split, "seed": seed, "baseline": baseline, "scale": scale}
        return work(session.comm, methods, data, session.log, **options, in_order=in_order, bias=bias)
