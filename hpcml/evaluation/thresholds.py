"""The thresholds that maximise F1 on held-out rows: per label, or one for micro F1 or F1 per row.

Predicting more rows raises F1 only where one more is a hit, so the best threshold lies just below
the score of a positive. For labels and micro F1 the counts of `counts` have all that it takes: how
many scores lie above and at each positive's. F1 per row is searched by `instance_search`. One
threshold for all labels is one probability, where the model has them (`comparable`). A last pass
finds the next score below, over all ranks: the threshold is in the middle of the two. Everything
that decides is a whole number, so the result is the same on any number of ranks.

Lipton, Elkan & Narayanaswamy, "Optimal Thresholding of Classifiers to Maximize F1 Measure", 2014:
where scores are calibrated probabilities, the best threshold is half of the best F1 (method
"half"). A label whose scores say nothing has its best F1 where every row is positive; and a rare
label's best threshold on a few rows may be chance. With "search" such labels share the threshold of
micro F1. "shrink" draws the threshold of each label to that of labels as frequent (`decision`),
more the fewer rows it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.chance_kernels import at_least
from hpcml.evaluation.comparable import BY_SCORE, Comparable
from hpcml.evaluation.decision import decide
from hpcml.evaluation.instance_search import InstanceSearch
from hpcml.evaluation.judged import JudgedRows, hold_out
from hpcml.evaluation.ranking import Ranking
from hpcml.evaluation.summaries import summaries_of
from hpcml.kernels import elementary
from hpcml.log import Log, plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import LOG_ODDS, Trained

MEASURES = ("label", "micro", "instance")
METHODS = ("shrink", "search", "half")
MIN_POSITIVES = 1  # held-out rows that a label needs for a threshold of its own
ABOVE_0 = float(np.nextafter(0.0, 1.0))  # the least score that is predicted at threshold 0
# Micro F1 on Reuters and the docstrings is 0.832 and 0.183 without this guard, 0.879 and 0.693 with it. With 1e-4 macro F1 on
# Reuters falls from 0.685 to 0.651 (docs/notebook.md).
CHANCE = 0.01  # the largest probability that a label's best F1 in a random order would be as good


@dataclass(frozen=True)
class ThresholdSearch:
    """What thresholds are to maximise, and how they are found; None is the default."""

    measure: str
    method: str | None = None  # shrink for labels; search else, and where one of these is named
    min_positives: int | None = None
    chance: float | None = None

    def checked(self, model: Trained) -> ThresholdSearch:
        """The same with its method. Raises ConfigError unless all fits, the model too. Local."""
        of_search = {"min-positives": self.min_positives, "chance": self.chance}
        named = [flag for flag, value in of_search.items() if value is not None]
        if self.method == "shrink" and named:
            raise ConfigError(f"--{named[0]} is for --method search and half; leave it out")
        method = self.method or ("search" if named or self.measure != "label" else "shrink")
        for flag, value, known in (("measure", self.measure, MEASURES), ("method", method, METHODS)):
            if value not in known:
                raise ConfigError(f"--{flag} {value}: expected one of {', '.join(known)}")
        if method == "shrink" and self.measure != "label":
            raise ConfigError(f"--method shrink is for --measure label; for {self.measure} take --method search")
        if self.min_positives is not None and self.min_positives < 1:
            raise ConfigError(f"--min-positives {self.min_positives}: expected at least 1")
        if self.chance is not None and not 0 <= self.chance <= 1:
            raise ConfigError(f"--chance {self.chance}: expected a probability, from 0 to 1")
        if isinstance(model, ClassifierModel) and model.n_classes > 2:
            raise ConfigError(
                f"{model.path}: a classifier of {model.n_classes} classes gives every row exactly one, which thresholds would "
                "undo; take a linear model"
            )
        if method == "half":
            _check_half(model)
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


def _check_half(model: Trained) -> None:
    """Raise ConfigError for a model whose scores are no calibrated log-odds."""
    loss, weight = model.attrs.get("loss"), str(model.attrs.get("positive_weight", "1"))
    if isinstance(model, ClassifierModel) or loss != LOG_ODDS:
        raise ConfigError(f"{model.path}: --method half needs scores that are log-odds (--loss {LOG_ODDS}); take --method search")
    if weight != "1":
        raise ConfigError(
            f"{model.path}: --method half needs calibrated probabilities, but it was trained with --positive-weight {weight}; "
            "take --method search"
        )


def find_thresholds(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, search: ThresholdSearch, log: Log | None = None
) -> Found:
    """Collective over `comm`. The thresholds for a measure, from the rows of a held-out split.

    Raises ConfigError or DataError if these do not fit one another, NonFiniteError if a score is
    not a number.
    """
    search = search.checked(model)
    measure, half = search.measure, search.method == "half"
    held_out = hold_out(comm, model, dataset, split)
    if log is not None:
        log(f"searching thresholds for {plural(held_out.n_labels, 'label')} on {plural(held_out.n_rows, 'row')} of split {split}")
    if search.method == "shrink":
        return _shrunk(held_out, Log(comm.rank, quiet=True) if log is None else log)
    comparable, judged = held_out.comparable, held_out.numbers
    of_rows = InstanceSearch(held_out.to_compare()) if measure == "instance" else None
    best, own = _count(held_out, measure == "label") if of_rows is None else (of_rows.best(), None)
    common = _half(best[1]) if half else best[0]
    cuts, mine, borrowed = comparable.least(common), np.zeros(held_out.n_labels, dtype=bool), {}
    if own is not None:
        mine, reasons = _guard(own, held_out, search)
        cuts = np.where(mine, [_half(f1) for f1 in own.f1.tolist()] if half else own.cuts, cuts)
        borrowed = {**reasons, "not in the data": model.n_labels - judged.size}
    below, below_common, n_predicted = _below(held_out, cuts, common)
    shared, of_judged = between(below_common, common), list(map(between, below.tolist(), cuts.tolist()))
    if half:  # exactly the threshold of the paper, not the middle of what lies around it
        shared, of_judged = float(np.nextafter(common, -np.inf)), np.nextafter(cuts, -np.inf).tolist()
    thresholds = Comparable(model, np.arange(model.n_labels)).thresholds(shared)
    thresholds[judged[mine]] = np.array(of_judged)[mine]
    if of_rows is not None:
        before, after = of_rows.f1_at(ABOVE_0), of_rows.f1_at(common)
    else:
        at_zero = np.full(held_out.n_labels, ABOVE_0) if measure == "label" else comparable.least(ABOVE_0)
        before = _f1(held_out, measure, at_zero)
        after = _f1(held_out, measure, cuts, n_predicted)
    everything = measure != "label" and not math.isfinite(below_common)
    return Found(measure, search.method, thresholds, judged[mine], shared, before, after, borrowed, everything, comparable.by)


def _shrunk(held_out: JudgedRows, log: Log) -> Found:
    """Collective. `decision.decide`'s thresholds of judged labels; for others, of the rarest."""
    decision, n_labels, judged = decide(summaries_of(held_out, log)), held_out.scorer.model.n_labels, held_out.numbers
    thresholds = np.full(n_labels, decision.rarest[0])
    thresholds[judged] = decision.thresholds
    before, after = (_f1(held_out, "label", np.nextafter(each, np.inf)) for each in (np.zeros(judged.size), decision.thresholds))
    some = held_out.n_positive() > 0
    borrowed = {"without one of these rows": int((~some).sum()), "not in the data": n_labels - judged.size}
    return Found("label", "shrink", thresholds, judged[some], math.nan, before, after, borrowed)


def _f1(held_out: JudgedRows, measure: str, cuts: np.ndarray, n_predicted: np.ndarray | None = None) -> float:
    """Collective. Micro F1, or the mean over labels with a row, of predicting scores ≥ the cuts."""
    n_predicted = _below(held_out, cuts, ABOVE_0)[2] if n_predicted is None else n_predicted
    hits, n_positive = held_out.sum_by_label(held_out.positives >= cuts[held_out.labels]), held_out.n_positive()
    if measure == "micro":
        return float(2 * hits.sum() / (n_predicted.sum() + n_positive.sum() + held_out.missed.n_pairs))
    some = n_positive > 0
    return float(np.mean(2.0 * hits[some] / (n_predicted + n_positive)[some]))


def _half(f1: float) -> float:
    """The least log-odds above a threshold of half an F1, as a probability."""
    return float(np.nextafter(elementary.log(f1 / (2.0 - f1)), np.inf)) if f1 > 0 else 0.0


def between(below: float, cut: float) -> float:
    """A finite threshold as nearly in the middle of two scores as can be: below ≤ it < cut."""
    middle = below / 2.0 + cut / 2.0
    if math.isfinite(middle) and below <= middle < cut:
        return middle
    return below if math.isfinite(below) else max(-float(np.finfo(np.float64).max), float(np.nextafter(cut, -np.inf)))


def best_cut(values: np.ndarray, ranking: Ranking) -> tuple[float, float]:
    """The highest cut of positives' falling scores with the largest F1, and that F1; or NaN."""
    if not ranking.greater.size:
        return math.nan, 0.0
    hits = np.cumsum(ranking.relevant)
    f1 = 2.0 * hits / (ranking.greater + ranking.equal + ranking.n_positive)
    place = int(np.argmax(f1))
    return float(values[place]), float(f1[place])


class Own(NamedTuple):
    """Each label's best cut (the least score that is predicted), its F1, rows predicted, hits."""

    cuts: np.ndarray
    f1: np.ndarray
    n_predicted: np.ndarray
    hits: np.ndarray


def _count(held_out: JudgedRows, by_label: bool) -> tuple[tuple[float, float], Own | None]:
    """Collective. The best cut of all pairs in one ranking, and its F1; on demand each label's."""
    pool, found = held_out.pool(), []
    for _, count in held_out.counts(pool, np.zeros(held_out.n_labels) if by_label else None):
        values, ranking = count.values[::-1], count.ranking(held_out.n_rows)
        cut, f1 = best_cut(values, ranking)
        above = values >= cut
        found.append((cut, f1, (ranking.greater + ranking.equal)[above].max(initial=0), ranking.relevant[above].sum()))
    ranking = pool.ranking(held_out.n_rows * held_out.n_labels)
    best = best_cut(pool.values[::-1], replace(ranking, n_missed=held_out.missed.n_pairs))
    return best, Own(*map(np.array, zip(*found, strict=True))) if by_label else None


def _guard(own: Own, held_out: JudgedRows, search: ThresholdSearch) -> tuple[np.ndarray, dict[str, int]]:
    """Collective. Which labels may have a threshold of their own, and how many may not, and why.

    In a random order so many of the predicted rows are hits, or more, with a probability of at most
    P times the tail of the hypergeometric distribution, for the cut was the best of P (Bonferroni).
    That of predicting every row is 1.
    """
    n_positive = held_out.n_positive()
    least, limit = search.min_positives or MIN_POSITIVES, CHANCE if search.chance is None else search.chance
    enough = n_positive >= least
    chance = n_positive * at_least(own.hits, held_out.n_rows, n_positive, own.n_predicted)
    informed = np.minimum(chance, 1.0) <= limit
    few, blind = int((~enough).sum()), int((enough & ~informed).sum())
    return enough & informed, {f"with fewer than {least} of these rows": few, "no better than chance": blind}


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
                values = held_out.comparable.of_block(scores, begin)
                below[n] = max(below[n], np.where(values < common, values, -np.inf).max())
    mpi.allreduce_maxima(comm, below)
    return below[:n], float(below[n]), mpi.allreduce_sum(comm, n_predicted)
