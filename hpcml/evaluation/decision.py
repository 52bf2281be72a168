"""From the scores of labels to thresholds and probabilities that do not hurt rare labels.

A label's scores become a `Summary` of at most 4,032 bytes: how many positives and negatives lie from each of some places to the
next. The places are the positives' scores, up to 64 of them, and 48 at equal distances; of more than 83,333 labels fewer, so that
all together have 4,000,000. `decide` uses the summaries of all labels, since a rare label alone says too little:

- The threshold is (P t + τ t₀) / (P + τ): t is the best cut for F1 on the label's own scores, P its
  positives. t₀ is the threshold where the labels with about as many positives have the largest mean
  F1.
- The probability is 1 / (1 + exp(−slope · score − offset)), fitted to the label's scores with
  Platt's targets, (P + 1)/(P + 2) for positives and 1/(N + 2) for negatives. The sigmoid of the
  labels with about as many positives is the prior: it counts as much as κ positives of theirs, by
  the second derivatives of their loss.

"About as many" weighs labels by a Gaussian of log₂ P with deviation WIDTH. What labels share is said of their scores as they are;
or of scores brought to mean 0 and deviation 1 for each label, if that gives the labels a mean F1 at t₀ that is larger by 0.01.

All counts are whole numbers, and all sums are made in the order of the labels, so that the result
does not depend on who made a summary, nor on the order of the rows.

Platt, "Probabilistic Outputs for Support Vector Machines", 1999. The shrinkage, τ and κ were chosen
on Reuters and MeSH (docs/notebook.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation import decision_kernels as kernels
from hpcml.evaluation.probabilities import probabilities
from hpcml.kernels import elementary, elementwise
from hpcml.measures import Ranking, best_f1, f1
from hpcml.partition import offsets

# Less τ or κ leaves a rare label to chance, more makes all labels alike. They were chosen on Reuters and MeSH and judged on three
# other corpora: macro F1 is 0.590 on the docstrings, 0.584 with the shared threshold alone, and 0.551 by `search`, which has none
# (docs/notebook.md).
TAU = 30.0  # positives that weigh as much as the threshold of the labels around
KAPPA = 10.0  # positives of the labels around that a label's sigmoid is drawn to
WIDTH = 0.5  # of the labels around, in octaves of the number of positives
# Some methods' scores lie elsewhere for each label. Where they do not, standardising gains less than this, by chance.
MARGIN = 0.01  # of mean F1, by which standardised scores must be better to be preferred
OWN_PLACES, EVEN_PLACES = 64, 48  # at scores of positives; at equal distances
# Of a million labels, 48 places each would take 6 GB of every rank. Of 160 labels with 0.1 to 1.8 % positives of 3,000 rows, macro
# F1 on other rows is 0.4068 with 48 places, 0.4069 with 8, and 0.4069 with 4; the mean Brier score 0.025912 with all of these.
FEWEST, ALL_EVEN = 4, 4_000_000  # of the places at equal distances: of a label; of all labels together
_GRID, _STARTS = 256, 256
_SCORES, _COUNTS, _OFFSETS = ("value", "top"), ("positive", "negative", "equal"), ("positive_offset", "negative_offset")
PLACE = np.dtype([(name, kind) for names, kind in ((_SCORES, "<f8"), (_COUNTS, "<i4"), (_OFFSETS, "<f4")) for name in names])


@dataclass(frozen=True)
class Summary:
    """The scores of a label's rows: a table of PLACE (at most 112 lines of 36 bytes), ascending.

    A line counts the scores from its value up to, not with, the next line's; `equal` of the negatives have the value itself. `top`
    is the largest of these scores (−∞ without any). The offsets are where their mean lies, as a share of the way to the next value.
    """

    places: np.ndarray

    def centres(self, kind: str) -> np.ndarray:
        """The mean scores (K) of the "positive" or "negative" rows of each place."""
        values = self.places["value"]
        return values + self.places[f"{kind}_offset"] * np.append(np.diff(values), 0.0)

    def ranking(self, threshold: float = 0.0) -> Ranking:
        """The ranking: exact for up to 64 different scores of positives, else places are tied."""
        places = self.places[::-1]
        positive, negative = places["positive"].astype(np.int64), places["negative"].astype(np.int64)
        exact = not places["positive_offset"].any()
        equal = positive + (places["equal"] if exact else negative)
        greater = np.cumsum(positive + negative) - equal
        some = positive > 0
        above = places["value"] > threshold
        hits, predicted = int(positive[above].sum()), int((positive + negative)[above].sum())
        if not above.all():  # of the place that the threshold lies in, the share above it
            i = int(np.argmin(above))
            value = float(places["value"][i])
            width = (float(places["value"][i - 1]) if i else float(places["top"][i])) - value
            share = min(1.0, max(0.0, 1.0 - (threshold - value) / width)) if width > 0 else 0.0
            inside = round(share * int(negative[i] - places["equal"][i]))
            own = 0 if exact else round(share * int(positive[i]))
            hits, predicted = hits + own, predicted + inside + own
        return Ranking(greater[some], equal[some], positive[some], int((positive + negative).sum()), predicted, hits)


@dataclass(frozen=True)
class Decision:
    """The score above which a row has each label; slope and offset of its sigmoid (n × 2)."""

    thresholds: np.ndarray
    sigmoids: np.ndarray
    rarest: tuple[float, float, float]  # threshold, slope and offset for a label that is not among them


class Tally:
    """The scores of a label's rows, counted part by part; then its summary."""

    def __init__(self, positives: np.ndarray, low: float, high: float, even: int = EVEN_PLACES) -> None:
        """`positives`: the label's scores; low, high: all scores' ends; `even`: places between these. Raises NonFiniteError."""
        low, high = float(low), float(high)
        if not math.isfinite(high - low):
            raise NonFiniteError(f"scores from {low:g} to {high:g}: expected finite numbers")
        own = np.unique(np.asarray(positives, dtype=np.float64))
        self.exact = own.size <= OWN_PLACES
        if not self.exact:
            ascending = np.sort(np.asarray(positives, dtype=np.float64))
            own = ascending[np.rint(np.linspace(0, ascending.size - 1, OWN_PLACES)).astype(np.int64)]
        self.values = np.unique(np.concatenate([own, np.linspace(low, high, even), [low, high]]) + 0.0)  # no −0
        steps = low + np.arange(_STARTS) * ((high - low) / _STARTS)
        self._starts = np.maximum(np.searchsorted(self.values, steps, "right") - 1, 0)
        n = self.values.size
        self.top = np.full(n, -np.inf)
        self.counts = np.zeros((3, n), dtype=np.int64)  # all rows: scores, equal ones, offsets
        self._of_positives = np.zeros((3, n), dtype=np.int64)
        kernels.tally(np.asarray(positives), self.values, self._starts, np.full(n, -np.inf), *self._of_positives)

    def add(self, scores: np.ndarray) -> None:
        """Count the scores of rows, with those of the positives among them."""
        kernels.tally(scores, self.values, self._starts, self.top, *self.counts)

    def summary(self) -> Summary:
        """The summary, once all rows are counted (and counts and tops are those of all ranks)."""
        places = np.zeros(self.values.size, dtype=PLACE)
        others = self.counts - self._of_positives
        for name, values in zip(("negative", "equal"), others, strict=False):
            places[name] = values
        places["value"], places["top"], places["positive"] = self.values, self.top + 0.0, self._of_positives[0]
        for kind, (count, _, offset) in (("positive", self._of_positives), ("negative", others)):
            places[f"{kind}_offset"] = offset / np.maximum(count, 1) / kernels.OFFSETS
        return Summary(places)


def even_places(n_labels: int) -> int:
    """Number of equidistant grid points of each of `n` labels: 48, fewer for very many labels."""
    return max(FEWEST, min(EVEN_PLACES, ALL_EVEN // max(1, n_labels)))


def summarise(scores: np.ndarray, positives: np.ndarray, even: int = EVEN_PLACES) -> Summary:
    """A label's summary from all scores (n) and its positives' places. Raises NonFiniteError."""
    if not scores.size:
        raise DataError("no rows to summarise the scores of")
    tally = Tally(scores[positives], float(scores.min()), float(scores.max()), even)
    tally.add(scores)
    return tally.summary()


def own_threshold(summary: Summary) -> float:
    """The highest threshold of largest F1 (exact for up to 64 scores of positives); or NaN."""
    place, _ = best_f1(summary.ranking())
    if place < 0:
        return math.nan
    places = summary.places[::-1]
    best = int(np.flatnonzero(places["positive"])[place])
    value, below = float(places["value"][best]), places["top"][best + 1 :].max(initial=-np.inf)
    middle = float(value / 2.0 + below / 2.0)
    return middle if math.isfinite(middle) and middle < value else float(np.nextafter(value, -np.inf))


def decide(summaries: Sequence[Summary], tau: float = TAU, kappa: float = KAPPA) -> Decision:
    """Thresholds and sigmoids of all labels, from their summaries in the order of the labels.

    A label without positives has the threshold and the prior of those with fewest. tau 0 leaves each label its own best cut, and
    kappa 0 its own sigmoid (Platt's). Local. Raises DataError if no label has a positive.
    """
    n_positive = np.array([summary.places["positive"].sum(dtype=np.int64) for summary in summaries])
    if not n_positive.any():
        raise DataError("the rows have none of the labels; choose rows that have some")
    around, scores = _Neighbours(n_positive), _Scores(summaries)
    plain = _Frame(scores, around, np.zeros(scores.n_labels), np.ones(scores.n_labels))
    standardised = _Frame(scores, around, scores.mean, scores.deviation)  # to mean 0 and deviation 1
    frame = standardised if standardised.agreement > plain.agreement + MARGIN else plain
    own = np.array([own_threshold(summary) for summary in summaries])
    mixed = (n_positive * np.where(n_positive > 0, own, 0.0) + tau * frame.thresholds) / np.maximum(n_positive + tau, 1e-300)
    thresholds = np.where((n_positive > 0) | (tau > 0), mixed, frame.thresholds)
    # the sigmoid of each group of labels, and its precision for one positive: the prior of their sigmoids
    x = (scores.x - frame.shift[scores.owner, None]) / frame.scale[scores.owner, None]
    low, high = float(x.min()), float(x.max())
    edges = np.unique(np.concatenate([np.linspace(low, high, 2 * _GRID), np.quantile(x, np.linspace(0.0, 1.0, 2 * _GRID))]))
    shape, groups, sums = (around.quarters.size, max(1, edges.size - 1)), around.of_labels[scores.owner], []
    for kind in range(2):
        mass, moment = np.zeros(shape), np.zeros(shape)
        of_kind = (np.ascontiguousarray(values[:, kind]) for values in (x, scores.weights))
        kernels.add_mass(*of_kind, groups, edges, mass, moment)
        sums.append((around.around(mass), around.around(moment)))
    priors = np.zeros((shape[0], 5))
    none = np.array([1.0 / max(high - low, 1e-300), 0.0, 0.0, 0.0, 0.0])  # where the search begins
    for group, prior in enumerate(priors):
        masses, moments = (np.concatenate([pair[kind][group] for pair in sums]) for kind in range(2))
        some = masses > 0
        of_negatives, of_positives = (float(pair[0][group].sum()) for pair in sums)
        targets = np.repeat([1.0 / (of_negatives + 2.0), (of_positives + 1.0) / (of_positives + 2.0)], shape[1])[some]
        points = moments[some] / masses[some]
        kernels.fit_sigmoid(points, masses[some], targets, none, prior[:2])
        kernels.curvature(points, masses[some], *prior[:2], prior[2:])
        prior[2:] /= of_positives
    priors[:, 2:] *= kappa
    # the sigmoid of each label, with Platt's targets of negatives and positives
    of_labels = 1.0 / (scores.n_rows - n_positive + 2.0), (n_positive + 1.0) / (n_positive + 2.0)
    fitted = np.empty((scores.n_labels, 2))
    flat = (values.ravel() for values in (x, scores.weights, np.stack(of_labels, axis=1)[scores.owner]))
    kernels.fit_labels(2 * scores.indptr, *flat, priors[around.nearest], fitted)
    # back to the labels' own scores: slope and offset of all labels, then those of the prior of the rarest
    slopes = np.append(fitted[:, 0], priors[0, 0]) / np.append(frame.scale, np.median(frame.scale))
    shifts = slopes * np.append(frame.shift, np.median(frame.shift))
    sigmoids = np.stack([slopes, np.append(fitted[:, 1], priors[0, 1]) - shifts], axis=1)
    return Decision(thresholds, sigmoids[:-1], (frame.rarest, float(sigmoids[-1, 0]), float(sigmoids[-1, 1])))


def decide_together(summaries: Sequence[Summary], decision: Decision, n_missed: int = 0) -> tuple[float, Decision]:
    """(p, the same with other thresholds): those above which a label's probability is more than p.

    p is the one for all labels with the largest F1 of all pairs of a row and a label (micro);
    `n_missed` pairs more are true and never given. The rows of a place of a summary count at their
    mean score. Where the probability is the same for all scores, all rows or none are above. Local.
    """
    found, counts = [], []
    for summary, sigmoid in zip(summaries, decision.sigmoids, strict=True):
        x = np.concatenate([summary.centres("negative"), summary.centres("positive")])
        found.append(probabilities(x[:, None], *sigmoid[:, None]).reshape(2, -1))
        counts.append(np.stack([summary.places["negative"], summary.places["positive"]]).astype(np.int64))
    values, places = np.unique(np.concatenate(found, axis=1), return_inverse=True)
    of_kinds = zip(places.reshape(2, -1), np.concatenate(counts, axis=1), strict=True)
    negative, positive = (np.bincount(there, count, values.size)[::-1] for there, count in of_kinds)
    hits = np.cumsum(positive)
    best = int(np.argmax(f1(hits, hits + np.cumsum(negative), hits[-1] + n_missed)))
    descending = np.append(values[::-1], 0.0)
    shared = float(descending[best] / 2.0 + descending[best + 1] / 2.0)
    logit = elementary.log(shared) - elementary.log1p(-shared)

    def threshold(slope: float, offset: float, low: float, high: float) -> float:
        if slope > 0:
            return (logit - offset) / slope
        return low if offset > logit else high

    ends = [(float(np.nextafter(each.places["value"][0], -np.inf)), float(each.places["top"].max())) for each in summaries]
    of_labels = zip(*decision.sigmoids.T.tolist(), *zip(*ends, strict=True), strict=True)
    thresholds = np.array([threshold(*values) for values in of_labels])
    _, slope, offset = decision.rarest
    return shared, Decision(thresholds, decision.sigmoids, (threshold(slope, offset, -math.inf, math.inf), slope, offset))


def warm_up() -> None:
    """Compile the kernels. Local."""
    decide([summarise(np.arange(3.0), np.array([2]))])


class _Neighbours:
    """Labels grouped by positives (quarters of an octave), and how groups weigh for each other."""

    def __init__(self, n_positive: np.ndarray) -> None:
        self.n_positive = n_positive
        quarters = np.rint(4.0 * elementwise.log2(np.maximum(n_positive, 1))).astype(np.int64)
        self.quarters, self.places = np.unique(quarters[n_positive > 0], return_inverse=True)
        self.of_labels = np.full(n_positive.size, -1, dtype=np.int64)  # the group of a label that has a positive
        self.of_labels[n_positive > 0] = self.places
        self.nearest = np.where(self.of_labels < 0, 0, self.of_labels)
        distance = (self.quarters[:, None] - self.quarters) / (4.0 * WIDTH)
        self.weights = elementwise.exp(-0.5 * distance * distance)

    def around(self, of_groups: np.ndarray) -> np.ndarray:
        """For each group the weighted sum of rows (n_groups × m), in the order of groups."""
        out = np.zeros(of_groups.shape)
        for weights, row in zip(self.weights.T, of_groups, strict=True):
            out += weights[:, None] * row
        return out


class _Scores:
    """The lines of all summaries (label l's from indptr[l] on); mean and deviation of scores."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self.places, self.n_labels = np.concatenate([summary.places for summary in summaries]), len(summaries)
        self.indptr = offsets([summary.places.size for summary in summaries])
        self.owner = np.repeat(np.arange(self.n_labels), np.diff(self.indptr))
        kinds = ("negative", "positive")
        self.x = np.stack([np.concatenate([summary.centres(kind) for summary in summaries]) for kind in kinds], axis=1)
        self.weights = np.stack([self.places[kind] for kind in kinds], axis=1).astype(np.float64)
        weighted = (np.ones_like(self.x), self.x)
        self.n_rows, sums = (np.add.reduceat((self.weights * values).sum(axis=1), self.indptr[:-1]) for values in weighted)
        self.mean = sums / self.n_rows
        squares = self.weights * np.square(self.x - self.mean[self.owner, None])
        variance = np.add.reduceat(squares.sum(axis=1), self.indptr[:-1]) / self.n_rows
        self.deviation = np.where(variance > 0, np.sqrt(variance), 1.0)


class _Frame:
    """Scores minus a shift, divided by a scale, and what labels with about as many positives share.

    `thresholds` are those, in the labels' own scores, where the mean F1 of these labels is largest; `agreement` is its mean.
    """

    def __init__(self, scores: _Scores, around: _Neighbours, shift: np.ndarray, scale: np.ndarray) -> None:
        self.scores, self.around, self.shift, self.scale = scores, around, shift, scale
        places, owner = scores.places, scores.owner
        values = (places["value"] - shift[owner]) / scale[owner]
        # at most _GRID values that divide positives' scores evenly, all labels weighing the same
        order = np.argsort(values, kind="stable")
        some = order[places["positive"][order] > 0]
        mass = np.cumsum((places["positive"] / np.maximum(around.n_positive, 1)[owner])[some])
        chosen = np.searchsorted(mass, np.linspace(0.0, mass[-1], _GRID))
        grid = np.unique(values[some[np.minimum(chosen, some.size - 1)]])
        sums = np.zeros((around.quarters.size, grid.size))
        columns = (np.ascontiguousarray(places[name]) for name in ("positive", "negative", "positive_offset", "equal"))
        kernels.add_f1(scores.indptr, values, *columns, around.of_labels, grid, sums)
        counts = np.bincount(around.of_labels[around.of_labels >= 0], minlength=around.quarters.size).astype(np.float64)
        means = around.around(sums) / around.around(counts[:, None])
        best = np.argmax(means, axis=1)
        self.agreement = float((counts * means.max(axis=1)).sum() / counts.sum())
        shared = np.where(best > 0, (grid[best] + grid[np.maximum(best - 1, 0)]) / 2.0, np.nextafter(grid[best], -np.inf))
        self.thresholds = shift + scale * shared[around.nearest]
        self.rarest = float(np.median(shift) + np.median(scale) * shared[0])
