"""Labels that a model has not learnt, and maybe why; labels of nearly the rows of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard, rows_of
from hpcml.evaluation.chance_kernels import at_least
from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.evaluation.titles import names_of_features
from hpcml.files.report import ReportedResult, cell
from hpcml.files.table import table
from hpcml.log import Log, named, plural
from hpcml.model.trained import Trained

LEVEL = 0.05  # of random orders so many do better than what counts as chance
DRAWS = 499  # random orders for each number of positives
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000)  # for which chance is simulated
FEW = 5  # positive rows that a label should have in training
ALIKE = 0.9  # Jaccard index from which the rows of two labels are nearly the same
BLOCK_BYTES = 1 << 25  # of counts that are summed over the ranks at once
WORDS = 3  # that are shown of a label
SHOWN = 25  # lines of a table


class Feature(NamedTuple):
    """A feature, and its name if the data have one."""

    feature: int
    name: str | None


@dataclass(frozen=True)
class Unlearnt:
    """A label whose average precision is no better than chance."""

    label: str
    n_trained: int  # positive training rows
    n_judged: int
    average_precision: float
    chance: float  # that LEVEL of random orders exceed
    reason: str  # the most likely one, in a few words
    features: list[Feature]  # that its training rows have more often than chance, the surest first
    twin: str | None  # a label of nearly the same training rows


@dataclass(frozen=True)
class Twins:
    """Two labels that nearly the same training rows have."""

    labels: tuple[str, str]
    n_rows: tuple[int, int]
    jaccard: float
    average_precision: tuple[float, float]


@dataclass
class Learnability(ReportedResult):
    """The findings on all labels that could be judged."""

    model: str
    data: str
    split: str
    trained_on: str  # the split whose rows are looked at for features and twins
    n_judged: int  # labels
    n_not_judged: int  # without a positive row of the split
    unlearnt: list[Unlearnt]
    twins: list[Twins]

    def describe(self) -> Iterator[str]:
        """Return a table of labels that are not learnt, and one of twins."""
        share = f"{len(self.unlearnt):,} of {plural(self.n_judged, 'label')}"
        yield f"{self.model} on {self.data}, split {self.split}: {share} have an average precision no better than chance"
        yield f"chance: what {100 * LEVEL:g} % of random orders of the rows exceed; what rows share: in split {self.trained_on}"
        if self.n_not_judged:
            yield f"labels without a row of this split, which could not be judged: {self.n_not_judged:,}"
        unlearnt = [["label", "training rows", "judged rows", "avg prec", "chance", "reason"]]
        for each in self.unlearnt:
            words = ", ".join(named(f"feature {f.feature}" if f.name is None else f.name, 30) for f in each.features[:WORDS])
            counts = (f"{each.n_trained:,}", f"{each.n_judged:,}", cell(each.average_precision), cell(each.chance))
            unlearnt.append([each.label, *counts, each.reason + (f" ({words})" if words else "")])
        twins = [["labels of nearly the same training rows", "and", "rows", "rows", "Jaccard", "avg prec", "avg prec"]]
        for pair in self.twins:
            sizes = (f"{n:,}" for n in pair.n_rows)
            twins.append([*pair.labels, *sizes, f"{pair.jaccard:.3f}", *map(cell, pair.average_precision)])
        for cells in (unlearnt, twins):
            if len(cells) > 1:
                yield from ["", *table(cells[: 1 + SHOWN])]
            if len(cells) > 1 + SHOWN:
                yield f"and {len(cells) - 1 - SHOWN:,} more: --json FILE writes all"


def chance_of(n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """The average precision (n) that LEVEL of random orders exceed, for n_positive (n, above 0).

    Simulated for SIZES; between them by the ratio to the share of positives of the next smaller size, which is a little larger.
    """
    ratios = np.full(len(SIZES), np.nan)
    at = np.searchsorted(SIZES, n_positive, "right") - 1
    for place in np.unique(at).tolist():
        size = min(SIZES[place], n_rows)
        rng, ranks = np.random.default_rng([size, n_rows]), np.arange(1, size + 1)
        drawn = [np.sort(rng.choice(n_rows, size, replace=False, shuffle=False)) + 1 for _ in range(DRAWS)]
        values = np.array([(ranks / some).mean() for some in drawn])
        ratios[place] = np.quantile(values, 1 - LEVEL) / (size / n_rows)
    return np.minimum(1.0, ratios[at] * n_positive / n_rows)


def find_unlearnt(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, log: Log) -> Learnability:
    """Collective over `comm`. The labels ranked no better than chance on a split, and why.

    What rows have in common is looked for in those that the model was trained on, if the data have
    that split, else in all. Raises ConfigError or DataError if model, data and split do not fit.
    """
    evaluation = evaluate(comm, model, dataset, split, log)
    judged = np.flatnonzero(evaluation.n_positive > 0)
    trained_on = str(model.attrs.get("split", "all"))
    trained_on = trained_on if trained_on in dataset.split_names() else "all"
    known = _TrainingRows(comm, load_shard(comm, dataset, trained_on), dataset, evaluation)
    names, n, values = evaluation.label_names, known.n_positive, evaluation.values["average_precision"]
    chance = np.full(values.size, np.nan)
    if judged.size:
        chance[judged] = chance_of(evaluation.n_positive[judged], evaluation.n_rows)
    places = judged[(values[judged] <= chance[judged]) & (values[judged] < 1)]  # of few rows chance may be perfect
    # pairs of labels whose rows have a Jaccard index of at least ALIKE
    twins = []
    for label, both in known.counts(np.flatnonzero(n > 1), known.by_label.T.tocsr()):
        jaccard = both / np.maximum(1, n[label] + n - both)
        for other in np.flatnonzero(jaccard >= ALIKE).tolist():
            if other > label:
                of_pair, rows = (names[label], names[other]), (int(n[label]), int(n[other]))
                twins.append(Twins(of_pair, rows, float(jaccard[other]), (float(values[label]), float(values[other]))))
    twins.sort(key=lambda pair: (-pair.jaccard, -pair.n_rows[0], pair.labels))
    twin_of: dict[str, str] = {}
    for pair in reversed(twins):  # the most alike last, so that it stays
        twin_of |= dict(zip(pair.labels, reversed(pair.labels), strict=True))
    # Features of each label's rows beyond chance, the surest first. A feature of c of the label's R rows and of m of all n rows is
    # beyond chance if the hypergeometric probability of at least c, times the features of 2 rows or more (Bonferroni), is at most
    # LEVEL.
    own, n_tests = {}, int((known.n_having > 1).sum())
    for label, together in known.counts(places, known.X):
        some = np.flatnonzero((together > 1) & (together * known.n_rows > known.n_having * n[label]))
        p = at_least(together[some], known.n_rows, known.n_having[some], int(n[label]))
        sure = p * n_tests <= LEVEL
        own[label] = some[sure][np.lexsort((some[sure], p[sure]))].tolist()
    with mpi.agreed(comm, f"reading {model.path}"):
        of_features = names_of_features(model, (feature for features in own.values() for feature in features))
    unlearnt = []
    for place, features in own.items():
        name, n_trained, n_judged = names[place], int(n[place]), int(evaluation.n_positive[place])
        twin, reason = twin_of.get(name), "features of its own, but not enough of them"
        if n_trained < FEW:
            reason = f"only {plural(n_trained, 'positive training row')}" if n_trained else "no positive training row"
        elif not features:
            reason = "its rows share no feature beyond chance"
        elif twin is not None:
            reason = f"nearly the rows of {named(twin, 40)}"
        elif n_judged < FEW:
            reason = f"features of its own, but only {plural(n_judged, 'judged row')} to tell by"
        of_name = [Feature(feature, of_features.get(feature)) for feature in features]
        unlearnt.append(Unlearnt(name, n_trained, n_judged, float(values[place]), float(chance[place]), reason, of_name, twin))
    unlearnt.sort(key=lambda each: (-each.n_trained, each.label))
    about = (evaluation.model, evaluation.data, split, trained_on, judged.size, evaluation.n_without_positives)
    return Learnability(*about, unlearnt, twins)


class _TrainingRows:
    """This rank's training rows: which labels (n_evaluated) and features they have."""

    def __init__(self, comm: mpi.Comm, shard: Shard, dataset: DataFile, evaluation: Evaluation) -> None:
        """Collective over `comm`."""
        self.comm, self.n_rows = comm, shard.n_global
        number = {name: k for k, name in enumerate(dataset.label_names())}
        columns = np.array([number[name] for name in evaluation.label_names], dtype=np.int64)
        ones = np.broadcast_to(np.float32(1), shard.y_indices.shape)
        Y = rows_of((shard.y_indptr, shard.y_indices, ones), shard.rows, shard.n_labels, False)
        self.by_label = sp.csc_matrix(Y)[:, columns].T.tocsr().astype(np.int64)  # labels × rows
        X = rows_of((shard.indptr, shard.indices, shard.data), shard.rows, shard.n_features, False)
        X.data = (X.data != 0).astype(np.int64)
        self.X = X
        self.n_positive = mpi.allreduce_sum(comm, np.asarray(self.by_label.sum(axis=1)).ravel())
        self.n_having = mpi.allreduce_sum(comm, np.asarray(X.sum(axis=0)).ravel())  # rows with each feature

    def counts(self, labels: np.ndarray, other: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Collective. (label, how many of its rows have each column of `other` (n))."""
        step = max(1, BLOCK_BYTES // (8 * max(1, other.shape[1])))
        for begin in range(0, labels.size, step):
            some = labels[begin : begin + step]
            block = np.ascontiguousarray((self.by_label[some] @ other).toarray().astype(np.int64))
            mpi.allreduce_sum(self.comm, block.reshape(-1))
            yield from zip(some.tolist(), block, strict=True)
