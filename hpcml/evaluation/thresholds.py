"""Thresholds that maximise F1 on held-out rows, and sigmoids that make scores probabilities, kept in the model's file.

A threshold is found per label, or one for micro F1 or F1 per row.

Predicting more rows raises F1 only where one more is a hit, so the best threshold lies just below the score of a positive. For
labels and micro F1 the counts of `counts` have all that it takes: how many scores lie above and at each positive's. F1 per row is
searched by `instance_search`. One threshold for all labels is one probability, where the model has them (`comparable`). A last pass
finds the next score below, over all ranks: the threshold is in the middle of the two. Everything that decides is a whole number, so
the result is the same on any number of ranks.

Lipton, Elkan & Narayanaswamy, "Optimal Thresholding of Classifiers to Maximize F1 Measure", 2014: where scores are calibrated
probabilities, the best threshold is half of the best F1 (method "half"). A label whose scores say nothing has its best F1 where
every row is positive; and a rare label's best threshold on a few rows may be chance. With "search" such labels share the threshold
of micro F1. "shrink" draws the threshold of each label to that of labels as frequent (`decision`), more the fewer rows it has.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import log_unlabelled
from hpcml.errors import ConfigError, DataError, NonFiniteError, OptionError
from hpcml.evaluation.chance_kernels import at_least
from hpcml.evaluation.comparable import BY_SCORE, Comparable, probability
from hpcml.evaluation.decision import Summary, Tally, decide, even_places, warm_up
from hpcml.evaluation.instance_search import InstanceSearch
from hpcml.evaluation.judged import UNSCORED, JudgedRows, judge, reduce_together, split_by_lane
from hpcml.evaluation.seen import SeenRows, count_seen, seen_note
from hpcml.files.atomic import temporary_path
from hpcml.files.report import ReportedResult, cell
from hpcml.files.slabs import editing, group_in
from hpcml.kernels import elementary
from hpcml.log import Log, Progress, plural
from hpcml.measures import Ranking, best_f1, f1
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.trained import CALIBRATION, LOG_ODDS, SIGMOID, THRESHOLDS, Trained

Columns: TypeAlias = dict[str, np.ndarray]  # numbers of the labels of a model file
HELD_OUT = "valid"  # the split that thresholds are found on if nobody names another
MEASURES = {"label": "F1 per label (macro)", "micro": "micro F1", "instance": "F1 per row"}
MIN_POSITIVES = 1  # held-out rows that a label needs for a threshold of its own
ABOVE_0 = float(np.nextafter(0.0, 1.0))  # the least score that is predicted at threshold 0
# Micro F1 on Reuters and the docstrings is 0.832 and 0.183 without this guard, 0.879 and 0.693 with it. With 1e-4 macro F1 on
# Reuters falls from 0.685 to 0.651 (docs/notebook.md).
CHANCE = 0.01  # the largest probability that a label's best F1 in a random order would be as good


@dataclass(frozen=True)
class ThresholdSearch:
    """Measure that thresholds maximise, and the search for them; None is the default."""

    measure: str
    method: str | None = None  # shrink for labels; search else, and where one of these is named
    min_positives: int | None = None
    chance: float | None = None

    def checked(self, model: Trained) -> ThresholdSearch:
        """The same with its method. Raises ConfigError unless all fits, the model too. Local."""
        named = [name for name in ("min_positives", "chance") if getattr(self, name) is not None]
        if self.method == "shrink" and named:
            raise OptionError(named[0], getattr(self, named[0]), "is for --method search and half; remove it")
        method = self.method or ("search" if named or self.measure != "label" else "shrink")
        if method == "shrink" and self.measure != "label":
            raise OptionError("method", method, f"is for --measure label; for {self.measure} take --method search")
        if isinstance(model, ClassifierModel) and model.n_classes > 2:
            raise ConfigError(
                f"{model.path}: a classifier of {model.n_classes} classes gives every row exactly one, which thresholds would "
                "undo; take a linear model"
            )
        log_odds = not isinstance(model, ClassifierModel) and model.attrs.get("loss") == LOG_ODDS
        if method == "half" and not (log_odds and str(model.attrs.get("positive_weight", "1")) == "1"):
            raise ConfigError(
                f"{model.path}: --method half needs scores that are log-odds (--loss {LOG_ODDS}, without --positive-weight); "
                "take --method search"
            )
        return replace(self, method=method)


@dataclass
class Found:
    """Thresholds of all labels of a model, and their worth on the rows that they were found on."""

    measure: str
    method: str
    thresholds: np.ndarray  # n_labels of the model
    own: np.ndarray  # the numbers of the labels that have one of their own
    shared: float  # the one of all labels, or of those that have none of their own (shrink: NaN), in terms of `by`
    before: float  # the measure at threshold 0, on these rows
    after: float
    borrowed: dict[str, int] = field(default_factory=dict)  # why labels share a threshold -> how many
    everything: bool = False  # is the best to give every row every label?
    by: str = BY_SCORE  # of what `shared` is: of scores, or of log-odds


@dataclass(frozen=True)
class HeldOutReport(ReportedResult):
    """A model, and the held-out rows of a dataset that it was changed by."""

    model: Path
    data: Path
    split: str
    n_rows: int
    seen: SeenRows  # of these rows, those that the model was trained on

    def head(self, what: str, found: str) -> list[str]:
        """Return the first lines: what was found, and a warning if the rows were not held out."""
        better = "; their scores are better than those of other rows, for which these"
        rest = f"{better} {found} will not do; take a split that was held out"
        return [f"{self.model}: {what}, from {self.data}, split {self.split}", *seen_note(self.seen, self.n_rows, rest)]


@dataclass(frozen=True)
class ThresholdReport(HeldOutReport):
    """The thresholds found, and the rows that they were found on."""

    found: Found

    def describe(self) -> Iterator[str]:
        """Return the measure before and after, and how many labels have a threshold of their own."""
        found, thresholds, by_score = self.found, self.found.thresholds, self.found.by == BY_SCORE
        shared = f"{found.shared:.6g}" if by_score else f"probability {probability(found.shared):.6g}"
        yield from self.head(f"thresholds for {MEASURES[found.measure]} (method {found.method})", "thresholds")
        zero = "threshold 0" if by_score or found.measure == "label" else "probability 0.5"
        worth = f"{cell(found.before)} at {zero}, {cell(found.after)} with these thresholds"
        yield f"{MEASURES[found.measure]} of these {self.n_rows:,} rows: {worth} (other rows will have less)"
        if found.everything:
            yield "warning: the best threshold gives every row every label: these scores tell nothing of the labels"
        if found.measure != "label":
            yield f"threshold of all {thresholds.size:,} labels: {shared}"
            return
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in found.borrowed.items() if count)
        shrunk = found.method == "shrink"
        own = thresholds if shrunk else thresholds[found.own]
        spread = f"{own.min():.4g} to {own.max():.4g}, median {np.median(own):.4g}" if own.size else ""
        if shrunk:
            each = f"a threshold for each of {plural(own.size, 'label')} ({spread})"
            yield f"{each}, the rarer the closer to that of labels as frequent"
        elif own.size:
            yield f"labels with a threshold of their own: {own.size:,} of {thresholds.size:,} ({spread})"
        if reasons and shrunk:
            yield f"labels that have the threshold of the rarest: {reasons}"
        elif reasons:
            yield f"labels that share the threshold of micro F1, {shared}: {sum(found.borrowed.values()):,} ({reasons})"


@dataclass(frozen=True)
class CalibrationReport(HeldOutReport):
    """The sigmoids (n_labels × 2: slope, offset), and the rows that they were found on."""

    sigmoids: np.ndarray
    n_without: int  # labels that none of the rows has

    def describe(self) -> Iterator[str]:
        """Return the spread of slopes and offsets."""
        yield from self.head(f"probabilities of {plural(len(self.sigmoids), 'label')}", "probabilities")
        for name, values in zip(("slope", "offset"), self.sigmoids.T, strict=True):
            yield f"{name}: {values.min():.4g} to {values.max():.4g}, median {np.median(values):.4g}"
        if self.n_without:
            yield f"labels that none of these rows has, with the sigmoid of the rarest as their guide: {self.n_without:,}"


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
    """Collective over `comm`. Find thresholds (`find_thresholds`), and write the model with them.

    Raises ConfigError for options that do not fit, and for thresholds or an output that exist
    (without `force`), DataError if files do not fit or cannot be read or written.
    """
    stored = f"thresholds (measure {model.attrs.get('threshold_measure', '?')})" if "threshold" in model.labels else ""

    def find(split: str) -> tuple[tuple[Found], Columns, dict[str, str]]:
        found = find_thresholds(comm, model, dataset, split, search, log)
        about = dict(zip(THRESHOLDS, (found.measure, found.method, split), strict=True))
        return (found,), {"threshold": found.thresholds}, about

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
    """Collective over `comm`. Fit sigmoids to labels (`decision`), and write the model with them.

    Raises ConfigError for a classifier, and for what exists (without `force`), DataError if files
    do not fit or cannot be read or written, NonFiniteError if a score is not finite.
    """
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier of {model.attrs.get('method', '?')} is not calibrated; take a linear model")

    def find(split: str) -> tuple[tuple[np.ndarray, int], Columns, dict[str, str]]:
        held_out, quiet = _held_out_rows(comm, model, dataset, split, log, "fitting the sigmoids of")
        decision = decide(summaries_of(held_out, quiet))
        sigmoids = np.tile(decision.rarest[1:], (model.n_labels, 1))
        sigmoids[held_out.numbers] = decision.sigmoids
        n_without = model.n_labels - int((held_out.n_positive() > 0).sum())
        about = dict(zip(CALIBRATION, ("sigmoid", split), strict=True))
        return (sigmoids, n_without), dict(zip(SIGMOID, sigmoids.T, strict=True)), about

    stored = f"probabilities ({model.probability_source})" if SIGMOID[0] in model.labels else ""
    return CalibrationReport(*_store(comm, model, dataset, split, output, force, stored, find))


def _held_out_rows(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, log: Log | None, doing: str
) -> tuple[JudgedRows, Log]:
    """Load the rows of a split, and log what follows; return a log that may be quiet. Collective over `comm`."""
    held_out, log = judge(comm, model, dataset, split), log or Log(comm.rank, quiet=True)
    if not mpi.agreed_any(comm, bool((held_out.positives > UNSCORED).any())):
        raise DataError(f"{dataset.path}: no row of split {split} has a label of {model.path}; choose rows that have some")
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
    """Write what `find` finds on a split (results, columns of labels, attributes) into the model, or into `output`.

    The file is copied into the folder of its destination, the copy is edited and renamed. `stored`: what the
    model has already. Returns the values of a report. Raises ConfigError for a split that is not
    there, or what may not be replaced. Collective over `comm`.
    """
    names = dataset.split_names()
    if split is None and HELD_OUT not in names:
        raise ConfigError(
            f"{dataset.path} has no split {HELD_OUT}; name rows with --split that neither trained the model nor will judge it "
            f"(splits: {', '.join(names) or 'none'})"
        )
    if output is None and stored and not force:
        raise ConfigError(f"{model.path} has {stored}; use --force to replace them, or --output")
    target, inputs, split = output or model.path, [dataset.path, *([] if output is None else [model.path])], split or HELD_OUT
    with temporary_path(comm, target, force or output is None, inputs) as temporary:
        seen = count_seen(comm, model, dataset, split)
        found, columns, about = find(split)

        def write() -> None:
            shutil.copyfile(model.path, temporary)
            with editing(temporary, target=target) as file:
                group = group_in(file, "labels")
                for name, values in columns.items():
                    if name in group:
                        group[name][:] = values
                    else:
                        group.create_dataset(name, data=np.asarray(values, dtype="<f8"))
                file.attrs.update(about)

        mpi.run_on_root(comm, f"writing {target}", write)
    return target, dataset.path, split, dataset.labelled_split(split).size, seen, *found


def find_thresholds(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, search: ThresholdSearch, log: Log | None = None
) -> Found:
    """Collective over `comm`. The thresholds for a measure, from the rows of a held-out split.

    Raises ConfigError or DataError if these do not fit one another, NonFiniteError if a score is not a number.
    """
    search = search.checked(model)
    measure, half = search.measure, search.method == "half"
    held_out, log = _held_out_rows(comm, model, dataset, split, log, "searching thresholds for")
    comparable, judged, n_labels, n_positive = held_out.comparable, held_out.numbers, held_out.n_labels, held_out.n_positive()
    borrowed = {"not in the data": model.n_labels - n_labels}
    if search.method == "shrink":
        decision = decide(summaries_of(held_out, log))
        thresholds = np.full(model.n_labels, decision.rarest[0])
        thresholds[judged] = decision.thresholds
        before, after = (_f1(held_out, "label", np.nextafter(each, np.inf)) for each in (np.zeros(n_labels), decision.thresholds))
        borrowed = {"without one of these rows": int((n_positive == 0).sum())} | borrowed
        return Found("label", "shrink", thresholds, judged[n_positive > 0], math.nan, before, after, borrowed)
    # the best cut, the least score that is predicted, of all labels together
    own = []  # of each label: cut, F1, rows predicted, hits
    if measure == "instance":
        of_rows = InstanceSearch(held_out.to_compare())
        common, best = of_rows.best()
    else:
        for _, count in held_out.counts(np.zeros(n_labels) if measure == "label" else None):
            own.append(_best_cut(count.values, count.ranking(held_out.n_rows)))
        ranking = held_out.pool.ranking(held_out.n_rows * n_labels)
        ranking = replace(ranking, n_missed=ranking.n_missed + held_out.missed.n_pairs)
        common, best, *_ = _best_cut(held_out.pool.values, ranking)
    common = _half(best) if half else common
    cuts, mine = comparable.least(common), np.zeros(n_labels, dtype=bool)
    if own:
        # Labels have a threshold of their own unless chance made it. In a random order so many of the predicted rows are hits,
        # or more, with a probability of at most P times the tail of the hypergeometric distribution, for the cut was the best
        # of P (Bonferroni). That of predicting every row is 1.
        of_labels, values, n_given, hits = map(np.array, zip(*own, strict=True))
        least, limit = search.min_positives or MIN_POSITIVES, CHANCE if search.chance is None else search.chance
        enough = n_positive >= least
        mine = enough & (np.minimum(n_positive * at_least(hits, held_out.n_rows, n_positive, n_given), 1.0) <= limit)
        cuts = np.where(mine, list(map(_half, values.tolist())) if half else of_labels, cuts)
        few, blind = int((~enough).sum()), int((enough & ~mine).sum())
        borrowed = {f"with fewer than {least} of these rows": few, "no better than chance": blind} | borrowed
    # the middle between the cut and the next score below; of half, exactly the threshold of the paper
    below, below_common, n_predicted = _below(held_out, cuts, common)
    shared, of_judged = between(below_common, common), np.array(list(map(between, below.tolist(), cuts.tolist())))
    if half:
        shared, of_judged = float(np.nextafter(common, -np.inf)), np.nextafter(cuts, -np.inf)
    thresholds = Comparable(model, np.arange(model.n_labels)).thresholds(shared)
    thresholds[judged[mine]] = of_judged[mine]
    if measure == "instance":
        before, after = of_rows.f1_at(ABOVE_0), of_rows.f1_at(common)
    else:
        at_zero = np.full(n_labels, ABOVE_0) if measure == "label" else comparable.least(ABOVE_0)
        before = _f1(held_out, measure, at_zero)
        after = _f1(held_out, measure, cuts, n_predicted)
    everything = measure != "label" and not math.isfinite(below_common)
    borrowed = borrowed if measure == "label" else {}
    return Found(measure, search.method, thresholds, judged[mine], shared, before, after, borrowed, everything, comparable.by)


def _f1(held_out: JudgedRows, measure: str, cuts: np.ndarray, n_predicted: np.ndarray | None = None) -> float:
    """Collective. Micro F1, or the mean over labels with a row, of predicting scores ≥ the cuts."""
    n_predicted = _below(held_out, cuts, ABOVE_0)[2] if n_predicted is None else n_predicted
    hits, n_positive = held_out.sum_by_label(held_out.positives >= cuts[held_out.labels]), held_out.n_positive()
    if measure == "micro":
        return float(f1(hits.sum(), n_predicted.sum(), n_positive.sum() + held_out.missed.n_pairs))
    return float(np.mean(f1(hits, n_predicted, n_positive)[n_positive > 0]))


def _half(f1: float) -> float:
    """The least log-odds above a threshold of half an F1, as a probability."""
    return float(np.nextafter(elementary.log(f1 / (2.0 - f1)), np.inf)) if f1 > 0 else 0.0


def between(below: float, cut: float) -> float:
    """A finite threshold as nearly in the middle of two scores as can be: below ≤ it < cut."""
    middle = below / 2.0 + cut / 2.0
    if math.isfinite(middle) and below <= middle < cut:
        return middle
    return below if math.isfinite(below) else max(-float(np.finfo(np.float64).max), float(np.nextafter(cut, -np.inf)))


def _best_cut(values: np.ndarray, ranking: Ranking) -> tuple[float, float, int, int]:
    """The highest of positives' scores (ascending) with the largest F1 as the cut, or NaN; that F1, rows predicted, hits."""
    place, value = best_f1(ranking)
    n_predicted = int(ranking.greater[place] + ranking.equal[place]) if place >= 0 else 0
    return float(values[-1 - place]) if place >= 0 else math.nan, value, n_predicted, int(ranking.relevant[: place + 1].sum())


def _below(held_out: JudgedRows, cuts: np.ndarray, common: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Collective. The largest score below each cut, and value below `common`; rows at each cut."""
    comm, n = held_out.comm, held_out.n_labels
    below, n_predicted = np.full(n + 1, -np.inf), np.zeros(n, dtype=np.int64)
    for begin, end in held_out.scorer.blocks:
        some = slice(begin, end)
        with mpi.agreed(comm, "scoring rows"):
            for _, scores in held_out.scores(begin, end):
                inside = scores >= cuts[some]
                n_predicted[some] += inside.sum(axis=0)
                below[some] = np.maximum(below[some], np.where(inside, -np.inf, scores).max(axis=0))
                values = held_out.comparable.values(scores, some)
                below[n] = max(below[n], np.where(values < common, values, -np.inf).max())
    mpi.allreduce_maxima(comm, below)
    return below[:n], float(below[n]), mpi.allreduce_sum(comm, n_predicted)


def summaries_of(held_out: JudgedRows, log: Log) -> list[Summary]:
    """Collective over the rows' ranks. Summaries of judged labels, by two passes over the scores.

    Raises NonFiniteError for a score that is not finite.
    """
    comm, model, summaries, even = held_out.comm, held_out.scorer.model, [], even_places(held_out.n_labels)
    with mpi.node_first(comm):
        warm_up()
    with closing(Progress(log, "looking at the scores of labels", held_out.n_labels)) as progress:
        for begin, end in held_out.scorer.blocks:
            ends = np.full((2, end - begin), -np.inf)  # −least, largest
            with mpi.agreed(comm, "scoring rows"):
                for scores in held_out.scored(begin, end):
                    np.maximum(ends, [-scores.min(axis=0), scores.max(axis=0)], out=ends)
            mpi.allreduce_maxima(comm, ends)
            endless = np.flatnonzero(~np.isfinite(ends.sum(axis=0)))
            if endless.size:  # the same on all ranks
                name = model.label_names[int(held_out.numbers[begin + endless[0]])]
                raise NonFiniteError(f"{model.path}: a score of label {name!r} is not finite; train it again")
            some = slice(*np.searchsorted(held_out.labels, [begin, end]))
            own, lanes = held_out.positives[some], held_out.labels[some] - begin
            positives = split_by_lane(comm, own[own > UNSCORED], lanes[own > UNSCORED], end - begin)
            with mpi.agreed(comm, "counting scores"):
                tallies = [Tally(of_label, -low, high, even) for of_label, low, high in zip(positives, *ends, strict=True)]
                for scores in held_out.scored(begin, end):
                    for tally, column in zip(tallies, np.ascontiguousarray(scores.T), strict=True):
                        tally.add(column)
            reduce_together(comm, [tally.counts for tally in tallies])
            reduce_together(comm, [tally.top for tally in tallies], mpi.allreduce_maxima)
            summaries += [tally.summary() for tally in tallies]
            progress.update(end)
    return summaries
