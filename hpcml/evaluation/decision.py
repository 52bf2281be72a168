"""Thresholds and sigmoids of labels from summaries of their scores, shrunk towards those of labels of similar frequency.

Problem: the best threshold and the sigmoid of a rare label on a few rows may be due to chance.
Method: the scores of a label become a `Summary` of at most 4,032 bytes: the numbers of positives and negatives between consecutive
points. The points are the positives' scores, at most 64, and 48 equidistant ones (fewer for more than 83,333 labels, so that all
labels together have 4,000,000). `decide` combines the summaries of all labels. For a label with P positives and N negatives:

- The threshold is (P t + τ t₀) / (P + τ), where t is the best cut for F1 on the label's own scores, and t₀ the threshold with the
  largest mean F1 of the labels of similar frequency.
- The probability is 1 / (1 + exp(−slope · score − offset)), fitted with Platt's targets (P + 1)/(P + 2) for positives and 1/(N + 2)
  for negatives. The sigmoid of the labels of similar frequency is the prior, with the weight of κ of their positives, by the second
  derivatives of their loss.

Labels of similar frequency are weighted by a Gaussian of log₂ P with standard deviation WIDTH. They share thresholds and sigmoids
of their scores, or of standardised scores (mean 0, deviation 1) if that raises the mean F1 at t₀ by more than 0.01.

All counts are whole numbers and all sums are made in the order of the labels, so the result does not depend on the ranks or on the
order of the rows.

Platt, "Probabilistic Outputs for Support Vector Machines", 1999. The shrinkage, τ and κ were chosen on Reuters and MeSH.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation import decision_kernels as kernels
from hpcml.evaluation.probabilities import probabilities
from hpcml.kernels import elementary, elementwise, platt
from hpcml.measures import Ranking, best_f1, f1
from hpcml.partition import offsets

# Smaller τ or κ leave rare labels to chance, larger ones make all labels equal. Chosen on Reuters and MeSH and evaluated on three
# other corpora: macro F1 is 0.590 on the docstrings, 0.584 with the shared threshold alone, and 0.551 with `search`, which does not
# shrink.
TAU = 30.0  # weight of the shared threshold, in positives of the label
KAPPA = 10.0  # weight of the shared sigmoid, in positives of the labels of similar frequency
WIDTH = 0.5  # of the Gaussian weights, in octaves of the number of positives
# The scores of some methods have a different location for each label. Where they do not, standardising gains less than this, by
# chance.
MARGIN = 0.01  # of mean F1, by which standardised scores must be better
OWN_POINTS, EVEN_POINTS = 64, 48  # points at scores of positives; equidistant points
# For a million labels, 48 points each would need 6 GB on every rank. For 160 labels with 0.1 to 1.8 % positives of 3,000 rows,
# macro F1 on other rows is 0.4068 with 48 points, 0.4069 with 8, and 0.4069 with 4; the mean Brier score is 0.025912 with all of
# these.
FEWEST, ALL_EVEN = 4, 4_000_000  # equidistant points: of a label at least; of all labels together
_GRID, _STARTS = 256, 256
_SCORES, _COUNTS, _OFFSETS = ("value", "top"), ("positive", "negative", "equal"), ("positive_offset", "negative_offset")
PLACE = np.dtype([(name, kind) for names, kind in ((_SCORES, "<f8"), (_COUNTS, "<i4"), (_OFFSETS, "<f4")) for name in names])


@dataclass(frozen=True)
class Summary:
    """The scores of a label's rows as counts between points: an ascending table of PLACE (at most 112 lines of 36 bytes).

    A line counts the scores from its value up to, and excluding, the value of the next line; `equal` negatives have the value
    itself. `top` is the largest of these scores (−∞ without any). The offsets are the positions of their means, as fractions of the
    distance to the next value.
    """

    points: np.ndarray

    def centres(self, kind: str) -> np.ndarray:
        """Return the mean scores (K) of the "positive" or "negative" rows of each point."""
        values = self.points["value"]
        return values + self.points[f"{kind}_offset"] * np.append(np.diff(values), 0.0)

    def ranking(self, threshold: float = 0.0) -> Ranking:
        """Return the ranking: exact for up to 64 distinct scores of positives, else the rows of a point are tied."""
        points = self.points[::-1]
        positive, negative = points["positive"].astype(np.int64), points["negative"].astype(np.int64)
        exact = not points["positive_offset"].any()
        equal = positive + (points["equal"] if exact else negative)
        greater = np.cumsum(positive + negative) - equal
        has_positives = positive > 0
        above = points["value"] > threshold
        hits, predicted = int(positive[above].sum()), int((positive + negative)[above].sum())
        if not above.all():  # the share above the threshold of the point that contains it
            i = int(np.argmin(above))
            value = float(points["value"][i])
            width = (float(points["value"][i - 1]) if i else float(points["top"][i])) - value
            share = min(1.0, max(0.0, 1.0 - (threshold - value) / width)) if width > 0 else 0.0
            inside = round(share * int(negative[i] - points["equal"][i]))
            own = 0 if exact else round(share * int(positive[i]))
            hits, predicted = hits + own, predicted + inside + own
        return Ranking(
            greater[has_positives], equal[has_positives], positive[has_positives], int((positive + negative).sum()), predicted, hits
        )


@dataclass(frozen=True)
class Decision:
    thresholds: np.ndarray
    sigmoids: np.ndarray
    rarest: tuple[float, float, float]  # threshold, slope and offset of labels without positives


class Tally:
    def __init__(self, positives: np.ndarray, low: float, high: float, even: int = EVEN_POINTS) -> None:
        """`low`, `high`: range of all scores; `even`: number of equidistant points. Raises NonFiniteError."""
        low, high = float(low), float(high)
        if not math.isfinite(high - low):
            raise NonFiniteError(f"scores from {low:g} to {high:g}: expected finite numbers")
        own = np.unique(np.asarray(positives, dtype=np.float64))
        self.exact = own.size <= OWN_POINTS
        if not self.exact:
            ascending = np.sort(np.asarray(positives, dtype=np.float64))
            own = ascending[np.rint(np.linspace(0, ascending.size - 1, OWN_POINTS)).astype(np.int64)]
        self.values = np.unique(np.concatenate([own, np.linspace(low, high, even), [low, high]]) + 0.0)  # no −0
        steps = low + np.arange(_STARTS) * ((high - low) / _STARTS)
        self._starts = np.maximum(np.searchsorted(self.values, steps, "right") - 1, 0)
        n = self.values.size
        self.top = np.full(n, -np.inf)
        self.counts = np.zeros((3, n), dtype=np.int64)  # all rows: scores, equal ones, offsets
        self._of_positives = np.zeros((3, n), dtype=np.int64)
        kernels.tally(np.asarray(positives), self.values, self._starts, np.full(n, -np.inf), *self._of_positives)

    def add(self, scores: np.ndarray) -> None:
        kernels.tally(scores, self.values, self._starts, self.top, *self.counts)

    def summary(self) -> Summary:
        """Return the summary, once all rows are counted and `counts` and `top` are reduced over the ranks."""
        points = np.zeros(self.values.size, dtype=PLACE)
        others = self.counts - self._of_positives
        for name, values in zip(("negative", "equal"), others, strict=False):
            points[name] = values
        points["value"], points["top"], points["positive"] = self.values, self.top + 0.0, self._of_positives[0]
        for kind, (count, _, offset) in (("positive", self._of_positives), ("negative", others)):
            points[f"{kind}_offset"] = offset / np.maximum(count, 1) / kernels.OFFSETS
        return Summary(points)


def count_even_points(n_labels: int) -> int:
    return max(FEWEST, min(EVEN_POINTS, ALL_EVEN // max(1, n_labels)))


def summarise(scores: np.ndarray, positives: np.ndarray, even: int = EVEN_POINTS) -> Summary:
    """Return the summary of a label from all scores (n) and the indices of its positive rows. Raises NonFiniteError."""
    if not scores.size:
        raise DataError("no rows to summarise; expected at least one")
    tally = Tally(scores[positives], float(scores.min()), float(scores.max()), even)
    tally.add(scores)
    return tally.summary()


def own_threshold(summary: Summary) -> float:
    """Return the highest threshold with the largest F1 (exact for up to 64 scores of positives), or NaN."""
    tie, _ = best_f1(summary.ranking())
    if tie < 0:
        return math.nan
    points = summary.points[::-1]
    best = int(np.flatnonzero(points["positive"])[tie])
    value, below = float(points["value"][best]), points["top"][best + 1 :].max(initial=-np.inf)
    middle = float(value / 2.0 + below / 2.0)
    return middle if math.isfinite(middle) and middle < value else float(np.nextafter(value, -np.inf))


def decide(summaries: Sequence[Summary], tau: float = TAU, kappa: float = KAPPA) -> Decision:
    """Return thresholds and sigmoids of all labels from their summaries.

    A label without positives has the shared threshold and sigmoid of the labels with fewest. With tau 0 each label has its own best
    cut, with kappa 0 its own (Platt's) sigmoid. Raises DataError if no label has a positive row.
    """
    n_positive = np.array([summary.points["positive"].sum(dtype=np.int64) for summary in summaries])
    if not n_positive.any():
        raise DataError("the rows have none of the labels; choose other rows")
    around, scores = _Neighbours(n_positive), _Scores(summaries)
    plain = _Frame(scores, around, np.zeros(scores.n_labels), np.ones(scores.n_labels))
    standardised = _Frame(scores, around, scores.mean, scores.deviation)  # to mean 0 and deviation 1
    frame = standardised if standardised.agreement > plain.agreement + MARGIN else plain
    own = np.array([own_threshold(summary) for summary in summaries])
    mixed = (n_positive * np.where(n_positive > 0, own, 0.0) + tau * frame.thresholds) / np.maximum(n_positive + tau, 1e-300)
    thresholds = np.where((n_positive > 0) | (tau > 0), mixed, frame.thresholds)
    # the sigmoid of each group of labels, and its precision per positive: the prior of their sigmoids
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
    none = np.array([1.0 / max(high - low, 1e-300), 0.0, 0.0, 0.0, 0.0])  # initial value
    for group, prior in enumerate(priors):
        masses, moments = (np.concatenate([pair[kind][group] for pair in sums]) for kind in range(2))
        is_used = masses > 0
        of_negatives, of_positives = (float(pair[0][group].sum()) for pair in sums)
        targets = np.repeat([1.0 / (of_negatives + 2.0), (of_positives + 1.0) / (of_positives + 2.0)], shape[1])[is_used]
        points = moments[is_used] / masses[is_used]
        platt.fit_sigmoid(points, masses[is_used], targets, none, prior[:2])
        platt.curvature(points, masses[is_used], *prior[:2], prior[2:])
        prior[2:] /= of_positives
    priors[:, 2:] *= kappa
    # the sigmoid of each label, with Platt's targets of negatives and positives
    of_labels = 1.0 / (scores.n_rows - n_positive + 2.0), (n_positive + 1.0) / (n_positive + 2.0)
    fitted = np.empty((scores.n_labels, 2))
    flat = (values.ravel() for values in (x, scores.weights, np.stack(of_labels, axis=1)[scores.owner]))
    platt.fit_labels(2 * scores.indptr, *flat, priors[around.nearest], fitted)
    # in terms of the labels' own scores: slope and offset of all labels, then those of the prior of the rarest labels
    slopes = np.append(fitted[:, 0], priors[0, 0]) / np.append(frame.scale, np.median(frame.scale))
    shifts = slopes * np.append(frame.shift, np.median(frame.shift))
    sigmoids = np.stack([slopes, np.append(fitted[:, 1], priors[0, 1]) - shifts], axis=1)
    return Decision(thresholds, sigmoids[:-1], (frame.rarest, float(sigmoids[-1, 0]), float(sigmoids[-1, 1])))


def decide_together(summaries: Sequence[Summary], decision: Decision, n_missed: int = 0) -> tuple[float, Decision]:
    """Return the probability p with the largest micro F1 as the threshold of all labels, and the decision with these thresholds.

    `n_missed` further pairs are true and never predicted. The rows of a point of a summary count at their mean score. If a label's
    probability is the same for all scores, all rows or none are predicted.
    """
    p_of_points, counts = [], []
    for summary, sigmoid in zip(summaries, decision.sigmoids, strict=True):
        x = np.concatenate([summary.centres("negative"), summary.centres("positive")])
        p_of_points.append(probabilities(x[:, None], *sigmoid[:, None]).reshape(2, -1))
        counts.append(np.stack([summary.points["negative"], summary.points["positive"]]).astype(np.int64))
    values, positions = np.unique(np.concatenate(p_of_points, axis=1), return_inverse=True)
    of_kinds = zip(positions.reshape(2, -1), np.concatenate(counts, axis=1), strict=True)
    negative, positive = (np.bincount(of_values, count, values.size)[::-1] for of_values, count in of_kinds)
    hits = np.cumsum(positive)
    best = int(np.argmax(f1(hits, hits + np.cumsum(negative), hits[-1] + n_missed)))
    descending = np.append(values[::-1], 0.0)
    shared = float(descending[best] / 2.0 + descending[best + 1] / 2.0)
    logit = elementary.log(shared) - elementary.log1p(-shared)

    def threshold(slope: float, offset: float, low: float, high: float) -> float:
        if slope > 0:
            return (logit - offset) / slope
        return low if offset > logit else high

    ends = [(float(np.nextafter(each.points["value"][0], -np.inf)), float(each.points["top"].max())) for each in summaries]
    of_labels = zip(*decision.sigmoids.T.tolist(), *zip(*ends, strict=True), strict=True)
    thresholds = np.array([threshold(*values) for values in of_labels])
    _, slope, offset = decision.rarest
    return shared, Decision(thresholds, decision.sigmoids, (threshold(slope, offset, -math.inf, math.inf), slope, offset))


def warm_up() -> None:
    decide([summarise(np.arange(3.0), np.array([2]))])


class _Neighbours:
    """Groups of labels by positives (quarters of an octave), and the weights of groups for each other."""

    def __init__(self, n_positive: np.ndarray) -> None:
        self.n_positive = n_positive
        quarters = np.rint(4.0 * elementwise.log2(np.maximum(n_positive, 1))).astype(np.int64)
        self.quarters, groups = np.unique(quarters[n_positive > 0], return_inverse=True)
        self.of_labels = np.full(n_positive.size, -1, dtype=np.int64)  # -1: no positives
        self.of_labels[n_positive > 0] = groups
        self.nearest = np.where(self.of_labels < 0, 0, self.of_labels)
        distance = (self.quarters[:, None] - self.quarters) / (4.0 * WIDTH)
        self.weights = elementwise.exp(-0.5 * distance * distance)

    def around(self, of_groups: np.ndarray) -> np.ndarray:
        """Return for each group the weighted sum of the rows (n_groups × m), added in the order of groups."""
        out = np.zeros(of_groups.shape)
        for weights, row in zip(self.weights.T, of_groups, strict=True):
            out += weights[:, None] * row
        return out


class _Scores:
    """The lines of all summaries (those of label l start at indptr[l]), and mean and deviation of each label's scores."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self.points, self.n_labels = np.concatenate([summary.points for summary in summaries]), len(summaries)
        self.indptr = offsets([summary.points.size for summary in summaries])
        self.owner = np.repeat(np.arange(self.n_labels), np.diff(self.indptr))
        kinds = ("negative", "positive")
        self.x = np.stack([np.concatenate([summary.centres(kind) for summary in summaries]) for kind in kinds], axis=1)
        self.weights = np.stack([self.points[kind] for kind in kinds], axis=1).astype(np.float64)
        weighted = (np.ones_like(self.x), self.x)
        self.n_rows, sums = (np.add.reduceat((self.weights * values).sum(axis=1), self.indptr[:-1]) for values in weighted)
        self.mean = sums / self.n_rows
        squares = self.weights * np.square(self.x - self.mean[self.owner, None])
        variance = np.add.reduceat(squares.sum(axis=1), self.indptr[:-1]) / self.n_rows
        self.deviation = np.where(variance > 0, np.sqrt(variance), 1.0)


class _Frame:
    """Scores minus a shift, divided by a scale; their shared `thresholds`, as original scores, have the mean F1 `agreement`."""

    def __init__(self, scores: _Scores, around: _Neighbours, shift: np.ndarray, scale: np.ndarray) -> None:
        self.scores, self.around, self.shift, self.scale = scores, around, shift, scale
        points, owner = scores.points, scores.owner
        values = (points["value"] - shift[owner]) / scale[owner]
        # at most _GRID values: quantiles of the scores of positives, all labels with the same weight
        order = np.argsort(values, kind="stable")
        order = order[points["positive"][order] > 0]
        mass = np.cumsum((points["positive"] / np.maximum(around.n_positive, 1)[owner])[order])
        quantiles = np.searchsorted(mass, np.linspace(0.0, mass[-1], _GRID))
        grid = np.unique(values[order[np.minimum(quantiles, order.size - 1)]])
        sums = np.zeros((around.quarters.size, grid.size))
        columns = (np.ascontiguousarray(points[name]) for name in ("positive", "negative", "positive_offset", "equal"))
        kernels.add_f1(scores.indptr, values, *columns, around.of_labels, grid, sums)
        counts = np.bincount(around.of_labels[around.of_labels >= 0], minlength=around.quarters.size).astype(np.float64)
        means = around.around(sums) / around.around(counts[:, None])
        best = np.argmax(means, axis=1)
        self.agreement = float((counts * means.max(axis=1)).sum() / counts.sum())
        shared = np.where(best > 0, (grid[best] + grid[np.maximum(best - 1, 0)]) / 2.0, np.nextafter(grid[best], -np.inf))
        self.thresholds = shift + scale * shared[around.nearest]
        self.rarest = float(np.median(shift) + np.median(scale) * shared[0])
