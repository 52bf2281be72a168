"""The commands that score rows with a model: `hpcml predict`, `evaluate`, `threshold`,
`calibrate` and `prune`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from hpcml.cli.session import Here, Output, say_once
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several


def predict(
    model: Path,
    data: Path,
    /,
    *,
    output: Output,
    split: str = "all",
    labels: Flag = False,
    threshold: float | None = None,
    probabilities: Flag = False,
    top: int | None = None,
    zero_based: Flag = False,
    max_line_mb: int | None = None,
    format: Literal["csv", "svm", "bioasq"] | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Score rows with a model, to .h5, .csv, .svm or .json (BioASQ); or lines of svmlight text as
    they come, to .csv or .svm.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features (convert it with --like the training file); or svmlight
        text (plain, gz, bz2, xz), - for standard input. A text does not name its features: its
        indices are taken for the places of the model's features, from 1.
    output:
        The file to make; its ending chooses the format. For text also - for standard output.
    split:
        Rows to score: a split of the file, or all.
    labels:
        Write the labels instead of the scores: those with a score above the model's thresholds, or
            else above 0.
    threshold:
        Take this threshold for all labels. Default: those of the model.
    probabilities:
        Write probabilities instead of the scores: those of hpcml calibrate, or else of log-odds
            (--loss logistic).
    top:
        Write only so many labels of each row, with their scores: the best ones; of equal scores
            those that the model lists first.
    zero_based:
        The indices of the text start at 0.
    max_line_mb:
        The longest line of the text that is read, in MiB. Default: 16.
    format:
        What to write to standard output; default: csv. bioasq: the labels of a dataset's rows, to
        .json, as BioASQ takes them.
    force:
        Replace the output if it exists.
    """
    from hpcml.data.dataset import DataFile
    from hpcml.data.svmlight_stream import is_text
    from hpcml.files.lines import line_limit
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed
    from hpcml.prediction.predict import predict as work
    from hpcml.prediction.stream import StreamOptions, predict_stream
    from hpcml.prediction.texts import BIOASQ, check_what, what_of

    max_line = line_limit(max_line_mb)
    comm, text = session.comm, False
    if format == "bioasq" and output.suffix.lower() != BIOASQ:
        raise ConfigError(f"{output}: BioASQ's format is JSON; the name must end in {BIOASQ}")
    what = what_of(labels or (format == "bioasq" and top is None and not probabilities), probabilities)
    with agreed(comm, f"opening {data}"):
        if comm.rank == 0:
            text = is_text(data)
    text = comm.bcast(text)
    if text and split != "all":
        raise ConfigError(f"--split {split}: a text has no splits; make a dataset of it (hpcml convert)")
    if text and format == "bioasq":
        raise ConfigError("--format bioasq: a text has no ids of its rows; make a dataset (hpcml convert)")
    if not text and (zero_based or format in ("csv", "svm") or max_line_mb is not None):
        raise ConfigError("--zero-based, --max-line-mb and --format are for text; leave them out")
    check_what(what, top)
    if threshold is not None and what != "labels":
        raise ConfigError("--threshold has no effect without --labels; leave it out")
    opened = share_model(comm, model).with_threshold(threshold)
    if text:
        options = StreamOptions(zero_based, format, top, max_line)
        predict_stream(comm, opened, data, output, what, force, session.log, options)
        return
    with agreed(comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset:
        work(comm, opened, dataset, split, output, what, force, session.log, top)


def evaluate(
    model: Path,
    data: Path,
    /,
    *,
    split: str | None = None,
    threshold: float | None = None,
    csv: Path | None = None,
    json: Path | None = None,
    best: int = 5,
    measures: Literal["bioasq"] | None = None,
    descriptors: Path | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Judge a model: average precision (PRC area), break-even, AUC (ROC area), F1, wrong rows,
    precision of the best labels.

    Each measure per label, as its mean over the labels (macro), and of all pairs of a row and a
    label in one ranking (micro). Average precision and break-even are averaged over ties. The
    precision of a row's 1, 3 and 5 best labels is the mean over rows; so are their nDCG and
    propensity-scored precision, and F1 of a row's labels, over all labels and over the most
    frequent ones.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features and labels.
    split:
        Rows to judge on: a split of the file, or all. Default: test if the file has it.
    threshold:
        Judge the labels above this threshold, the same for all. Default: the model's thresholds, or
        else 0.
    csv:
        Write the measures of every label to this file.
    json:
        Write everything to this file.
    best:
        How many of the best and worst labels to show; of many, none with fewer than 3 positive
        rows.
    measures:
        bioasq: only the measures of BioASQ's task a (micro, macro and example-based F, accuracy),
            of the labels above thresholds.
    descriptors:
        With --measures bioasq: NLM's file of MeSH descriptors (or a table with tree numbers); then
        LCA-F, too.
    force:
        Replace the CSV or JSON file if it exists.
    """
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.bioasq import evaluate_bioasq
    from hpcml.evaluation.evaluate import evaluate as work
    from hpcml.evaluation.report import format_evaluation, write_csv, write_json
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.files.atomic import check_output
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed

    if best < 1:
        raise ConfigError(f"--best {best}: expected at least 1")
    if measures is None and descriptors is not None:
        raise ConfigError(f"--descriptors {descriptors} has no effect without --measures bioasq; leave it out")
    if measures is not None and (csv is not None or best != 5):
        raise ConfigError(f"--measures {measures} has no measures of single labels; leave {'--csv' if csv else '--best'} out")
    if force and csv is None and json is None:
        raise ConfigError("--force has no effect without --csv or --json; leave it out")
    if csv is not None and csv == json:
        raise ConfigError(f"--csv {csv} and --json {json} are one file; choose two names")
    opened = share_model(session.comm, model).with_threshold(threshold)
    with agreed(session.comm, f"opening {data}"):
        dataset = DataFile(data)
        for output in (csv, json):
            if session.comm.rank == 0 and output is not None:
                check_output(output, force, [model, data])
    if measures is not None:
        with dataset:
            split = split_to_judge(dataset, split, session.log)
            found = evaluate_bioasq(session.comm, opened, dataset, split, descriptors, session.log)
        say_once(session, str(found))
        with agreed(session.comm, "writing the measures"):
            if session.comm.rank == 0 and json is not None:
                found.write_json(json)
        return
    with dataset:
        result = work(session.comm, opened, dataset, split_to_judge(dataset, split, session.log), session.log)
    say_once(session, format_evaluation(result, best))
    with agreed(session.comm, "writing the measures"):
        if session.comm.rank == 0:
            for path, write in ((csv, write_csv), (json, write_json)):
                if path is not None:
                    write(path, result)


def threshold(
    model: Path,
    data: Path,
    /,
    *,
    measure: Literal["label", "micro", "instance"],
    method: Literal["shrink", "search", "half"] | None = None,
    split: str | None = None,
    min_positives: int | None = None,
    chance: float | None = None,
    output: Output | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Find the thresholds that maximise F1 on held-out rows, and store them in the model; predict
    and evaluate then use them.

    Of a rare label the best threshold on a few rows may be chance, so that it is drawn to that of
    labels as frequent.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features and labels.
    measure:
        label: for each label the threshold with its largest F1 (macro). One for all labels: micro,
        of all pairs of a row and a label; instance, of each row's labels, mean over the rows.
    method:
        shrink: of each label the best threshold, drawn to that of labels as frequent. search: the
        best of all thresholds. half: half of the best F1, as a probability; for models of --loss
        logistic. Default: shrink for labels; search else, and with the two options below.
    split:
        Rows that neither trained the model nor will judge it: a split of the file, or all. Default:
            valid.
    min_positives:
        Search, half: so many of these rows a label needs for a threshold of its own; others share
            that of micro F1. Default: 1.
    chance:
        Search, half: a label has a threshold of its own only if rows in random order would give so
        good a one with at most this probability. Default: 0.01.
    output:
        The model to make. Default: put the thresholds into the model itself.
    force:
        Replace the output, or the model's thresholds, if they exist.
    """
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.store_thresholds import threshold as work
    from hpcml.evaluation.thresholds import ThresholdSearch
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed

    opened = share_model(session.comm, model)
    with agreed(session.comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset:
        search = ThresholdSearch(measure, method, min_positives, chance)
        found = work(session.comm, opened, dataset, split, search, output, force, session.log)
    say_once(session, str(found))


def calibrate(
    model: Path,
    data: Path,
    /,
    *,
    split: str | None = None,
    output: Output | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Make probabilities of a linear model's scores, from held-out rows, and store how; predict
    --probabilities then gives them.

    Each label gets a sigmoid of its own (Platt). That of a rare label is drawn to the sigmoid of
    labels as frequent.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features and labels.
    split:
        Rows that did not train the model: a split of the file, or all. Default: valid.
    output:
        The model to make. Default: put the sigmoids into the model itself.
    force:
        Replace the output, or the model's sigmoids, if they exist.
    """
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.calibrate import calibrate as work
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed

    opened = share_model(session.comm, model)
    with agreed(session.comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset:
        say_once(session, str(work(session.comm, opened, dataset, split, output, force, session.log)))


def prune(
    model: Path,
    data: Path,
    /,
    *,
    below: Annotated[tuple[float, ...], Several],
    output: Output | None = None,
    split: str | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Leave out of a linear model the weights of small magnitude: what is left of it, and of its
    quality, on the disk sparse.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features and labels, to judge on.
    below:
        Leave out weights of smaller magnitude than this. Several give a line of the table each.
    output:
        The model to make, of the last magnitude. Default: only the table.
    split:
        Rows to judge on: a split of the file, or all. Default: test if the file has it.
    force:
        Replace the output if it exists.
    """
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed
    from hpcml.reduce.prune import prune as work

    if force and output is None:
        raise ConfigError("--force has no effect without --output; leave it out")
    opened = share_model(session.comm, model)
    with agreed(session.comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset:
        split = split_to_judge(dataset, split, session.log)
        say_once(session, str(work(session.comm, opened, dataset, split, below, output, force, session.log)))
