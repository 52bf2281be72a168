"""Evaluating a model on a split: exact counts over all ranks' scores, and every measure from them.

Phase 1 scores only the positive pairs (row, label); their distinct scores are the only places in a
ranking that the measures ask about. Phase 2 streams all scores, block by block, and counts how many
lie above and at each of those places. Counts are integers, so neither the blocks nor the number of
ranks can change a bit. A rank's memory: the blocks (`scoring`), its own positive pairs, about 40
bytes for each distinct score of the pool of all positive pairs, and 80 for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import count_unused
from hpcml.data.unknown_labels import all_label_names, load_with_unknown
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.comparable import BY_SCORE, Comparable
from hpcml.evaluation.counts import Counts, block_counts, positive_pairs, sum_tallies
from hpcml.evaluation.missed import NOT_JUDGED, NOT_KNOWN, Missed, count_missed
from hpcml.evaluation.probabilities import CalibrationLine, ProbabilityCounts
from hpcml.evaluation.ranking import MEASURES, Ranking
from hpcml.evaluation.rows import PERCENT, FrequentLabels, RowCounts, by_frequency, propensities, row_measures
from hpcml.evaluation.scoring import ClassifierScorer, Scorer, blocks_of, scorer_of
from hpcml.evaluation.seen import count_seen
from hpcml.evaluation.top import PRECISION_AT, Best, n_true, precision_at
from hpcml.log import Log, Progress
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model


@dataclass
class Evaluation:
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
    n_missed: int = 0  # pairs of a row and such a label, which count as missed (`missed`)
    n_seen: int = 0  # rows that the model was trained on (`count_seen`)
    n_unused: int = 0  # rows of the data that are in no split
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

    def in_macro(self, measure: str) -> np.ndarray:
        """Which labels are in the macro mean: those with a positive row and a defined value."""
        return (self.n_positive > 0) & ~np.isnan(self.values[measure])

    def macro(self, measure: str) -> float:
        """The mean of a measure over its labels (`in_macro`); NaN if there are none."""
        chosen = self.values[measure][self.in_macro(measure)]
        return float(chosen.mean()) if chosen.size else float("nan")


class ScoreWatcher(Protocol):
    """An observer, which sees every score of an evaluation as it passes, and changes no measure."""

    @mpi.collective
    def begin(self, comm: mpi.Comm, pairs: TruePairs) -> None:
        """Collective over `comm`. The true pairs of this rank, before any score comes."""

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        """Scores (n, B) of the rank's rows `row`, ... for evaluated labels `begin`, ... Local."""

    def add_sorted(self, label: int, ascending: np.ndarray) -> None:
        """The scores of some of the rank's rows for one evaluated label. Local."""

    @mpi.collective
    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Collective. All pairs in one ranking; the values of its ties, ascending, in `pool`."""


@dataclass(frozen=True)
class TruePairs:
    """The pairs (row, label) of this rank's rows, by label, and which rows and labels these are."""

    evaluated: np.ndarray  # the evaluated labels' numbers in the model
    row_numbers: np.ndarray  # of the rank's rows: their numbers in the dataset, ascending
    rows: np.ndarray  # of each pair: the place of its row among these
    labels: np.ndarray  # the place of its label among those evaluated
    scores: np.ndarray
    comparable: Comparable  # of the evaluated labels


def match_labels(model: Model | ClassifierModel, dataset: DataFile, labels: list[int] | None) -> tuple[Evaluation, np.ndarray]:
    """An evaluation without values, and each place of `all_label_names` in it (or see `missed`).

    Raises ConfigError for a label number the model lacks, DataError if no label is left.
    """
    wanted = range(model.n_labels) if labels is None else sorted(set(labels))
    for label in wanted:
        if not 0 <= label < model.n_labels:
            raise ConfigError(f"label number {label}: {model.path} has labels 0 to {model.n_labels - 1}")
    data_names = all_label_names(dataset)
    in_data = {name: number for number, name in enumerate(data_names)}
    known = [label for label in wanted if model.label_names[label] in in_data]
    if not known:
        raise DataError(f"{dataset.path}: none of the labels to evaluate in {model.path} is in this data; convert it with `--like`")
    in_model = set(model.label_names)
    others = [NOT_JUDGED if labels is not None or name in in_model else NOT_KNOWN for name in data_names]
    place = np.array(others, dtype=np.int64)
    names = [model.label_names[label] for label in known]
    place[[in_data[name] for name in names]] = np.arange(len(known))
    evaluation = Evaluation(
        model=str(model.path),
        data=str(dataset.path),
        split="all",
        n_rows=dataset.n_rows,
        labels=np.array(known, dtype=np.int64),
        label_names=names,
        n_positive=np.zeros(len(known), dtype=np.int64),
        steps=model.labels["steps"][known],
        not_in_data=[model.label_names[label] for label in wanted if model.label_names[label] not in in_data],
        thresholds=model.threshold_source,
        probabilities=model.probability_source,
        label_titles=_titles(model, dataset, known, [in_data[name] for name in names]),
    )
    return evaluation, place


def _titles(model: Model | ClassifierModel, dataset: DataFile, known: list[int], in_data: list[int]) -> list[str] | None:
    """The labels' titles: of the model, else of the data, else None."""
    titles, numbers = (model.label_titles, known) if model.label_titles else (dataset.label_titles(), in_data)
    return None if titles is None else [titles[number] if number < len(titles) else "" for number in numbers]


@mpi.collective
def evaluate(
    comm: mpi.Comm,
    model: Model | ClassifierModel,
    dataset: DataFile,
    split: str,
    log: Log,
    labels: list[int] | None = None,
    watch: ScoreWatcher | None = None,
) -> Evaluation:
    """Collective over `comm`. The measures of `labels` (numbers; None is all) on a split.

    `watch` sees the scores. Raises ConfigError or DataError if model, data, split and labels do not
    fit, NonFiniteError if a score is not a number.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        result, place = match_labels(model, dataset, labels)
    shard = load_with_unknown(comm, dataset, split)
    missed = count_missed(comm, shard, place)
    result.split, result.n_rows, result.n_not_in_model, result.n_missed = split, shard.n_global, missed.n_labels, missed.n_pairs
    result.n_seen, result.n_unused = count_seen(comm, model, dataset, split), count_unused(comm, dataset)[0]
    scorer = scorer_of(model, shard, result.labels)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, places = positive_pairs(shard, place)
        positives = scorer.pairs_scores(rows, result.labels[places])
        scorer.check_numbers(positives, result.labels[places])
    comparable = Comparable(model, result.labels)
    result.compared_by = comparable.by
    pool = Counts(np.concatenate(mpi.allgather_arrays(comm, comparable.of_pairs(positives, places))))
    result.values = {name: np.full(len(result.label_names), np.nan) for name in MEASURES}
    several = len(result.label_names) > 1
    best = Best(shard.n_local, min(max(PRECISION_AT), len(result.label_names)) if several else 0, comparable)
    thresholds, n_predicted = model.thresholds[result.labels], np.zeros((2, result.labels.size), dtype=np.int64)
    frequencies = _frequencies(comm, model, result, places)
    counted = RowCounts(shard.n_local, by_frequency(frequencies))
    calibrated = None if model.sigmoids is None else ProbabilityCounts(model.sigmoids, result.labels, shard.n_global)
    if watch is not None:
        numbers, of_pairs = shard.first_row + shard.rows, (np.searchsorted(shard.rows, rows), places, positives)
        watch.begin(comm, TruePairs(result.labels, numbers, *of_pairs, comparable))
    progress = Progress(log, "evaluating labels", len(result.label_names))
    try:
        for begin, end in scorer.blocks:
            first, last = np.searchsorted(places, [begin, end])
            counts = block_counts(comm, positives[first:last], places[first:last] - begin, thresholds[begin:end])
            with mpi.agreed(comm, "scoring rows"):
                _count_block(scorer, begin, end, counts, (pool, comparable), best, counted if several else None, calibrated, watch)
                dataset.check_unchanged()
            sum_tallies(comm, counts)
            for label, count in enumerate(counts, begin):
                ranking = count.ranking(shard.n_global)
                n_predicted[:, label] = ranking.n_predicted, ranking.n_hits
                _measure(result, label, ranking)
            progress.update(end)
    finally:
        progress.close()
    sum_tallies(comm, [pool])
    ranking = pool.ranking(shard.n_global * len(result.label_names))
    in_all = n_predicted.sum(axis=1).tolist()  # each label has a threshold of its own
    ranking = replace(ranking, n_predicted=in_all[0], n_hits=in_all[1], n_missed=missed.n_pairs)
    if watch is not None:
        watch.end(pool, ranking)
    result.micro = {name: measure(ranking) for name, measure in MEASURES.items()}
    if calibrated is not None:
        found = calibrated.finish(comm, places, positives)
        result.values |= {"brier": found.brier, "ece": found.ece}
        result.micro |= found.micro
        result.calibration = found.by_positives(frequencies)
    if several:
        pairs = (np.searchsorted(shard.rows, rows), places, positives > thresholds[places])
        _measure_rows(comm, model, result, best.sort(), counted, pairs, missed, n_predicted)
    return result


@mpi.collective
def _frequencies(comm: mpi.Comm, model: Model | ClassifierModel, result: Evaluation, places: np.ndarray) -> np.ndarray:
    """Collective over `comm`. How many training rows have each evaluated label, or rows judged."""
    trained_on = model.labels.get("n_positive", np.zeros(0))
    if trained_on.any():
        result.frequency_from = "training rows"
        return trained_on[result.labels]
    result.frequency_from = "judged rows"
    return mpi.allreduce_sum(comm, np.bincount(places, minlength=result.labels.size))


@mpi.collective
def _measure_rows(
    comm: mpi.Comm,
    model: Model | ClassifierModel,
    result: Evaluation,
    best: Best,
    counted: RowCounts,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    missed: Missed,
    n_predicted: np.ndarray,
) -> None:
    """Collective over `comm`. Fill in the means over rows, and F1 of the most frequent labels."""
    n_rows, n_labels = result.n_rows, len(result.label_names)
    hits = n_true(best, *pairs[:2], n_labels)
    result.precision_at = precision_at(mpi.allreduce_sum(comm, hits), n_rows)
    trained_on, n_trained = model.labels.get("n_positive", np.zeros(0)), int(model.attrs.get("n_rows", 0))
    counts = np.append(trained_on[result.labels], 0) if trained_on.any() and n_trained else None  # the last of unknown labels
    weights = None if counts is None else 1.0 / propensities(counts, n_trained)
    found = row_measures(comm, best, counted, pairs, missed.by_row, weights, n_rows)
    result.ndcg_at, result.propensity_scored_at = found.ndcg_at, found.propensity_scored_at
    for percent, size, instance in zip(PERCENT, counted.sizes, found.instance_f1, strict=True):
        some = counted.places < size
        n_given, n_hits = n_predicted[:, some].sum(axis=1).tolist()
        together = n_given + int(result.n_positive[some].sum()) + (missed.n_pairs if some.all() else 0)
        judged = result.values["f1"][some & result.in_macro("f1")]
        micro, macro = 2 * n_hits / together if together else np.nan, float(judged.mean()) if judged.size else np.nan
        result.by_frequency.append(FrequentLabels(percent, size, instance, micro, macro))


def _count_block(
    scorer: Scorer | ClassifierScorer,
    begin: int,
    end: int,
    counts: list[Counts],
    pooled: tuple[Counts, Comparable],
    best: Best,
    by_row: RowCounts | None,
    calibrated: ProbabilityCounts | None,
    watch: ScoreWatcher | None,
) -> None:
    """Count this rank's scores of labels begin..end, for each label, row and the pool. Local."""
    thresholds, (pool, comparable) = np.array([count.threshold for count in counts]), pooled
    weights = scorer.weights(begin, end)
    for first, rows in blocks_of(scorer.rows, end - begin):
        scores = scorer.rows_scores(rows, *weights)
        best.add(first, scores, begin)
        if by_row is not None:
            by_row.add(first, scores, begin, thresholds)
        if calibrated is not None:
            calibrated.add(scores, begin)
        if watch is not None:
            watch.add(first, scores, begin)
        scores = np.ascontiguousarray(scores.T)
        scores.sort(axis=1)
        scorer.check_numbers(scores[:, -1], scorer.labels[begin:end])  # what is not a number is sorted to the end
        for lane, ascending in enumerate(scores):
            counts[lane].add(ascending)
            pool.add(comparable.of_label(ascending, begin + lane))
            if watch is not None:
                watch.add_sorted(begin + lane, ascending)


def _measure(result: Evaluation, label: int, ranking: Ranking) -> None:
    """Fill in one label's values."""
    result.n_positive[label] = ranking.n_positive
    for name, measure in MEASURES.items():
        result.values[name][label] = measure(ranking)
