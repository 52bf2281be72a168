"""Measures with confidence intervals, differences between runs, and learning curves over labels."""

from dataclasses import dataclass

import numpy as np

from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.intervals import Interval, bootstrap_mean

LEAST = 5  # labels per point of the learning curve
POINTS = 12
NAMES = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "average_precision": "average precision (AP)",
    "auc": "ROC AUC",
    "break_even": "break-even (R-precision)",
    "brier": "Brier score",  # these two only for models with probabilities
    "ece": "calibration error (ECE)",
}
LESS_IS_BETTER = {"brier", "ece"}


@dataclass(frozen=True)
class Measure:
    name: str
    macro: Interval
    n_labels: int
    micro: Interval


def list_measures(e: Evaluation) -> dict[str, Measure]:
    macro, micro = e.intervals["macro"], e.intervals.get("micro", {})
    return {
        measure: Measure(name, macro[measure], int(e.in_macro(measure).sum()), micro.get(measure, Interval(e.micro[measure])))
        for measure, name in NAMES.items()
        if measure in e.values
    }


def list_row_measures(e: Evaluation) -> dict[str, Interval]:
    kinds = {"P": "precision_at", "nDCG": "ndcg_at", "PSP": "propensity_scored_at"}
    measures = {
        f"{name}@{k}": e.intervals.get(kind, {}).get(k, Interval(value))._replace(value=value)
        for name, kind in kinds.items()
        for k, value in getattr(e, kind).items()
    }
    if e.by_frequency:
        f1 = e.intervals.get("instance", {}).get("f1", Interval(e.instance_f1))
        measures["F1 per row"] = f1._replace(value=e.instance_f1)
    return measures


@dataclass(frozen=True)
class LearningPoint:
    n_positive: float  # geometric mean
    n_labels: int
    mean: float
    quartiles: tuple[float, float, float]


def learning_curve(n_positive: np.ndarray, values: np.ndarray) -> list[LearningPoint]:
    """Return up to POINTS points for labels with these numbers of positives (n, above 0) and values (n, no NaN)."""
    order = np.argsort(n_positive, kind="stable")
    counts, values = n_positive[order], values[order]
    n_points = min(POINTS, counts.size // LEAST)
    points: list[LearningPoint] = []
    if not n_points:
        return points
    cuts = np.searchsorted(counts, counts[np.arange(1, n_points) * counts.size // n_points])  # equal counts stay together
    for part in (part for part in np.split(np.arange(counts.size), np.unique(cuts)) if part.size):
        middle = float(np.exp(np.log(counts[part]).mean()))
        low, median, high = np.percentile(values[part], [25, 50, 75]).tolist()
        points.append(LearningPoint(middle, part.size, float(values[part].mean()), (low, median, high)))
    return points


@dataclass(frozen=True)
class Difference:
    """The difference of a macro measure between two evaluations, over their common labels."""

    measure: str
    n_labels: int
    interval: Interval
    less_is_better: bool = False

    @property
    def verdict(self) -> str:
        if not self.interval.excludes_zero:
            return ""
        return "good" if (self.interval.value > 0) != self.less_is_better else "bad"


def common_labels(evaluations: list[Evaluation]) -> np.ndarray:
    """Return the positions (evaluations × n) of common labels, matched by name; of equal names the last."""
    positions = [{name: position for position, name in enumerate(e.label_names)} for e in evaluations]
    names = [name for name in evaluations[0].label_names if all(name in known for known in positions)]
    columns = [[known[name] for name in dict.fromkeys(names)] for known in positions]
    return np.array(columns, dtype=np.int64).reshape(len(positions), -1)


def compare_measures(one: Evaluation, other: Evaluation) -> list[Difference]:
    """Return other − one for each macro measure, over the labels where both are defined, with a paired bootstrap over labels."""
    positions, differences = common_labels([one, other]), []
    for measure, name in NAMES.items():
        if not (measure in one.values and measure in other.values):
            continue
        a, b = (e.values[measure][p] for e, p in zip((one, other), positions, strict=True))
        both = one.in_macro(measure)[positions[0]] & other.in_macro(measure)[positions[1]]
        differences.append(Difference(name, int(both.sum()), bootstrap_mean((b - a)[both]), measure in LESS_IS_BETTER))
    return differences
