"""Judged rows whose scores are asked for block by block, with their true pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import all_label_names, load_with_unknown
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.counts import Counts, block_counts, positive_pairs, sum_tallies
from hpcml.evaluation.missed import NOT_JUDGED, NOT_KNOWN, Missed, count_missed
from hpcml.evaluation.ranking import Ranking
from hpcml.evaluation.scoring import ClassifierScorer, Scorer, block_scores, scorer_of
from hpcml.model.linear import Trained


class Matched(NamedTuple):
    """The labels of a model that a dataset can judge, matched by name."""

    labels: np.ndarray  # their numbers in the model, ascending
    in_data: np.ndarray  # their numbers among `all_label_names`
    place: np.ndarray  # of each of these names the place of its label in `labels`, or what `missed` says
    not_in_data: list[str]  # labels that were asked for but that the data does not know


def match_labels(model: Trained, dataset: DataFile, labels: list[int] | None) -> Matched:
    """The `labels` (None is all) that the dataset knows.

    Raises ConfigError for a label number the model lacks, DataError if no label is left.
    """
    wanted = range(model.n_labels) if labels is None else sorted(set(labels))
    for label in wanted:
        if not 0 <= label < model.n_labels:
            raise ConfigError(f"label number {label}: {model.path} has labels 0 to {model.n_labels - 1}")
    data_names = all_label_names(dataset)
    number = {name: place for place, name in enumerate(data_names)}
    known = [label for label in wanted if model.label_names[label] in number]
    if not known:
        raise DataError(f"{dataset.path}: none of the labels to evaluate in {model.path} is in this data; convert it with `--like`")
    in_model = set(model.label_names)
    others = [NOT_JUDGED if labels is not None or name in in_model else NOT_KNOWN for name in data_names]
    place, in_data = np.array(others, dtype=np.int64), np.array([number[model.label_names[label]] for label in known])
    place[in_data] = np.arange(len(known))
    not_in_data = [model.label_names[label] for label in wanted if model.label_names[label] not in number]
    return Matched(np.array(known, dtype=np.int64), in_data, place, not_in_data)


class ScoreTaker(Protocol):
    """Sees every score of judged rows as it passes."""

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        """Scores (n, B) of the rank's rows `row`, ... for judged labels `begin`, ... Local."""


class ScoreWatcher:
    """An observer of an evaluation, which changes no measure; it defines what it wants to see."""

    def begin(self, judged: JudgedRows) -> None:
        """Collective. The rows and their true pairs, before any score comes."""

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        """See `ScoreTaker`. Local."""

    def add_sorted(self, label: int, ascending: np.ndarray) -> None:
        """The scores of some of the rank's rows for one judged label. Local."""

    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Collective. All pairs in one ranking; the values of its ties, ascending, in `pool`."""


@dataclass
class JudgedRows:
    """The rows of a split and some labels: the true pairs, by label; all scores block by block."""

    comm: mpi.Comm
    dataset: DataFile
    scorer: Scorer | ClassifierScorer
    shard: Shard
    matched: Matched
    missed: Missed  # the pairs of labels that the model does not know
    rows: np.ndarray  # of this rank's true pairs: the row, by its place among the rank's
    labels: np.ndarray  # its label, by its place among those judged, ascending
    positives: np.ndarray  # its score
    comparable: Comparable  # of the judged labels
    compared: bool = False  # are the scores those of `comparable`?

    @property
    def numbers(self) -> np.ndarray:
        """The judged labels' numbers in the model, ascending."""
        return self.scorer.labels

    @property
    def n_labels(self) -> int:
        """Judged labels."""
        return self.scorer.labels.size

    @property
    def n_rows(self) -> int:
        """Judged rows on all ranks."""
        return self.shard.n_global

    def row_numbers(self, places: np.ndarray) -> np.ndarray:
        """The numbers in the dataset of this rank's rows at these places."""
        return self.shard.first_row + self.shard.rows[places]

    def to_compare(self) -> JudgedRows:
        """The same with values that can be compared between labels for the scores. Local."""
        return replace(self, positives=self.comparable.of_pairs(self.positives, self.labels), compared=True)

    def scores(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first, scores (n × B)) of rows first, ..., labels begin..end. Raises NonFiniteError."""
        for first, scores in block_scores(self.scorer, begin, end):
            yield first, self.comparable.of_block(scores, begin) if self.compared else scores
        self.dataset.check_unchanged()

    def pool(self) -> Counts:
        """Collective. What `counts` fills with the pairs of all labels in one ranking."""
        return Counts(np.concatenate(mpi.allgather_arrays(self.comm, self.to_compare().positives)))

    def counts(
        self, pool: Counts, thresholds: np.ndarray | None, takers: Sequence[ScoreTaker] = (), watches: Sequence[ScoreWatcher] = ()
    ) -> Iterator[tuple[int, Counts]]:
        """Collective. (label, its counts above its threshold), block by block; then `pool` is full.

        Without thresholds only `pool` is filled. `takers`, `watches` among them, see the scores.
        """
        for begin, end in self.scorer.blocks:
            counts = [] if thresholds is None else self._counts_of(begin, end, thresholds)
            with mpi.agreed(self.comm, "scoring rows"):
                for row, scores in self.scores(begin, end):
                    for taker in takers:
                        taker.add(row, scores, begin)
                    columns = np.ascontiguousarray(scores.T)
                    columns.sort(axis=1)
                    for label, ascending in enumerate(columns, begin):
                        pool.add(self.comparable.of_label(ascending, label))
                        if counts:
                            counts[label - begin].add(ascending)
                        for watch in watches:
                            watch.add_sorted(label, ascending)
            if counts:
                sum_tallies(self.comm, counts)
            yield from enumerate(counts, begin)
        sum_tallies(self.comm, [pool])

    def _counts_of(self, begin: int, end: int, thresholds: np.ndarray) -> list[Counts]:
        """Collective. A block's counts to fill."""
        first, last = np.searchsorted(self.labels, [begin, end])
        return block_counts(self.comm, self.positives[first:last], self.labels[first:last] - begin, thresholds[begin:end])

    def n_positive(self) -> np.ndarray:
        """Collective. The rows of all ranks that have each label."""
        return self.sum_by_label(np.ones(self.labels.size, dtype=bool))

    def sum_by_label(self, chosen: np.ndarray) -> np.ndarray:
        """Collective. How many of the true pairs of each label are `chosen`, on all ranks."""
        return mpi.allreduce_sum(self.comm, np.bincount(self.labels[chosen], minlength=self.n_labels))


def judge(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, labels: list[int] | None = None) -> JudgedRows:
    """Collective over `comm`. The rows of a split, and `labels` (numbers; None is all) to judge.

    Raises ConfigError or DataError if model, data, split and labels do not fit.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        matched = match_labels(model, dataset, labels)
    shard = load_with_unknown(comm, dataset, split)
    missed = count_missed(comm, shard, matched.place)
    scorer = scorer_of(model, shard, matched.labels)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, places = positive_pairs(shard, matched.place)
        positives = scorer.pairs_scores(rows, matched.labels[places])
        scorer.check_numbers(positives, matched.labels[places])
    comparable, rows = Comparable(model, matched.labels), np.searchsorted(shard.rows, rows)
    return JudgedRows(comm, dataset, scorer, shard, matched, missed, rows, places, positives, comparable)


def hold_out(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> JudgedRows:
    """Collective over `comm`. `judge` all labels. Raises DataError if no row has a label, too."""
    judged = judge(comm, model, dataset, split)
    if not mpi.agreed_any(comm, judged.rows.size > 0):
        raise DataError(f"{dataset.path}: no row of split {split} has a label of {model.path}; choose rows that have some")
    return judged
