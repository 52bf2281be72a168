"""Evaluating a model on a split: exact counts over all ranks' scores, and every measure from them.

Phase 1 scores only the positive pairs (row, label); their distinct scores are the only places in a
ranking that the measures ask about. Phase 2 streams all scores, block by block, and counts how many
lie above and at each of those places. Counts are integers, so neither the blocks nor the number of
ranks can change a bit. A rank's memory: the blocks (`scoring`), its own positive pairs, about 40
bytes for each distinct score of the pool of all positive pairs, and 80 for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import count_unused
from hpcml.evaluation.comparable import BY_SCORE
from hpcml.evaluation.judged import JudgedRows, ScoreObserver, judge
from hpcml.evaluation.probabilities import CalibrationLine, ProbabilityCounts
from hpcml.evaluation.rows import PERCENT, FrequentLabels, RowCounts, row_measures
from hpcml.evaluation.seen import SeenRows, count_seen, optimism
from hpcml.evaluation.titles import titles_of_labels
from hpcml.log import Log, Progress
from hpcml.measures import MEASURES, LabelMeasures, f1, propensities
from hpcml.model.linear import Trained


@dataclass
class Evaluation(LabelMeasures):
    """The measures of a model on a split; an undefined one is NaN and in no mean."""

    model: str
    data: str
    split: str
    n_rows: int
    labels: np.ndarray  # the evaluated labels' numbers in the model
    label_names: list[str]
    n_positive: np.ndarray  # per evaluated label, rows of the split that have it
    steps: np.ndarray  # per evaluated label, iterations of its training (0: not trained)
    not_in_data: list[str]  # labels that were asked for but that the data does not know
    n_not_in_model: int = 0  # labels of these rows that the model does not know
    n_missed: int = 0  # pairs of a row and such a label, which count as missed (`judged.Missed`)
    seen: SeenRows = field(default_factory=SeenRows)  # rows that the model was trained on
    n_unused: int = 0  # rows of the data that are in no split
    optimism: tuple[float, float] | None = None  # MAP in the folds of tuning and on these rows, if the first is too good
    n_empty: int = 0  # rows of text without a known feature: they get no labels
    values: dict[str, np.ndarray] = field(default_factory=dict)  # measure -> one value per evaluated label
    micro: dict[str, float] = field(default_factory=dict)  # measure -> its value on all (row, label) pairs in one ranking
    # k -> the share of true ones among the k best evaluated labels of a row (or all, if they are fewer), mean over the rows
    precision_at: dict[int, float] = field(default_factory=dict)
    ndcg_at: dict[int, float] = field(default_factory=dict)  # k -> nDCG of these, mean over the rows with a true label
    propensity_scored_at: dict[int, float] = field(default_factory=dict)  # empty if the model does not tell its labels' frequency
    by_frequency: list[FrequentLabels] = field(default_factory=list)  # F1 for all labels, and for the most frequent ones
    frequency_from: str = ""  # the rows that say how frequent a label is
    thresholds: str = ""  # above which scores a row has a label; "" for 0
    label_titles: list[str] | None = None  # of the evaluated labels, if the model or the data says what people call them
    compared_by: str = BY_SCORE  # what the labels of a row, and all pairs together, are ordered by
    probabilities: str = ""  # where they come from; "" for a model without
    calibration: list[CalibrationLine] = field(default_factory=list)  # of the probabilities, by the positives of labels

    @property
    def instance_f1(self) -> float:
        """Mean F1 of the rows with a true or a predicted label; NaN for a single label."""
        return self.by_frequency[0].instance_f1 if self.by_frequency else float("nan")

    @property
    def n_without_positives(self) -> int:
        """Evaluated labels that no row of the split has."""
        return int((self.n_positive == 0).sum())


def evaluate(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    log: Log,
    labels: list[int] | None = None,
    watches: Sequence[ScoreObserver] = (),
) -> Evaluation:
    """Collective over `comm`. The measures of `labels` (numbers; None is all) on a split.

    `watches` see the scores. Raises ConfigError or DataError if model, data, split and labels do
    not fit, NonFiniteError if a score is not a number.
    """
    judged = judge(comm, model, dataset, split, labels)
    result = _begun(judged, split)
    result.seen = count_seen(comm, model, dataset, split)
    result.n_unused = mpi.run_on_root(comm, f"reading the splits of {dataset.path}", lambda: count_unused(dataset))[0]
    result.n_empty = int(mpi.exclusive_sum(comm, [int(np.count_nonzero(judged.empty))])[1][0])
    trained_on, n_labels = model.labels.get("n_positive", np.zeros(0)), judged.n_labels
    result.frequency_from = "training rows" if trained_on.any() else "judged rows"
    frequencies = trained_on[judged.numbers] if trained_on.any() else judged.n_positive()
    pool, thresholds, observers = judged.pool(), model.thresholds[judged.numbers], list(watches)
    by_row = calibrated = None
    if n_labels > 1:
        observers.append(by_row := RowCounts(judged, frequencies, thresholds))
    if model.sigmoids is not None:
        observers.append(calibrated := ProbabilityCounts(model.sigmoids, judged.numbers, judged.n_rows))
    for watch in watches:
        watch.begin(judged)
    n_predicted = np.zeros((2, n_labels), dtype=np.int64)
    of_none: dict[int, list[float]] = {}  # the measures of labels without positives, which are mostly the same
    with closing(Progress(log, "evaluating labels", n_labels)) as progress:
        for label, counts in judged.counts(pool, thresholds, observers):
            ranking = counts.ranking(judged.n_rows)
            n_predicted[:, label] = ranking.n_predicted, ranking.n_hits
            result.n_positive[label] = ranking.n_positive
            if (values := of_none.get(ranking.n_predicted) if ranking.n_positive == 0 else None) is None:
                values = [measure(ranking) for measure in MEASURES.values()]
            if ranking.n_positive == 0:
                of_none[ranking.n_predicted] = values
            for name, value in zip(MEASURES, values, strict=True):
                result.values[name][label] = value
            progress.update(label + 1)
    n_given, n_hits = n_predicted.sum(axis=1).tolist()  # each label has a threshold of its own
    ranking = pool.ranking(judged.n_rows * n_labels)
    ranking = replace(ranking, n_predicted=n_given, n_hits=n_hits, n_missed=ranking.n_missed + judged.missed.n_pairs)
    for watch in watches:
        watch.end(pool, ranking)
    result.optimism = optimism(model, judged.numbers, result.values["average_precision"], result.n_positive)
    result.micro = {name: measure(ranking) for name, measure in MEASURES.items()}
    if calibrated is not None:
        calibrated.finish(comm, judged.labels, judged.positives)
        result.values |= {"brier": calibrated.brier, "ece": calibrated.ece}
        result.micro |= calibrated.micro
        result.calibration = calibrated.by_positives(frequencies)
    if by_row is not None:
        n_trained = int(model.attrs.get("n_rows", 0)) if trained_on.any() else 0
        weights = 1.0 / propensities(np.append(frequencies, 0), n_trained) if n_trained else None
        result.precision_at, result.ndcg_at, result.propensity_scored_at = row_measures(judged, by_row.best.sort(), weights)
        result.by_frequency = _by_frequency(judged, result, by_row, n_predicted)
    return result


def _begun(judged: JudgedRows, split: str) -> Evaluation:
    model, dataset, matched = judged.scorer.model, judged.dataset, judged.matched
    titles = titles_of_labels(model, dataset)
    return Evaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=judged.n_rows,
        labels=matched.labels,
        label_names=[model.label_names[label] for label in matched.labels.tolist()],
        n_positive=np.zeros(judged.n_labels, dtype=np.int64),
        steps=model.labels["steps"][matched.labels],
        not_in_data=matched.not_in_data,
        n_not_in_model=judged.missed.n_labels,
        n_missed=judged.missed.n_pairs,
        values={name: np.full(judged.n_labels, np.nan) for name in MEASURES},
        thresholds=model.threshold_source,
        label_titles=None if titles is None else [titles[label] for label in matched.labels.tolist()],
        compared_by=judged.comparable.by,
        probabilities=model.probability_source,
    )


def _by_frequency(judged: JudgedRows, result: Evaluation, by_row: RowCounts, n_predicted: np.ndarray) -> list[FrequentLabels]:
    """Collective. F1 of the most frequent labels; `n_predicted` (2 × n_labels): rows, and hits among them."""
    lines = []
    for percent, size, instance in zip(PERCENT, by_row.sizes, by_row.instance_f1(judged), strict=True):
        some = by_row.places < size
        n_given, n_hits = n_predicted[:, some].sum(axis=1).tolist()
        n_true = int(result.n_positive[some].sum()) + (judged.missed.n_pairs if some.all() else 0)
        lines.append(FrequentLabels(percent, size, instance, float(f1(n_hits, n_given, n_true)), result.macro("f1", some)))
    return lines
