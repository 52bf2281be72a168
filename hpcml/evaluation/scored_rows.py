"""The rows of a split with their true pairs, and all their scores block by block, counted for rankings; training rows among them.

Rankings and thresholds need only the number of scores above and at each score of a positive pair (`Counts`).

A pair of a row and a label unknown to the model counts as missed (`Missed`): it has no score and is a positive that is never
retrieved. This affects recall, F1, average precision, break-even and AUC over all pairs, F1 and nDCG per row, BioASQ's measures,
and the search for thresholds that maximise one of them. Unknown labels are those that the dataset stores apart from its own
(`data.unknown_labels`) and those of the dataset that the model lacks. Measures of single labels, and their means (macro), cover the
labels of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.labels import all_label_names, load_shard_with_unknown, log_unlabelled
from hpcml.data.shard import Shard, mask_empty_texts
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation import count_kernels as kernels
from hpcml.evaluation.comparable import Comparable
from hpcml.files.hdf5 import readable
from hpcml.log import Log, Progress, plural
from hpcml.measures import MEASURES, Ranking
from hpcml.model.scoring import ClassifierScorer, Scorer, make_scorer, score_block
from hpcml.model.trained import Trained
from hpcml.partition import offsets

# Instead of the position of a label among the evaluated ones: excluded by the caller; unknown to the model.
NOT_EVALUATED, NOT_KNOWN = -1, -2
ROWS = 1024  # rows of a block of scores that are counted at a time, so that the scores stay in the cache
UNSCORED = -np.inf  # the score of every label for a row of text without a known feature: below all thresholds


class Counts:
    """Number of scores above and at each distinct score of the positive pairs of each lane: a label, a group of labels, or all.

    Pairs with −∞ (`UNSCORED`) are never retrieved.
    """

    def __init__(self, positives: np.ndarray, lanes: np.ndarray | int = 0, thresholds: np.ndarray | float = 0.0) -> None:
        """`positives`: the scores of the positive pairs of all ranks; scores above `thresholds` (n_lanes) are predicted."""
        self.thresholds, lanes = np.atleast_1d(thresholds).astype(np.float64), np.broadcast_to(lanes, positives.shape)
        n_lanes, is_scored = self.thresholds.size, positives > UNSCORED
        self.n_missed = np.bincount(lanes[~is_scored], minlength=n_lanes)
        self.n_hits = np.bincount(lanes[positives > self.thresholds[lanes]], minlength=n_lanes)
        order = np.lexsort((positives[is_scored], lanes[is_scored]))
        positives, lanes = positives[is_scored][order], lanes[is_scored][order]
        is_repeated = (positives[1:] == positives[:-1]) & (lanes[1:] == lanes[:-1])
        first = np.flatnonzero(np.append(True, ~is_repeated)[: lanes.size])
        self.values, self.relevant = positives[first], np.diff(first, append=lanes.size)
        self.begins = np.searchsorted(lanes[first], np.arange(n_lanes + 1))
        # One buffer to reduce: scores between one value and the next (n + n_lanes), at a value (n), above the threshold (n_lanes).
        n, sizes = first.size, np.diff(self.begins)
        self.tally = np.zeros(2 * (n + n_lanes), dtype=np.int64)
        self._above, self._equal, self.n_predicted = np.split(self.tally, [n + n_lanes, 2 * n + n_lanes])
        guides = np.stack([offsets(each) for each in kernels.guide_sizes(sizes)], axis=1)
        tables = np.empty(guides[-1, 0], dtype=np.int64), np.empty(guides[-1, 1], dtype=np.int32)
        kernels.make_guides(self.begins, guides, self.values, *tables)
        self._counters = (self.begins, self.values, guides, *tables)

    def add(self, scores: np.ndarray, lanes: np.ndarray) -> None:
        """Add scores (n, B) of lanes[0], ..., lanes[B − 1]."""
        kernels.count_scores(scores, lanes, self.thresholds, self._counters, self._above, self._equal, self.n_predicted)

    def values_of(self, lane: int) -> np.ndarray:
        """Return the distinct scores of positives of a lane, ascending."""
        return self.values[self.begins[lane] : self.begins[lane + 1]]

    def ranking(self, n_items: int, lanes: np.ndarray | int = 0) -> Ranking:
        """Return the rankings of lanes with equally many values, of `n_items` scores each, once all are summed over the ranks."""
        lanes = np.asarray(lanes)
        begins, ends = self.begins[lanes], self.begins[lanes + 1]
        values = ends[..., None] - 1 - np.arange(int((ends - begins).max(initial=0)))
        greater = np.cumsum(self._above[values + lanes[..., None] + 1], axis=-1)
        n_scored, hits = n_items - self.n_missed[lanes], self.n_hits[lanes]
        about = (n_scored, self.n_predicted[lanes], hits, self.n_missed[lanes])
        return Ranking(greater, self._equal[values], self.relevant[values], *about)

    def rankings(self, n_items: int) -> Iterator[tuple[np.ndarray, Ranking]]:
        """Yield (lanes, their rankings), by number of values, until all lanes are there."""
        sizes = np.diff(self.begins)
        for size in np.unique(sizes):
            lanes = np.flatnonzero(sizes == size)
            yield lanes, self.ranking(n_items, lanes)


def label_measures(counts: Counts, n_rows: int) -> dict[str, np.ndarray]:
    """Return the values (n_labels) of each measure of rankings of `n_rows` rows."""
    values = {name: np.full(counts.thresholds.size, np.nan) for name in MEASURES}
    for lanes, ranking in counts.rankings(n_rows):
        for name, measure in MEASURES.items():
            values[name][lanes] = measure(ranking)
    return values


def split_by_lane(comm: mpi.Comm, values: np.ndarray, lanes: np.ndarray, n_lanes: int) -> list[np.ndarray]:
    """Return the values (n) of each lane on all ranks, in rank order. Collective over `comm`."""
    values, lanes = (np.concatenate(mpi.allgather_arrays(comm, each)) for each in (values, lanes))
    order = np.argsort(lanes, kind="stable")
    bounds = np.searchsorted(lanes[order], np.arange(n_lanes + 1))
    return [values[order[begin:end]] for begin, end in pairwise(bounds.tolist())]


def reduce_together(
    comm: mpi.Comm, arrays: Sequence[np.ndarray], reduce: Callable[[mpi.Comm, np.ndarray], np.ndarray] = mpi.allreduce_sum
) -> None:
    """Sum arrays (or `reduce` them) over the ranks in place, in one message. Collective over `comm`."""
    total, begin = reduce(comm, np.concatenate([array.reshape(-1) for array in arrays])), 0
    for array in arrays:
        array.reshape(-1)[:] = total[begin : begin + array.size]
        begin += array.size


def positive_pairs(shard: Shard, label_positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shard's pairs by label: rows as slab positions, and the positions of labels among the evaluated ones."""
    begins = shard.y_indptr[shard.rows]
    counts = shard.y_indptr[shard.rows + 1] - begins
    shifts = np.repeat(begins - offsets(counts)[:-1], counts)
    labels = label_positions[shard.y_indices[shifts + np.arange(shifts.size)]]
    rows = np.repeat(shard.rows, counts)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    return rows[order], labels[order]


@dataclass(frozen=True)
class Missed:
    by_row: np.ndarray  # number of unknown labels of each of this rank's rows (n_local)
    n_pairs: int  # on all ranks
    n_labels: int


def count_missed(comm: mpi.Comm, shard: Shard, label_positions: np.ndarray) -> Missed:
    """Count the pairs of labels whose position is NOT_KNOWN. Collective over `comm`."""
    is_unknown = label_positions[shard.y_indices] == NOT_KNOWN
    rows = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
    by_row = np.bincount(rows[is_unknown], minlength=shard.y_indptr.size - 1)[shard.rows]
    is_in_split = np.zeros(shard.y_indptr.size - 1, dtype=bool)
    is_in_split[shard.rows] = True
    counted = shard.y_indices[is_unknown & is_in_split[rows]]
    by_label = mpi.allreduce_sum(comm, np.bincount(counted, minlength=label_positions.size))
    return Missed(by_row, int(by_label.sum()), int(np.count_nonzero(by_label)))


class ScoreObserver:
    """Receives the scores of an evaluation, which it must not change. A subclass overrides the methods that it needs."""

    def begin(self, scored: ScoredRows) -> None:
        """Receive the rows and their true pairs before the scores. Collective."""

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        """Receive scores (n, B) of the rank's rows from `row` on and labels from `begin` on."""

    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Receive the ranking of all pairs and, in `pool`, the values of its ties, ascending. Collective."""


@dataclass
class ScoredRows:
    comm: mpi.Comm
    dataset: DataFile
    scorer: Scorer | ClassifierScorer
    shard: Shard
    n_rows: int  # on all ranks
    numbers: np.ndarray  # of the evaluated labels in the model, ascending
    n_labels: int
    not_in_data: list[str]  # requested labels that the dataset does not have
    missed: Missed
    rows: np.ndarray  # row of each of this rank's true pairs, by its position among the rank's rows
    labels: np.ndarray  # label of each true pair, by its position among the evaluated labels, ascending
    positives: np.ndarray  # score of each true pair
    comparable: Comparable
    empty: np.ndarray  # flags of this rank's rows of text without a known feature, which get no labels
    compared: bool = False  # the scores are values of `comparable`

    def row_numbers(self, positions: np.ndarray) -> np.ndarray:
        return self.shard.first_row + self.shard.rows[positions]

    def with_comparable_values(self) -> ScoredRows:
        return replace(self, positives=self.comparable.values(self.positives, self.labels), compared=True)

    def scores(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first, scores (n × B)) of rows from `first` on and labels begin..end. Raises NonFiniteError."""
        for first, scores in score_block(self.scorer, begin, end):
            scores[self.empty[first : first + scores.shape[0]]] = UNSCORED
            yield first, self.comparable.values(scores, slice(begin, end)) if self.compared else scores
        self.dataset.check_unchanged()

    def scores_with_features(self, begin: int, end: int) -> Iterator[np.ndarray]:
        """Yield scores (n × B) of labels begin..end as `scores` does, but only of rows with features."""
        for first, scores in self.scores(begin, end):
            empty = self.empty[first : first + scores.shape[0]]
            scores = scores[~empty] if empty.any() else scores
            if scores.size:
                yield scores

    def gather_counts(self, values: np.ndarray, lanes: np.ndarray, thresholds: np.ndarray) -> Counts:
        """Return `Counts` with the values of this and the other ranks' positive pairs. Collective."""
        values, lanes = (np.concatenate(mpi.allgather_arrays(self.comm, each)) for each in (values, lanes))
        return Counts(values, lanes, thresholds)

    def count(
        self, thresholds: np.ndarray, observers: Sequence[ScoreObserver] = (), progress: Progress | None = None
    ) -> tuple[Counts, Counts]:
        """Return the counts of each label, and of all pairs in one ranking, in one pass over all scores. Collective."""
        values = self.comparable.values(self.positives, self.labels)
        counts = self.gather_counts(self.positives, self.labels, thresholds)
        pool = self.gather_counts(values, np.zeros_like(self.labels), np.zeros(1))
        for begin, end in self.scorer.blocks:
            with mpi.agreed(self.comm, "scoring rows"):
                for first, block in self.scores(begin, end):
                    for row in range(0, len(block), ROWS):
                        scores = block[row : row + ROWS]
                        for observer in observers:
                            observer.add(first + row, scores, begin)
                        counts.add(scores, np.arange(begin, end))
                        pool.add(self.comparable.values(scores, slice(begin, end)).reshape(-1, 1), np.zeros(1, dtype=np.int64))
            if progress is not None:
                progress.update(end)
        reduce_together(self.comm, [counts.tally, pool.tally])
        return counts, pool

    def n_positive(self) -> np.ndarray:
        return self.sum_by_label(np.ones(self.labels.size, dtype=bool))

    def sum_by_label(self, selected: np.ndarray) -> np.ndarray:
        return mpi.allreduce_sum(self.comm, np.bincount(self.labels[selected], minlength=self.n_labels))


def load_scored_rows(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, labels: list[int] | None = None) -> ScoredRows:
    """Load the rows of a split to score them for `labels` (default: all). Raises ConfigError, DataError. Collective over `comm`."""
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        requested = range(model.n_labels) if labels is None else sorted(set(labels))
        for label in requested:
            if not 0 <= label < model.n_labels:
                raise ConfigError(f"label number {label}: {model.path} has labels 0 to {model.n_labels - 1}")
        # labels are matched by name; each label of the data has a position among the evaluated labels, or the reason for none
        data_names, in_model = all_label_names(dataset), set(model.label_names)
        number = {name: label for label, name in enumerate(data_names)}
        known = [label for label in requested if model.label_names[label] in number]
        if not known:
            raise DataError(
                f"{dataset.path}: none of the labels to evaluate in {model.path} is in this data; convert it with `--like`"
            )
        others = [NOT_EVALUATED if labels is not None or name in in_model else NOT_KNOWN for name in data_names]
        positions, numbers = np.array(others, dtype=np.int64), np.array(known, dtype=np.int64)
        positions[[number[model.label_names[label]] for label in known]] = np.arange(numbers.size)
        not_in_data = [model.label_names[label] for label in requested if model.label_names[label] not in number]
    shard = load_shard_with_unknown(comm, dataset, split)
    missed = count_missed(comm, shard, positions)
    scorer = make_scorer(model, shard, numbers)
    scorer.warm_up(comm)
    with mpi.node_first(comm):
        Counts(np.zeros(0)).add(np.empty((0, 1)), np.zeros(1, dtype=np.int64))
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, true_labels = positive_pairs(shard, positions)
        positives = scorer.score_pairs(rows, numbers[true_labels])
        scorer.check_numbers(positives, numbers[true_labels])
        empty, rows = mask_empty_texts(dataset, shard), np.searchsorted(shard.rows, rows)
        positives[empty[rows]] = UNSCORED
    first = (comm, dataset, scorer, shard, shard.n_global, numbers, numbers.size, not_in_data, missed)
    return ScoredRows(*first, rows, true_labels, positives, Comparable(model, numbers), empty)


class SeenRows(NamedTuple):
    """Number of evaluated rows that are training rows of the model."""

    n_rows: int = 0
    is_estimate: bool = False


def count_seen(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> SeenRows:
    """Count the rows that trained the model, by row keys; an estimate above 10^6, 0 without keys. Raises DataError. Collective."""

    def count() -> int:
        with readable(dataset.path, "hpcml convert", "dataset"):
            return model.training_keys.count(dataset.map("row_keys")[dataset.labelled(dataset.split(split))])

    if model.training_keys is None:
        return SeenRows()
    return SeenRows(mpi.run_on_root(comm, f"reading {dataset.path}", count), not model.training_keys.complete)


def warn_about_training_rows(seen: SeenRows, n_rows: int, consequence: str = "") -> list[str]:
    if not seen.n_rows:
        return []
    rows = f"about {seen.n_rows:,} of the" if seen.is_estimate else "all" if seen.n_rows == n_rows else f"{seen.n_rows:,} of the"
    consequence = consequence or ", so these results are too optimistic; use --split with held-out rows"
    return [f"warning: {rows} {n_rows:,} rows are training rows of the model{consequence}"]


def choose_split(comm: mpi.Comm, dataset: DataFile, name: str | None, log: Log) -> str:
    """Return the named split, else test, else all rows. Log excluded rows. Collective over `comm`."""
    split = name or split_or_all(dataset, "test")
    if name is None and split == "all":
        log(f"note: {dataset.path} has no split test; all its {plural(dataset.n_rows, 'row')} are evaluated")
    log_unlabelled(comm, dataset, split, log)
    return split
