"""Labels that a model ranks no better than chance, with the most likely reason, and labels with nearly the same rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard, rows_of
from hpcml.evaluation.chance_kernels import hypergeometric_tail
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.titles import names_of_features
from hpcml.files.report import ReportedResult, cell
from hpcml.files.table import table
from hpcml.log import Log, named, plural
from hpcml.model.trained import Trained

LEVEL = 0.05  # share of random orders that exceed the chance level
DRAWS = 499  # random orders for each number of positives
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000)  # numbers of positives for which chance is simulated
FEW = 5  # a label with fewer positive rows is called rare
ALIKE = 0.9  # Jaccard index from which the rows of two labels are nearly the same
BLOCK_BYTES = 1 << 25  # size of the counts that are summed over the ranks at a time
N_FEATURES_SHOWN = 3  # per label
N_LINES_SHOWN = 25  # per table
LONGEST = 30  # characters of a label in a table of 100 columns


class Feature(NamedTuple):
    feature: int
    name: str | None


@dataclass(frozen=True)
class Unlearnt:
    """A label whose average precision is no better than chance."""

    label: str
    n_trained: int  # positive training rows
    n_judged: int  # positive evaluated rows
    average_precision: float
    chance: float  # level that LEVEL of random orders exceed
    reason: str
    features: list[Feature]  # features more frequent in its training rows than by chance, the most significant first
    twin: str | None  # a label with nearly the same training rows


@dataclass(frozen=True)
class Twins:
    labels: tuple[str, str]
    n_rows: tuple[int, int]
    jaccard: float
    average_precision: tuple[float, float]


@dataclass
class Learnability(ReportedResult):
    """Labels that a model ranks no better than chance on a split, and pairs of labels with nearly the same training rows.

    Attributes
    ----------
    trained_on : str
        The split whose rows are searched for features and twins.
    n_judged, n_not_judged : int
        Number of labels with and without a positive row of the split.
    unlearnt : list of Unlearnt
        The labels no better than chance, those with most training rows first.
    twins : list of Twins
        Pairs of labels with nearly the same training rows, the most alike first.

    Examples
    --------
    >>> [each.reason for each in hpcml.explain("run", "docs.h5", unlearnt=True).unlearnt]
    """

    model: str
    data: str
    split: str
    trained_on: str
    n_judged: int
    n_not_judged: int
    unlearnt: list[Unlearnt]
    twins: list[Twins]

    def describe(self) -> Iterator[str]:
        share = f"{len(self.unlearnt):,} of {plural(self.n_judged, 'label')}"
        yield f"{self.model} on {self.data}, split {self.split}: {share} have an average precision no better than chance"
        yield f"chance: AP that {100 * LEVEL:g} % of random orders exceed; features: of the rows of split {self.trained_on}"
        if self.n_not_judged:
            yield f"note: {plural(self.n_not_judged, 'label')} without a positive row in this split, not compared"
        unlearnt = [["label (training, evaluated rows)", "AP", "chance", "  reason"]]
        for each in self.unlearnt:
            name = f"{named(each.label, LONGEST)} ({each.n_trained:,}, {each.n_judged:,})"
            unlearnt.append([name, cell(each.average_precision), cell(each.chance), f"  {each.reason}"])
        twins = [["labels with nearly the same training rows (rows)", "Jaccard", "AP", "AP of the second"]]
        for pair in self.twins:
            first, second = (f"{named(name, LONGEST)} ({n:,})" for name, n in zip(pair.labels, pair.n_rows, strict=True))
            twins.append([f"{first}, {second}", f"{pair.jaccard:.3f}", *map(cell, pair.average_precision)])
        for cells, is_text in ((unlearnt, True), (twins, False)):
            width = max(len(named(line[-1])) for line in cells) if is_text else 0  # the reasons are aligned to the left
            aligned = [[*line[:-1], named(line[-1]).ljust(width)] for line in cells[: 1 + N_LINES_SHOWN]]
            yield from ["", *(line.rstrip() for line in table(aligned))] if len(cells) > 1 else []
            if len(cells) > 1 + N_LINES_SHOWN:
                yield f"and {len(cells) - 1 - N_LINES_SHOWN:,} more (use --json to write all)"
        features = {each.label: each.features[:N_FEATURES_SHOWN] for each in self.unlearnt[:N_LINES_SHOWN] if each.features}
        yield from ["", "features of these labels:"] if features else []
        for label, names in features.items():
            words = (named(f"feature {feature}" if name is None else name, LONGEST) for feature, name in names)
            yield f"  {named(label, LONGEST)}: {', '.join(words)}"


def simulate_chance(n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the average precision (n) that LEVEL of random orders exceed; between SIZES a slight overestimate."""
    ratios = np.full(len(SIZES), np.nan)
    nearest = np.searchsorted(SIZES, n_positive, "right") - 1
    for i in np.unique(nearest).tolist():
        size = min(SIZES[i], n_rows)
        rng, ranks = np.random.default_rng([size, n_rows]), np.arange(1, size + 1)
        drawn = [np.sort(rng.choice(n_rows, size, replace=False, shuffle=False)) + 1 for _ in range(DRAWS)]
        values = np.array([(ranks / positions).mean() for positions in drawn])
        ratios[i] = np.quantile(values, 1 - LEVEL) / (size / n_rows)
    return np.minimum(1.0, ratios[nearest] * n_positive / n_rows)


def find_unlearnt(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, log: Log) -> Learnability:
    """Find labels ranked no better than chance, and the reasons. Raises ConfigError, DataError. Collective over `comm`."""
    evaluation = evaluate(comm, model, dataset, split, log)
    evaluated = np.flatnonzero(evaluation.n_positive > 0)
    trained_on = str(model.attrs.get("split", "all"))
    trained_on = trained_on if trained_on in dataset.split_names() else "all"
    names, values, shard = evaluation.label_names, evaluation.values["average_precision"], load_shard(comm, dataset, trained_on)
    number = {name: k for k, name in enumerate(dataset.label_names())}
    columns = np.array([number[name] for name in names], dtype=np.int64)
    ones = np.broadcast_to(np.float32(1), shard.y_indices.shape)
    Y = rows_of((shard.y_indptr, shard.y_indices, ones), shard.rows, shard.n_labels, False)
    rows_of_labels = sp.csc_matrix(Y)[:, columns].T.tocsr().astype(np.int64)  # labels × this rank's training rows
    X = rows_of((shard.indptr, shard.indices, shard.data), shard.rows, shard.n_features, False)
    X.data, n_total = (X.data != 0).astype(np.int64), shard.n_global
    del shard, Y  # they take memory
    n = mpi.allreduce_sum(comm, np.asarray(rows_of_labels.sum(axis=1)).ravel())
    n_having = mpi.allreduce_sum(comm, np.asarray(X.sum(axis=0)).ravel())  # rows with each feature
    chance = np.full(values.size, np.nan)
    if evaluated.size:
        chance[evaluated] = simulate_chance(evaluation.n_positive[evaluated], evaluation.n_rows)
    # with few rows the chance level may be 1
    no_better = evaluated[(values[evaluated] <= chance[evaluated]) & (values[evaluated] < 1)]
    # pairs of labels whose rows have a Jaccard index of at least ALIKE
    twins = []
    for label, both in _count_common(comm, rows_of_labels, np.flatnonzero(n > 1), rows_of_labels.T.tocsr()):
        jaccard = both / np.maximum(1, n[label] + n - both)
        for other in np.flatnonzero(jaccard >= ALIKE).tolist():
            if other > label:
                of_pair, n_rows = (names[label], names[other]), (int(n[label]), int(n[other]))
                twins.append(Twins(of_pair, n_rows, float(jaccard[other]), (float(values[label]), float(values[other]))))
    twins.sort(key=lambda pair: (-pair.jaccard, -pair.n_rows[0], pair.labels))
    twin_of: dict[str, str] = {}
    for pair in reversed(twins):  # the most alike last: it replaces others
        twin_of |= dict(zip(pair.labels, reversed(pair.labels), strict=True))
    # Features of each label's rows beyond chance, the most significant first. A feature of c of the label's R rows and of m of all
    # n rows is beyond chance if the hypergeometric probability of at least c, times the number of features of 2 or more rows
    # (Bonferroni), is at most LEVEL.
    own, n_tests = {}, int((n_having > 1).sum())
    for label, together in _count_common(comm, rows_of_labels, no_better, X):
        candidates = np.flatnonzero((together > 1) & (together * n_total > n_having * n[label]))
        p = hypergeometric_tail(together[candidates], n_total, n_having[candidates], int(n[label]))
        significant = p * n_tests <= LEVEL
        own[label] = candidates[significant][np.lexsort((candidates[significant], p[significant]))].tolist()
    with mpi.agreed(comm, f"reading {model.path}"):
        feature_names = names_of_features(model, (feature for features in own.values() for feature in features))
    unlearnt = []
    for label, features in own.items():
        name, n_trained, n_positive = names[label], int(n[label]), int(evaluation.n_positive[label])
        twin, reason = twin_of.get(name), "specific features, but too weak"
        if n_trained < FEW:
            reason = f"only {plural(n_trained, 'positive training row')}" if n_trained else "no positive training row"
        elif not features:
            reason = "no feature is typical of its rows"
        elif twin is not None:
            reason = f"nearly the rows of {named(twin, LONGEST)}"
        elif n_positive < FEW:
            reason = f"specific features, but only {plural(n_positive, 'evaluated row')}"
        with_names = [Feature(feature, feature_names.get(feature)) for feature in features]
        unlearnt.append(Unlearnt(name, n_trained, n_positive, float(values[label]), float(chance[label]), reason, with_names, twin))
    unlearnt.sort(key=lambda each: (-each.n_trained, each.label))
    about = (evaluation.model, evaluation.data, split, trained_on, evaluated.size, evaluation.n_without_positives)
    return Learnability(*about, unlearnt, twins)


def _count_common(comm: mpi.Comm, rows_of_labels: Any, labels: np.ndarray, other: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (label, the number of its rows with each column of `other` (n)). Collective."""
    step = max(1, BLOCK_BYTES // (8 * max(1, other.shape[1])))
    for begin in range(0, labels.size, step):
        part = labels[begin : begin + step]
        block = np.ascontiguousarray((rows_of_labels[part] @ other).toarray().astype(np.int64))
        mpi.allreduce_sum(comm, block.reshape(-1))
        yield from zip(part.tolist(), block, strict=True)
