"""Evaluating a model on a split: exact counts over all ranks' scores, from which every measure follows.

Phase 1 scores only the positive pairs (row, label); their distinct scores are the only places in a ranking that the measures
ask about. Phase 2 streams all scores, block by block, and counts how many lie above and at each of those places. Counts are
integers, so neither the blocks nor the number of ranks can change a bit. A rank's memory: the blocks (`scoring`), its own
positive pairs, about 40 bytes for each distinct score of the pool of all positive pairs, and 60 for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import Dataset
from hpcml.data.labels import count_unused
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.ranking import MEASURES, Ranking
from hpcml.evaluation.scoring import ClassifierScorer, Scorer, blocks_of, scorer_of
from hpcml.evaluation.seen import count_seen
from hpcml.evaluation.top import PRECISION_AT, Best, n_true, precision_at
from hpcml.kernels.scores import count_sorted
from hpcml.log import Log, Progress
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.partition import offsets

_SEARCH_RATIO = 16  # with so many times more scores than places, look the places up among the scores


@dataclass
class Evaluation:
    """The measures of a model on a split, per label and pooled. An undefined measure is NaN and in no mean."""

    model: str
    data: str
    split: str
    n_rows: int
    labels: np.ndarray  # the evaluated labels' numbers in the model
    label_names: list[str]
    n_positive: np.ndarray  # per evaluated label, rows of the split that have it
    steps: np.ndarray  # per evaluated label, iterations of its training (0: not trained)
    not_in_data: list[str]  # labels that were asked for but that the data does not know
    n_not_in_model: int  # labels of the data that the model does not know: ignored
    n_seen: int = 0  # rows that the model was trained on (`count_seen`)
    n_unused: int = 0  # rows of the data that are in no split
    values: dict[str, np.ndarray] = field(default_factory=dict)  # measure -> one value per evaluated label
    micro: dict[str, float] = field(default_factory=dict)  # measure -> its value on all (row, label) pairs in one ranking
    # k -> the share of true ones among the k best evaluated labels of a row (or all, if they are fewer), mean over the rows
    precision_at: dict[int, float] = field(default_factory=dict)

    @property
    def n_without_positives(self) -> int:
        """Evaluated labels that no row of the split has."""
        return int((self.n_positive == 0).sum())

    def in_macro(self, measure: str) -> np.ndarray:
        """Which labels count for the macro mean of a measure: those with a positive row and a defined value."""
        return (self.n_positive > 0) & ~np.isnan(self.values[measure])

    def macro(self, measure: str) -> float:
        """The mean of a measure over its labels (`in_macro`); NaN if there are none."""
        chosen = self.values[measure][self.in_macro(measure)]
        return float(chosen.mean()) if chosen.size else float("nan")


class Counts:
    """How many scores lie above and at each distinct score of some positives."""

    def __init__(self, positives: np.ndarray) -> None:
        """`positives` are the scores of all positives on all ranks."""
        self.values, self.relevant = np.unique(positives, return_counts=True)
        n = self.values.size
        # One buffer to reduce: scores above the value before and not above this one (n + 1), at it (n), and above 0.
        self.tally = np.zeros(2 * n + 2, dtype=np.int64)
        self._above, self._equal = self.tally[: n + 1], self.tally[n + 1 : -1]

    def add(self, scores: np.ndarray) -> None:
        """Count `scores` (1-d, ascending)."""
        self.tally[-1] += scores.size - np.searchsorted(scores, 0.0, "right")
        if scores.size < _SEARCH_RATIO * self.values.size:
            count_sorted(scores, self.values, self._above, self._equal)
            return
        right = np.searchsorted(scores, self.values, "right")
        self._equal += right - np.searchsorted(scores, self.values, "left")
        self._above += np.diff(right, prepend=0, append=scores.size)

    def ranking(self, n_items: int) -> Ranking:
        """The ranking of `n_items` scores, once all are counted and the tallies summed over the ranks."""
        greater = np.cumsum(self._above[:0:-1])
        hits = int(self.relevant[self.values > 0].sum())
        return Ranking(greater, self._equal[::-1], self.relevant[::-1], n_items, int(self.tally[-1]), hits)


def match_labels(model: Model | ClassifierModel, dataset: Dataset, labels: list[int] | None) -> tuple[Evaluation, np.ndarray]:
    """An evaluation without values, and for each label of the data its place among the evaluated ones (−1: none).

    Labels are matched by name. Raises ConfigError for a label number the model lacks, DataError if no label is left.
    """
    wanted = range(model.n_labels) if labels is None else sorted(set(labels))
    for label in wanted:
        if not 0 <= label < model.n_labels:
            raise ConfigError(f"label number {label}: {model.path} has labels 0 to {model.n_labels - 1}")
    data_names = dataset.label_names()
    in_data = {name: number for number, name in enumerate(data_names)}
    known = [label for label in wanted if model.label_names[label] in in_data]
    if not known:
        raise DataError(f"{dataset.path}: none of the labels to evaluate in {model.path} is in this data; convert it with `--like`")
    place = np.full(dataset.n_labels, -1, dtype=np.int64)
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
        n_not_in_model=len(set(data_names) - set(model.label_names)),
    )
    return evaluation, place


def positive_pairs(shard: Shard, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shard's (row, label) pairs: rows as slab positions and labels as `place` gives them, ordered by label."""
    begins = shard.y_indptr[shard.rows]
    counts = shard.y_indptr[shard.rows + 1] - begins
    shifts = np.repeat(begins - offsets(counts)[:-1], counts)
    labels = place[shard.y_indices[shifts + np.arange(shifts.size)]]
    rows = np.repeat(shard.rows, counts)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    return rows[order], labels[order]


@mpi.collective
def evaluate(
    comm: mpi.Comm, model: Model | ClassifierModel, dataset: Dataset, split: str, log: Log, labels: list[int] | None = None
) -> Evaluation:
    """Collective over `comm`. The measures of `labels` (numbers in the model; None is all) on a split.

    Raises ConfigError or DataError if model, data, split and labels do not fit, NonFiniteError if a score is not a number.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        result, place = match_labels(model, dataset, labels)
    shard = load_shard(comm, dataset, split)
    result.split, result.n_rows = split, shard.n_global
    result.n_seen, result.n_unused = count_seen(comm, model, dataset, split), count_unused(comm, dataset)
    scorer = scorer_of(model, shard, result.labels)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, places = positive_pairs(shard, place)
        positives = scorer.pairs_scores(rows, result.labels[places])
        scorer.check_numbers(positives, result.labels[places])
    pool = Counts(np.concatenate(mpi.allgather_arrays(comm, positives)))
    result.values = {name: np.full(len(result.label_names), np.nan) for name in MEASURES}
    several = len(result.label_names) > 1
    best = Best(shard.n_local, min(max(PRECISION_AT), len(result.label_names)) if several else 0)
    progress = Progress(log, "evaluating labels", len(result.label_names))
    try:
        for begin, end in scorer.blocks:
            first, last = np.searchsorted(places, [begin, end])
            counts = _block_counts(comm, positives[first:last], places[first:last] - begin, end - begin)
            with mpi.agreed(comm, "scoring rows"):
                _count_block(scorer, begin, end, counts, pool, best)
                dataset.check_unchanged()
            _sum_tallies(comm, counts)
            for label, count in enumerate(counts, begin):
                _measure(result, label, count.ranking(shard.n_global))
            progress.update(end)
    finally:
        progress.close()
    _sum_tallies(comm, [pool])
    ranking = pool.ranking(shard.n_global * len(result.label_names))
    result.micro = {name: measure(ranking) for name, measure in MEASURES.items()}
    hits = n_true(best.sort(), np.searchsorted(shard.rows, rows), places, len(result.label_names))
    hits = mpi.allreduce_sum(comm, hits)
    result.precision_at = precision_at(hits, shard.n_global) if several else {}
    return result


@mpi.collective
def _block_counts(comm: mpi.Comm, positives: np.ndarray, lanes: np.ndarray, n_lanes: int) -> list[Counts]:
    """Collective over `comm`. For each label of a block the counts to fill, from all ranks' positives and their lanes."""
    positives = np.concatenate(mpi.allgather_arrays(comm, positives))
    lanes = np.concatenate(mpi.allgather_arrays(comm, lanes))
    order = np.argsort(lanes, kind="stable")
    bounds = np.searchsorted(lanes[order], np.arange(n_lanes + 1))
    return [Counts(positives[order[bounds[lane] : bounds[lane + 1]]]) for lane in range(n_lanes)]


def _count_block(scorer: Scorer | ClassifierScorer, begin: int, end: int, counts: list[Counts], pool: Counts, best: Best) -> None:
    """Count all of this rank's scores of labels begin..end, for each label and for the pool; take the rows' best ones. Local."""
    weights = scorer.weights(begin, end)
    for first, rows in blocks_of(scorer.rows, end - begin):
        scores = scorer.rows_scores(rows, *weights)
        best.add(first, scores, begin)
        scores = np.ascontiguousarray(scores.T)
        scores.sort(axis=1)
        scorer.check_numbers(scores[:, -1], scorer.labels[begin:end])  # what is not a number is sorted to the end
        for lane, ascending in enumerate(scores):
            counts[lane].add(ascending)
            pool.add(ascending)


@mpi.collective
def _sum_tallies(comm: mpi.Comm, counts: list[Counts]) -> None:
    """Collective over `comm`. Sum tallies over the ranks, in one message."""
    total = mpi.allreduce_sum(comm, np.concatenate([count.tally for count in counts]))
    begin = 0
    for count in counts:
        count.tally[:] = total[begin : begin + count.tally.size]
        begin += count.tally.size


def _measure(result: Evaluation, label: int, ranking: Ranking) -> None:
    """Fill in one label's values."""
    result.n_positive[label] = ranking.n_positive
    for name, measure in MEASURES.items():
        result.values[name][label] = measure(ranking)
