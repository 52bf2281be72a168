"""How certain measures are: bootstrap over labels; what labels of so many positives reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hpcml.evaluation.evaluate import Evaluation
from hpcml.measures import FRACTIONS, ratio

RESAMPLES = 1000
LEVEL = 95  # per cent that an interval holds
MANY = 100_000  # labels from which on the resamples are not drawn: so many have means that lie like a normal distribution
SIDE = 1.959964  # standard deviations of one on either side of the middle, which hold LEVEL %
AT_ONCE = 1 << 22  # labels that are drawn together
MICRO = ("f1", "precision", "recall")  # of the micro measures, those that follow from sums over labels
LEAST = 5  # labels of a point of the learning curve
POINTS = 12


@dataclass(frozen=True)
class Interval:
    """A value, and bounds of LEVEL % of its bootstrap resamples; NaN: fewer than two labels."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @property
    def is_apart_from_0(self) -> bool:
        """Whether 0 lies outside."""
        return self.low > 0 or self.high < 0


def _draws(n: int) -> Iterator[np.ndarray]:
    """RESAMPLES samples of n places with replacement (k × n a time), the same each time."""
    rng, left = np.random.default_rng(0), RESAMPLES
    while left:
        k = min(left, max(1, AT_ONCE // max(1, n)))
        yield rng.integers(0, n, (k, n))
        left -= k


def bootstrap_mean(values: np.ndarray) -> Interval:
    """The mean of values (n), and its interval by the percentile bootstrap (Efron 1979)."""
    if values.size < 2:  # all resamples of one label are that label
        return Interval(float(values[0]) if values.size else np.nan)
    if values.size >= MANY:
        half = SIDE * (float(values.std()) / values.size**0.5)
        return Interval(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)
    means = np.concatenate([values[drawn].mean(axis=1) for drawn in _draws(values.size)])
    return _interval(float(values.mean()), means)


def _interval(value: float, resampled: np.ndarray) -> Interval:
    tail = (100 - LEVEL) / 2
    if np.isnan(resampled).any():
        return Interval(value)
    low, high = np.percentile(resampled, [tail, 100 - tail]).tolist()
    return Interval(value, low, high)


def counts_of(evaluation: Evaluation) -> np.ndarray:
    """Hits, given and true pairs of each evaluated label (3 × n, whole numbers)."""
    n_true = evaluation.n_positive.astype(np.float64)
    hits = np.rint(np.nan_to_num(evaluation.values["recall"]) * n_true)
    given = evaluation.values["misclassified"] - n_true + 2 * hits
    return np.stack([hits, given, n_true])


def micro_intervals(counts: np.ndarray, n_missed: int) -> dict[str, Interval]:
    """Micro measures that are ratios of sums, with labels drawn anew; `counts` as of `counts_of`.

    The missed pairs of labels that the model does not know are true ones in each draw.
    """
    more = np.array([[0], [0], [n_missed]])
    total = more + counts.sum(axis=1, keepdims=True)
    if counts.shape[1] >= MANY:  # the interval follows from what each label adds
        intervals = {}
        for measure in MICRO:
            (above, below), of_all = FRACTIONS[measure](*counts), FRACTIONS[measure](*total)
            value = float(ratio(*of_all)[0])
            half = SIDE * (float((above - value * below).std()) * below.size**0.5 / float(of_all[1][0] or np.nan))
            intervals[measure] = Interval(value, value - half, value + half)
        return intervals
    sums = more + np.concatenate([counts[:, drawn].sum(axis=2) for drawn in _draws(counts.shape[1])], axis=1)
    values = {measure: [ratio(*FRACTIONS[measure](*each)) for each in (total, sums)] for measure in MICRO}
    if counts.shape[1] < 2:
        return {measure: Interval(float(of_all[0])) for measure, (of_all, _) in values.items()}
    return {measure: _interval(float(of_all[0]), resampled) for measure, (of_all, resampled) in values.items()}


@dataclass(frozen=True)
class Measure:
    """A line of the table of measures; NaN in an interval: there is none."""

    name: str
    macro: Interval | None
    n_labels: int
    micro: Interval | None


NAMES = {
    "average_precision": "average precision",
    "f1": "F1",
    "auc": "AUC (ROC)",
    "break_even": "break-even (R-precision)",
    "precision": "precision",
    "recall": "recall",
    "brier": "Brier score",  # these two only of models with probabilities
    "ece": "calibration error",
}
LESS = {"brier", "ece"}  # measures of which less is better


def measures_of(evaluation: Evaluation) -> list[Measure]:
    """Macro and micro measures with their intervals over labels."""
    e, found = evaluation, []
    micro = micro_intervals(counts_of(e), e.n_missed) if e.label_names else {}
    for measure, name in NAMES.items():
        if measure not in e.values:
            continue
        chosen = e.in_macro(measure)
        mean = bootstrap_mean(e.values[measure][chosen])
        found.append(Measure(name, mean, int(chosen.sum()), micro.get(measure, Interval(e.micro[measure]))))
    return found


def row_measures_of(evaluation: Evaluation) -> list[tuple[str, float]]:
    """The measures that are means over rows, by name."""
    e = evaluation
    found = [("F1 of a row's labels", e.instance_f1)] if e.by_frequency else []
    for name, values in (
        ("precision", e.precision_at),
        ("nDCG", e.ndcg_at),
        ("propensity-scored precision", e.propensity_scored_at),
    ):
        found += [(f"{name}@{k}", value) for k, value in values.items()]
    return found


@dataclass(frozen=True)
class LearningPoint:
    """Labels of about as many positives: quartiles and mean of a measure."""

    n_positive: float  # geometric mean
    n_labels: int
    mean: float
    quartiles: tuple[float, float, float]


def learning_curve(n_positive: np.ndarray, values: np.ndarray) -> list[LearningPoint]:
    """Up to POINTS of labels of so many positives (n, above 0) and values (n, no NaN)."""
    order = np.argsort(n_positive, kind="stable")
    counts, values = n_positive[order], values[order]
    n_points = min(POINTS, counts.size // LEAST)
    found: list[LearningPoint] = []
    if not n_points:
        return found
    cuts = np.searchsorted(counts, counts[np.arange(1, n_points) * counts.size // n_points])  # equal counts stay together
    for some in (part for part in np.split(np.arange(counts.size), np.unique(cuts)) if part.size):
        middle = float(np.exp(np.log(counts[some]).mean()))
        low, median, high = np.percentile(values[some], [25, 50, 75]).tolist()
        found.append(LearningPoint(middle, some.size, float(values[some].mean()), (low, median, high)))
    return found


@dataclass(frozen=True)
class Difference:
    """How the macro measures of two evaluations differ on the labels that both have."""

    measure: str
    n_labels: int
    interval: Interval
    less_is_better: bool = False

    @property
    def verdict(self) -> str:
        """Whether it is good or bad; "" if the interval holds 0."""
        if not self.interval.is_apart_from_0:
            return ""
        return "good" if (self.interval.value > 0) != self.less_is_better else "bad"


def common_labels(evaluations: list[Evaluation]) -> np.ndarray:
    """Places (evaluations × n) of the labels that all have, by name; of equal names the last."""
    places = [{name: place for place, name in enumerate(e.label_names)} for e in evaluations]
    names = [name for name in evaluations[0].label_names if all(name in known for known in places)]
    return np.array([[known[name] for name in dict.fromkeys(names)] for known in places], dtype=np.int64).reshape(len(places), -1)


def differences(one: Evaluation, other: Evaluation) -> list[Difference]:
    """Other − one, macro, over the labels where both are defined: paired bootstrap."""
    places, found = common_labels([one, other]), []
    for measure, name in NAMES.items():
        if not (measure in one.values and measure in other.values):
            continue
        a, b = (e.values[measure][p] for e, p in zip((one, other), places, strict=True))
        both = one.in_macro(measure)[places[0]] & other.in_macro(measure)[places[1]]
        found.append(Difference(name, int(both.sum()), bootstrap_mean((b - a)[both]), measure in LESS))
    return found
