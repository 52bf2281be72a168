"""Thresholds that maximise F1 on held-out rows, and sigmoids that map scores to probabilities, stored in the model file.

Problem: one threshold per label for F1 per label, or one threshold for all labels for micro F1 or F1 per row. A single threshold is
a probability if the model has probabilities (`comparable`). Methods:

- search: F1 rises only when the next predicted row is a hit, so the best cut is the score of a positive. For labels and micro F1
  the numbers of scores above and at each positive's score suffice (`Counts`); `instance_search` maximises F1 per row. A last pass
  finds the next score below the cut over all ranks, and the threshold is the middle of the two. All decisions use whole numbers, so
  the result has the same bits on any number of ranks.
- half: for calibrated probabilities the best threshold is half of the best F1 (Lipton, Elkan & Narayanaswamy, "Optimal Thresholding
  of Classifiers to Maximize F1 Measure", 2014).
- shrink: the threshold of each label is shrunk towards that of labels of similar frequency (`decision`).

The best F1 of a label with uninformative scores is reached by predicting every row, and the best threshold of a rare label on a few
rows may be due to chance. With "search" and "half" such labels share the threshold of micro F1.

Hints: without thresholds a row gets the labels with scores above 0, which maximises accuracy. No row of a rare label may reach 0,
however well its rows are ranked, so recall is far below precision. A hint is logged if macro recall is below
FAR_BELOW of macro precision, or, on rows without known labels, if the number of predicted labels per row is below FAR_BELOW of that
of training rows; not with fewer than FEWEST true or expected labels. There is no hint about λ, since scores of evaluated rows do
not show an unsuitable λ; training reports a default that is often too large.
"""

import math
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import log_unlabelled
from hpcml.errors import ConfigError, DataError, NonFiniteError, OptionError
from hpcml.evaluation.chance_kernels import hypergeometric_tail
from hpcml.evaluation.comparable import BY_SCORE, Comparable, probability
from hpcml.evaluation.decision import Summary, Tally, count_even_points, decide, warm_up
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.instance_search import InstanceSearch
from hpcml.evaluation.scored_rows import (
    UNSCORED,
    ScoredRows,
    SeenRows,
    count_seen,
    load_scored_rows,
    reduce_together,
    split_by_lane,
    warn_about_training_rows,
)
from hpcml.files.atomic import temporary_path
from hpcml.files.report import ReportedResult, cell
from hpcml.files.slabs import open_for_update, require_group
from hpcml.files.table import table
from hpcml.kernels import elementary
from hpcml.log import Log, Progress, plural
from hpcml.measures import Ranking, best_f1, f1
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.trained import CALIBRATION, LOG_ODDS, SIGMOID, THRESHOLDS, Trained

Columns: TypeAlias = dict[str, np.ndarray]  # one number per label of a model file
HELD_OUT = "valid"  # the default split
MEASURES = {"label": "F1 per label (macro)", "micro": "micro F1", "instance": "F1 per row"}
MIN_POSITIVES = 1  # held-out rows that a label needs for its own threshold
ABOVE_0 = float(np.nextafter(0.0, 1.0))  # the smallest score that is predicted at threshold 0
# Micro F1 on Reuters and the docstrings is 0.832 and 0.183 without this guard, 0.879 and 0.693 with it. With 1e-4 macro F1 on
# Reuters falls from 0.685 to 0.651.
CHANCE = 0.01  # largest probability that a random order of the rows has as good an F1
# Macro recall is 0.34 of macro precision on Reuters-21578 and 0.26 on bibtex, where tune raises macro F1 by 0.25 and 0.21; 0.69 on
# w8a, 0.70 on 20newsgroups and 0.81 on a9a, where it raises it by 0.03 to 0.08 (docs/evidence/deciding.md).
FAR_BELOW = 0.5
FEWEST = 20


@dataclass(frozen=True)
class ThresholdSearch:
    """The measure that thresholds maximise, and the options of the search; None is the default."""

    measure: str
    method: str | None = None
    min_positives: int | None = None
    chance: float | None = None

    def checked(self, model: Trained) -> Self:
        named = [name for name in ("min_positives", "chance") if getattr(self, name) is not None]
        if self.method == "shrink" and named:
            raise OptionError(named[0], getattr(self, named[0]), "applies to --method search and half; remove it")
        method = self.method or ("search" if named or self.measure != "label" else "shrink")
        if method == "shrink" and self.measure != "label":
            raise OptionError("method", method, f"applies to --measure label; use --method search for {self.measure}")
        if isinstance(model, ClassifierModel) and model.n_classes > 2:
            raise ConfigError(
                f"{model.path}: a classifier of {model.n_classes} classes predicts exactly one per row and has no thresholds; "
                "use a linear model"
            )
        log_odds = not isinstance(model, ClassifierModel) and model.attrs.get("loss") == LOG_ODDS
        if method == "half" and not (log_odds and str(model.attrs.get("positive_weight", "1")) == "1"):
            raise ConfigError(
                f"{model.path}: --method half needs scores that are log-odds (--loss {LOG_ODDS}, without --positive-weight); "
                "use --method search"
            )
        return replace(self, method=method)


@dataclass
class Found:
    """Thresholds of a model and their F1 on the rows of the search.

    Attributes
    ----------
    thresholds : ndarray (n_labels,)
        The threshold of each label of the model.
    own : ndarray
        Numbers of the labels with their own threshold.
    shared : float
        The threshold of the other labels, or of all (a score or, with `by` probability, log-odds); NaN for shrink.
    before, after : float
        The measure at threshold 0 and with the thresholds found.
    borrowed : dict
        Number of labels without their own threshold by reason.
    everything : bool
        The best threshold predicts every label for every row.
    """

    measure: str
    method: str
    thresholds: np.ndarray
    own: np.ndarray
    shared: float
    before: float
    after: float
    borrowed: dict[str, int] = field(default_factory=dict)
    everything: bool = False
    by: str = BY_SCORE


@dataclass(frozen=True)
class HeldOutReport(ReportedResult):
    model: Path
    data: Path
    split: str
    n_rows: int
    seen: SeenRows  # training rows among them

    def heading(self, content: str) -> list[str]:
        consequence = ", whose scores are better than those of new rows; use --split with held-out rows"
        first = f"{self.model}: {content}, from {self.data}, split {self.split}"
        return [first, *warn_about_training_rows(self.seen, self.n_rows, consequence)]


@dataclass(frozen=True)
class ThresholdReport(HeldOutReport):
    """Thresholds and the rows of the search.

    Attributes
    ----------
    found : Found
        The thresholds (`found.thresholds`, one per label of the model) and their F1 on these rows.
    seen : SeenRows
        Number of these rows that trained the model.

    Examples
    --------
    >>> hpcml.threshold("run", "docs.h5", "label").found.thresholds
    """

    found: Found

    def describe(self) -> Iterator[str]:
        found, thresholds, by_score = self.found, self.found.thresholds, self.found.by == BY_SCORE
        shared = f"{found.shared:.6g}" if by_score else f"probability {probability(found.shared):.6g}"
        yield from self.heading(f"thresholds for {MEASURES[found.measure]}, method {found.method}")
        zero = "at threshold 0" if by_score or found.measure == "label" else "at probability 0.5"
        cells = [["", zero, "with these thresholds"], [MEASURES[found.measure], cell(found.before), cell(found.after)]]
        yield from ["", *table(cells), "", f"note: F1 on these {self.n_rows:,} rows is optimistic: the thresholds maximise it"]
        if found.everything:
            yield "warning: the best threshold predicts every label for every row: the scores are uninformative"
        if found.measure != "label":
            yield f"threshold of all {plural(thresholds.size, 'label')}: {shared}"
            return
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in found.borrowed.items() if count)
        is_shrunk = found.method == "shrink"
        own = thresholds if is_shrunk else thresholds[found.own]
        spread = f"{own.min():.4g} to {own.max():.4g}, median {np.median(own):.4g}" if own.size else ""
        if is_shrunk:
            yield f"thresholds of {plural(own.size, 'label')}: {spread}; shrunk towards labels of similar frequency"
        elif own.size:
            yield f"labels with their own threshold: {own.size:,} of {thresholds.size:,} ({spread})"
        if reasons and is_shrunk:
            yield f"labels with the threshold of the rarest labels: {reasons}"
        elif reasons:
            yield f"labels with the threshold of micro F1, {shared}: {sum(found.borrowed.values()):,} ({reasons})"


@dataclass(frozen=True)
class CalibrationReport(HeldOutReport):
    """Sigmoids and the rows that they were fitted to.

    Attributes
    ----------
    sigmoids : ndarray (n_labels, 2)
        Slope and offset of each label: the probability is 1 / (1 + exp(-slope * score - offset)).
    n_without : int
        Number of labels without a positive row.

    Examples
    --------
    >>> slope, offset = hpcml.calibrate("run", "docs.h5").sigmoids.T
    """

    sigmoids: np.ndarray
    n_without: int

    def describe(self) -> Iterator[str]:
        yield from self.heading(f"probabilities of {plural(len(self.sigmoids), 'label')}")
        cells = [["probability = 1 / (1 + exp(-slope · score - offset))", "minimum", "median", "maximum"]]
        for name, values in zip(("slope", "offset"), self.sigmoids.T, strict=True):
            cells.append([f"  {name}", *(f"{value:.4g}" for value in (values.min(), np.median(values), values.max()))])
        yield from ["", *table(cells)]
        if self.n_without:
            yield f"note: {plural(self.n_without, 'label')} without a positive row, with the sigmoid of the rarest labels"


def threshold(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str | None,
    search: ThresholdSearch,
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
) -> ThresholdReport:
    """Find thresholds and write the model with them. Raises ConfigError, DataError, NonFiniteError. Collective over `comm`."""
    is_chosen = "threshold" in model.labels and not model.has_own_thresholds
    stored = f"thresholds (measure {model.attrs.get('threshold_measure', '?')})" if is_chosen else ""

    def find(split: str) -> tuple[tuple[Found], Columns, dict[str, str]]:
        result = find_thresholds(comm, model, dataset, split, search, log)
        attributes = dict(zip(THRESHOLDS, (result.measure, result.method, split), strict=True))
        return (result,), {"threshold": result.thresholds}, attributes

    return ThresholdReport(*_store(comm, model, dataset, split, output, force, stored, find))


def calibrate(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str | None,
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
) -> CalibrationReport:
    """Fit a sigmoid to the scores of each label and write the model. Raises ConfigError, DataError, NonFiniteError. Collective."""
    if not isinstance(model, Model):
        raise ConfigError(
            f"{model.path}: a classifier of {model.attrs.get('method', '?')} cannot be calibrated; use a linear model"
        )

    def find(split: str) -> tuple[tuple[np.ndarray, int], Columns, dict[str, str]]:
        held_out, quiet = _held_out_rows(comm, model, dataset, split, log, "fitting the sigmoids of")
        decision = decide(summaries_of(held_out, quiet))
        sigmoids = np.tile(decision.rarest[1:], (model.n_labels, 1))
        sigmoids[held_out.numbers] = decision.sigmoids
        n_without = model.n_labels - int((held_out.n_positive() > 0).sum())
        attributes = dict(zip(CALIBRATION, ("sigmoid", split), strict=True))
        return (sigmoids, n_without), dict(zip(SIGMOID, sigmoids.T, strict=True)), attributes

    stored = f"probabilities ({model.probability_source})" if SIGMOID[0] in model.labels else ""
    return CalibrationReport(*_store(comm, model, dataset, split, output, force, stored, find))


def _held_out_rows(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, log: Log | None, doing: str
) -> tuple[ScoredRows, Log]:
    held_out, log = load_scored_rows(comm, model, dataset, split), log or Log(comm.rank, quiet=True)
    if not mpi.agreed_any(comm, bool((held_out.positives > UNSCORED).any())):
        raise DataError(f"{dataset.path}: no row of split {split} has a label of {model.path}; choose another split")
    log_unlabelled(comm, dataset, split, log)
    log(f"{doing} {plural(held_out.n_labels, 'label')} on {plural(held_out.n_rows, 'row')} of split {split}")
    return held_out, log


def _store(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str | None,
    output: Path | None,
    force: bool,
    stored: str,
    find: Callable[[str], tuple[tuple[Any, ...], Columns, dict[str, str]]],
) -> tuple[Any, ...]:
    """Write the results of `find` into a copy of the model, and rename it; return the values of the report. Collective."""
    names = dataset.split_names()
    if split is None and HELD_OUT not in names:
        raise ConfigError(
            f"{dataset.path} has no split {HELD_OUT}; use --split with rows that are used neither for training nor for evaluation "
            f"(splits: {', '.join(names) or 'none'})"
        )
    if output is None and stored and not force:
        raise ConfigError(f"{model.path} has {stored}; use --force to replace them, or --output")
    target, inputs, split = output or model.path, [dataset.path, *([] if output is None else [model.path])], split or HELD_OUT
    with temporary_path(comm, target, force or output is None, inputs) as temporary:
        seen = count_seen(comm, model, dataset, split)
        results, columns, attributes = find(split)

        def write() -> None:
            shutil.copyfile(model.path, temporary)
            with open_for_update(temporary, target=target) as file:
                group = require_group(file, "labels")
                for name, values in columns.items():
                    if name in group:
                        group[name][:] = values
                    else:
                        group.create_dataset(name, data=np.asarray(values, dtype="<f8"))
                file.attrs.update(attributes)

        mpi.run_on_root(comm, f"writing {target}", write)
    return target, dataset.path, split, dataset.labelled_split(split).size, seen, *results


def find_thresholds(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, search: ThresholdSearch, log: Log | None = None
) -> Found:
    """Find the thresholds for a measure on a split. Raises ConfigError, DataError, NonFiniteError. Collective over `comm`."""
    search = search.checked(model)
    measure, half = search.measure, search.method == "half"
    held_out, log = _held_out_rows(comm, model, dataset, split, log, "finding thresholds of")
    comparable, numbers, n_labels, n_positive = held_out.comparable, held_out.numbers, held_out.n_labels, held_out.n_positive()
    borrowed = {"not in the data": model.n_labels - n_labels}
    if search.method == "shrink":
        decision = decide(summaries_of(held_out, log))
        thresholds = np.full(model.n_labels, decision.rarest[0])
        thresholds[numbers] = decision.thresholds
        before, after = (_f1(held_out, "label", np.nextafter(each, np.inf)) for each in (np.zeros(n_labels), decision.thresholds))
        borrowed = {"without a positive row": int((n_positive == 0).sum())} | borrowed
        return Found("label", "shrink", thresholds, numbers[n_positive > 0], math.nan, before, after, borrowed)
    # the best cut (the smallest predicted score) of all labels together
    own = []  # for each label: cut, F1, predicted rows, hits
    if measure == "instance":
        of_rows = InstanceSearch(held_out.with_comparable_values())
        common, best = of_rows.best()
    else:
        counts, pool = held_out.count(np.zeros(n_labels))
        if measure == "label":
            own = [_best_cut(counts.values_of(label), counts.ranking(held_out.n_rows, label)) for label in range(n_labels)]
        ranking = pool.ranking(held_out.n_rows * n_labels)
        ranking = replace(ranking, n_missed=ranking.n_missed + held_out.missed.n_pairs)
        common, best, *_ = _best_cut(pool.values, ranking)
    common = _half(best) if half else common
    cuts, has_own = comparable.least(common), np.zeros(n_labels, dtype=bool)
    if own:
        # A label has its own threshold unless its F1 may be due to chance. In a random order the probability of at least as many
        # hits is at most P times the tail of the hypergeometric distribution, since the cut is the best of P (Bonferroni). The tail
        # is 1 if every row is predicted.
        best_cuts, values, n_given, hits = map(np.array, zip(*own, strict=True))
        least, limit = search.min_positives or MIN_POSITIVES, CHANCE if search.chance is None else search.chance
        enough = n_positive >= least
        has_own = enough & (np.minimum(n_positive * hypergeometric_tail(hits, held_out.n_rows, n_positive, n_given), 1.0) <= limit)
        cuts = np.where(has_own, list(map(_half, values.tolist())) if half else best_cuts, cuts)
        n_rare, n_chance = int((~enough).sum()), int((enough & ~has_own).sum())
        borrowed = {f"with fewer than {plural(least, 'positive row')}": n_rare, "no better than chance": n_chance} | borrowed
    # the middle between the cut and the next score below; for half, exactly the threshold of the paper
    below, below_common, n_predicted = _below(held_out, cuts, common)
    shared, own_thresholds = between(below_common, common), np.array(list(map(between, below.tolist(), cuts.tolist())))
    if half:
        shared, own_thresholds = float(np.nextafter(common, -np.inf)), np.nextafter(cuts, -np.inf)
    thresholds = Comparable(model, np.arange(model.n_labels)).thresholds(shared)
    thresholds[numbers[has_own]] = own_thresholds[has_own]
    if measure == "instance":
        before, after = of_rows.f1_at(ABOVE_0), of_rows.f1_at(common)
    else:
        at_zero = np.full(n_labels, ABOVE_0) if measure == "label" else comparable.least(ABOVE_0)
        before = _f1(held_out, measure, at_zero)
        after = _f1(held_out, measure, cuts, n_predicted)
    everything = measure != "label" and not math.isfinite(below_common)
    borrowed = borrowed if measure == "label" else {}
    return Found(measure, search.method, thresholds, numbers[has_own], shared, before, after, borrowed, everything, comparable.by)


def _f1(held_out: ScoredRows, measure: str, cuts: np.ndarray, n_predicted: np.ndarray | None = None) -> float:
    """Return micro F1, or the mean F1 of labels with a positive row, if scores of at least the cuts are predicted. Collective."""
    n_predicted = _below(held_out, cuts, ABOVE_0)[2] if n_predicted is None else n_predicted
    hits, n_positive = held_out.sum_by_label(held_out.positives >= cuts[held_out.labels]), held_out.n_positive()
    if measure == "micro":
        return float(f1(hits.sum(), n_predicted.sum(), n_positive.sum() + held_out.missed.n_pairs))
    return float(np.mean(f1(hits, n_predicted, n_positive)[n_positive > 0]))


def _half(f1: float) -> float:
    """Return the smallest log-odds above those of the probability F1 / 2."""
    return float(np.nextafter(elementary.log(f1 / (2.0 - f1)), np.inf)) if f1 > 0 else 0.0


def between(below: float, cut: float) -> float:
    """Return a finite threshold in the middle of two scores, or as near as rounding permits: below ≤ threshold < cut."""
    middle = below / 2.0 + cut / 2.0
    if math.isfinite(middle) and below <= middle < cut:
        return middle
    return below if math.isfinite(below) else max(-float(np.finfo(np.float64).max), float(np.nextafter(cut, -np.inf)))


def _best_cut(values: np.ndarray, ranking: Ranking) -> tuple[float, float, int, int]:
    """Return the highest score of a positive (ascending) with the largest F1, or NaN; the F1, predicted rows and hits."""
    tie, value = best_f1(ranking)
    n_predicted = int(ranking.greater[tie] + ranking.equal[tie]) if tie >= 0 else 0
    return float(values[-1 - tie]) if tie >= 0 else math.nan, value, n_predicted, int(ranking.relevant[: tie + 1].sum())


def _below(held_out: ScoredRows, cuts: np.ndarray, common: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the largest score below each cut, the largest value below `common`, and the predicted rows of each cut. Collective."""
    comm, n = held_out.comm, held_out.n_labels
    below, n_predicted = np.full(n + 1, -np.inf), np.zeros(n, dtype=np.int64)
    for begin, end in held_out.scorer.blocks:
        block = slice(begin, end)
        with mpi.agreed(comm, "scoring rows"):
            for _, scores in held_out.scores(begin, end):
                inside = scores >= cuts[block]
                n_predicted[block] += inside.sum(axis=0)
                below[block] = np.maximum(below[block], np.where(inside, -np.inf, scores).max(axis=0))
                values = held_out.comparable.values(scores, block)
                below[n] = max(below[n], np.where(values < common, values, -np.inf).max())
    mpi.allreduce_maxima(comm, below)
    return below[:n], float(below[n]), mpi.allreduce_sum(comm, n_predicted)


def summaries_of(held_out: ScoredRows, log: Log) -> list[Summary]:
    """Summarise the scores of the labels in two passes. Collective. Raises NonFiniteError for a score that is not finite."""
    comm, model, summaries, even = held_out.comm, held_out.scorer.model, [], count_even_points(held_out.n_labels)
    with mpi.node_first(comm):
        warm_up()
    with closing(Progress(log, "summarising scores of labels", held_out.n_labels)) as progress:
        for begin, end in held_out.scorer.blocks:
            ends = np.full((2, end - begin), -np.inf)  # −smallest, largest
            with mpi.agreed(comm, "scoring rows"):
                for scores in held_out.scores_with_features(begin, end):
                    np.maximum(ends, [-scores.min(axis=0), scores.max(axis=0)], out=ends)
            mpi.allreduce_maxima(comm, ends)
            not_finite = np.flatnonzero(~np.isfinite(ends.sum(axis=0)))
            if not_finite.size:  # the same on all ranks
                name = model.label_names[int(held_out.numbers[begin + not_finite[0]])]
                raise NonFiniteError(f"{model.path}: a score of label {name!r} is not finite; train it again")
            block = slice(*np.searchsorted(held_out.labels, [begin, end]))
            local, lanes = held_out.positives[block], held_out.labels[block] - begin
            positives = split_by_lane(comm, local[local > UNSCORED], lanes[local > UNSCORED], end - begin)
            with mpi.agreed(comm, "counting scores"):
                tallies = [Tally(of_label, -low, high, even) for of_label, low, high in zip(positives, *ends, strict=True)]
                for scores in held_out.scores_with_features(begin, end):
                    for tally, column in zip(tallies, np.ascontiguousarray(scores.T), strict=True):
                        tally.add(column)
            reduce_together(comm, [tally.counts for tally in tallies])
            reduce_together(comm, [tally.top for tally in tallies], mpi.allreduce_maxima)
            summaries += [tally.summary() for tally in tallies]
            progress.update(end)
    return summaries


def hint_at_low_recall(log: Log, evaluation: Evaluation, model: Trained) -> None:
    recall, precision = evaluation.macro("recall"), evaluation.macro("precision")
    is_low = math.isnan(precision) or recall < FAR_BELOW * precision  # NaN: no row has a predicted label
    if is_low and int(evaluation.n_positive.sum()) >= FEWEST:
        far = f"macro recall ({recall:.2f}) is far below macro precision ({precision:.2f})"
        _log_hint(log, "no row gets a label" if math.isnan(precision) else far, model)


def hint_at_few_labels(log: Log, n_predicted: int, n_rows: int, model: Trained) -> None:
    n_trained, counts = int(model.attrs.get("n_rows", 0)), model.labels.get("n_positive", np.zeros(0))
    usual = float(counts.sum()) / max(1, n_trained)
    if n_predicted < FAR_BELOW * usual * n_rows and usual * n_rows >= FEWEST:
        message = f"rows get {n_predicted / n_rows:.2g} labels on average, while training rows have {usual:.2g}"
        _log_hint(log, message, model)


def _log_hint(log: Log, message: str, model: Trained) -> None:
    """Log the message and commands if the model is linear and has no thresholds."""
    if isinstance(model, Model) and not model.threshold_source:
        command = shlex.join(["hpcml", "threshold", str(model.path), "DATA", "--measure", "label"])
        advice = f"`{command}` finds those that maximise F1 on held-out rows, `hpcml tune DATA --output RUN` trains with them"
        log(f"note: {message}; the model has no thresholds: {advice}")
