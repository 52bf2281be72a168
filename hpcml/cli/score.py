"""The commands that score rows: `hpcml predict`, `evaluate`, `threshold`, `calibrate`, `prune`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from hpcml.cli.session import (
    Here,
    JudgedData,
    JudgedSplit,
    ModelFile,
    Output,
    Replace,
    check_files,
    say_once,
    write_files,
)
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several

if TYPE_CHECKING:
    from hpcml.prediction.texts import What


@Parameter(name="*")
@dataclass(frozen=True)
class PredictOptions:
    """Options of `hpcml predict`."""

    split: str = "all"
    """Rows to score: a split of the file, or all."""
    labels: Flag = False
    """Write the labels instead of the scores: those with a score above the model's thresholds, or
    else above 0.
    """
    threshold: float | None = None
    """Take this threshold for all labels. Default: those of the model."""
    probabilities: Flag = False
    """Write probabilities instead of the scores: those of hpcml calibrate, or else of log-odds
    (--loss logistic).
    """
    top: int | None = None
    """Write only so many labels of each row, with their scores: the best ones; of equal scores
    those that the model lists first.
    """
    zero_based: Flag = False
    """The indices of the text start at 0."""
    max_line_mb: int | None = None
    """The longest line of the text that is read, in MiB. Default: 16."""
    format: Literal["csv", "svm", "bioasq"] | None = None
    """What to write to standard output; default: csv. bioasq: the labels of a dataset's rows, to
    .json, as BioASQ takes them.
    """

    def what(self, output: Path) -> What:
        """What is written for each row. Raises ConfigError."""
        from hpcml.prediction.texts import BIOASQ, what_of

        bioasq = self.format == "bioasq"
        if bioasq and output.suffix.lower() != BIOASQ:
            raise ConfigError(f"{output}: BioASQ's format is JSON; the name must end in {BIOASQ}")
        return what_of(self.labels or (bioasq and self.top is None and not self.probabilities), self.probabilities)

    def check(self, what: What, text: bool) -> None:
        """Raise ConfigError for options that have no effect on a dataset, or on a text."""
        if text and self.split != "all":
            raise ConfigError(f"--split {self.split}: a text has no splits; make a dataset of it (hpcml convert)")
        if text and self.format == "bioasq":
            raise ConfigError("--format bioasq: a text has no ids of its rows; make a dataset (hpcml convert)")
        if not text and (self.zero_based or self.format in ("csv", "svm") or self.max_line_mb is not None):
            raise ConfigError("--zero-based, --max-line-mb and --format are for text; leave them out")
        if self.threshold is not None and what != "labels":
            raise ConfigError("--threshold has no effect without --labels; leave it out")


def predict(
    model: ModelFile,
    data: Path,
    /,
    *,
    output: Output,
    options: PredictOptions = PredictOptions(),
    force: Replace = False,
    session: Here,
) -> None:
    """Score or label rows with a model.

    Scores, labels or probabilities go to .h5, .csv, .svm or .json (BioASQ); those of lines of
    svmlight text, as they come, to .csv or .svm.

    Parameters
    ----------
    data:
        A dataset with the model's features (convert it with --like the training file); or svmlight
        text (plain, gz, bz2, xz), - for standard input. A text does not name its features: its
        indices are taken for the places of the model's features, from 1.
    output:
        The file to make; its ending chooses the format. For text also - for standard output.
    """
    from hpcml.data.svmlight_stream import is_text
    from hpcml.files.lines import line_limit
    from hpcml.model.open import share_model
    from hpcml.mpi import run_on_root
    from hpcml.prediction.predict import predict as work
    from hpcml.prediction.stream import StreamOptions, predict_stream
    from hpcml.run.session import opened_dataset

    max_line, what = line_limit(options.max_line_mb), options.what(output)
    comm, log, top = session.comm, session.log, options.top
    text = run_on_root(comm, f"opening {data}", partial(is_text, data))
    options.check(what, text)
    opened = share_model(comm, model).with_threshold(options.threshold)
    if text:
        of_text = StreamOptions(options.zero_based, options.format, top, max_line)
        predict_stream(comm, opened, data, output, what, force, log, of_text)
        return
    with opened_dataset(session, data) as dataset:
        work(comm, opened, dataset, options.split, output, what, force, log, top)


@Parameter(name="*")
@dataclass(frozen=True)
class EvaluateOptions:
    """Options of `hpcml evaluate`."""

    split: JudgedSplit = None
    threshold: float | None = None
    """Judge the labels above this threshold, the same for all. Default: the model's thresholds, or
    else 0.
    """
    csv: Path | None = None
    """Write the measures of every label to this file."""
    json: Path | None = None
    """Write everything to this file."""
    best: int = 5
    """How many of the best and worst labels to show; of many, none with fewer than 3 positive
    rows.
    """
    measures: Literal["bioasq"] | None = None
    """bioasq: only the measures of BioASQ's task a (micro, macro and example-based F, accuracy), of
    the labels above thresholds.
    """
    descriptors: Path | None = None
    """With --measures bioasq: NLM's file of MeSH descriptors (or a table with tree numbers); then
    LCA-F, too.
    """

    def check(self, force: bool) -> None:
        """Raise ConfigError for options that do not go together."""
        csv, json, measures = self.csv, self.json, self.measures
        if self.best < 1:
            raise ConfigError(f"--best {self.best}: expected at least 1")
        if measures is None and self.descriptors is not None:
            raise ConfigError(f"--descriptors {self.descriptors} has no effect without --measures bioasq; leave it out")
        if measures is not None and (csv is not None or self.best != 5):
            raise ConfigError(f"--measures {measures} has no measures of single labels; leave {'--csv' if csv else '--best'} out")
        if force and csv is None and json is None:
            raise ConfigError("--force has no effect without --csv or --json; leave it out")
        if csv is not None and csv == json:
            raise ConfigError(f"--csv {csv} and --json {json} are one file; choose two names")


def evaluate(
    model: ModelFile,
    data: JudgedData,
    /,
    *,
    options: EvaluateOptions = EvaluateOptions(),
    force: Annotated[Flag, Parameter(help="Replace the CSV or JSON file if it exists.")] = False,
    session: Here,
) -> None:
    """Judge a model on rows: average precision, AUC, F1 and others.

    Average precision (PRC area), break-even, AUC (ROC area), F1, wrong rows, precision of the best
    labels: each measure per label, as its mean over the labels (macro), and of all pairs of a row
    and a label in one ranking (micro). Average precision and break-even are averaged over ties. The
    precision of a row's 1, 3 and 5 best labels is the mean over rows; so are their nDCG and
    propensity-scored precision, and F1 of a row's labels, over all labels and over the most
    frequent ones.
    """
    from hpcml.evaluation.bioasq import evaluate_bioasq
    from hpcml.evaluation.evaluate import evaluate as work
    from hpcml.evaluation.hints import hint_at_low_recall
    from hpcml.evaluation.report import format_evaluation, write_csv, write_json
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.run.session import opened_both

    options.check(force)
    comm, log, csv, json = session.comm, session.log, options.csv, options.json
    with opened_both(session, model, data, options.threshold) as (opened, dataset):
        check_files(session, data, force, [model, data], csv, json)
        split = split_to_judge(comm, dataset, options.split, log)
        if options.measures is not None:
            found = evaluate_bioasq(comm, opened, dataset, split, options.descriptors, log)
            say_once(session, str(found))
            write_files(session, "the measures", found, (json, lambda path, found: found.write_json(path)))
            return
        result = work(comm, opened, dataset, split, log)
        say_once(session, format_evaluation(result, options.best))
        hint_at_low_recall(log, result, opened, dataset)
    write_files(session, "the measures", result, (csv, write_csv), (json, write_json))


@Parameter(name="*")
@dataclass(frozen=True)
class ThresholdOptions:
    """Options of `hpcml threshold`."""

    method: Literal["shrink", "search", "half"] | None = None
    """shrink: of each label the best threshold, drawn to that of labels as frequent. search: the
    best of all thresholds. half: half of the best F1, as a probability; for models of --loss
    logistic. Default: shrink for labels; search else, and with the two options below.
    """
    split: str | None = None
    """Rows that neither trained the model nor will judge it: a split of the file, or all. Default:
    valid.
    """
    min_positives: int | None = None
    """Search, half: so many of these rows a label needs for a threshold of its own; others share
    that of micro F1. Default: 1.
    """
    chance: float | None = None
    """Search, half: a label has a threshold of its own only if rows in random order would give so
    good a one with at most this probability. Default: 0.01.
    """


def threshold(
    model: ModelFile,
    data: JudgedData,
    /,
    *,
    measure: Literal["label", "micro", "instance"],
    options: ThresholdOptions = ThresholdOptions(),
    output: Output | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Find the thresholds that maximise F1 on held-out rows.

    They are stored in the model; predict and evaluate then use them. Of a rare label the best
    threshold on a few rows may be chance, so that it is drawn to that of labels as frequent.

    Parameters
    ----------
    measure:
        label: for each label the threshold with its largest F1 (macro). One for all labels: micro,
        of all pairs of a row and a label; instance, of each row's labels, mean over the rows.
    output:
        The model to make. Default: put the thresholds into the model itself.
    force:
        Replace the output, or the model's thresholds, if they exist.
    """
    from hpcml.evaluation.thresholds import ThresholdSearch
    from hpcml.evaluation.thresholds import threshold as work
    from hpcml.run.session import opened_both

    search = ThresholdSearch(measure, options.method, options.min_positives, options.chance)
    with opened_both(session, model, data) as (opened, dataset):
        found = work(session.comm, opened, dataset, options.split, search, output, force, session.log)
    say_once(session, str(found))


def calibrate(
    model: ModelFile,
    data: JudgedData,
    /,
    *,
    split: str | None = None,
    output: Output | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Make probabilities of a linear model's scores.

    They come from held-out rows. How is stored; predict --probabilities then gives them. Each label
    gets a sigmoid of its own (Platt). That of a rare label is drawn to the sigmoid of labels as
    frequent.

    Parameters
    ----------
    split:
        Rows that did not train the model: a split of the file, or all. Default: valid.
    output:
        The model to make. Default: put the sigmoids into the model itself.
    force:
        Replace the output, or the model's sigmoids, if they exist.
    """
    from hpcml.evaluation.thresholds import calibrate as work
    from hpcml.run.session import opened_both

    with opened_both(session, model, data) as (opened, dataset):
        say_once(session, str(work(session.comm, opened, dataset, split, output, force, session.log)))


def prune(
    model: ModelFile,
    data: Path,
    /,
    *,
    below: Annotated[tuple[float, ...], Several],
    output: Output | None = None,
    split: JudgedSplit = None,
    force: Replace = False,
    session: Here,
) -> None:
    """Leave small weights out of a linear model.

    Shows what is left of it, and of its quality. On the disk it is sparse.

    Parameters
    ----------
    data:
        A dataset with the model's features and labels, to judge on.
    below:
        Leave out weights of smaller magnitude than this. Several give a line of the table each.
    output:
        The model to make, of the last magnitude. Default: only the table.
    """
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.reduce.prune import prune as work
    from hpcml.run.session import opened_both

    if force and output is None:
        raise ConfigError("--force has no effect without --output; leave it out")
    with opened_both(session, model, data) as (opened, dataset):
        split = split_to_judge(session.comm, dataset, split, session.log)
        say_once(session, str(work(session.comm, opened, dataset, split, below, output, force, session.log)))
