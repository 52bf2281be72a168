"""Warnings about features that alone determine a label and may leak it.

For every label a sample of its rows is compared with a sample of other rows, feature by feature. A feature whose AUC over all rows
is at least 0.999 has the same expected AUC in the sample; features below 0.98 in the sample are skipped. The AUC of the remaining
few is computed over all rows. Sampling depends on hashes of row numbers only, and all counts are exact, so the result does not
depend on the number of ranks.
"""

import numpy as np
import scipy.sparse as sp

from hpcml import mpi, rng
from hpcml.data.dataset import DataFile, read_feature_names
from hpcml.data.headings import Headings
from hpcml.data.labels import count_positives
from hpcml.data.shard import Shard, load_shard
from hpcml.kernels import leaks as kernels
from hpcml.log import Log, named, plural
from hpcml.partition import entries_of, offsets

AREA = 0.999  # AUC of a feature, or of its negative, from which it is reported
ENOUGH = 20  # labels with fewer rows, or with fewer rows without them, are not checked
POSITIVE, OTHER = 24, 128  # sizes of the samples, in rows
CANDIDATES = 4  # features of a label that are checked in all rows
DOING = "searching for features that alone determine a label"
CHECKED, SHOWN = 32, 5  # pairs of a label and a feature that are checked in all rows, and lines that are logged


def warn_about_leaks(
    comm: mpi.Comm,
    dataset: DataFile,
    shard: Shard,
    labels: np.ndarray,
    names: list[str],
    n_positive: np.ndarray,
    headings: Headings | None,
    log: Log,
) -> None:
    """Warn about features that determine one of the labels; `n_positive` is of all labels. Collective over `comm`."""
    checked = np.flatnonzero(np.minimum(n_positive[labels], shard.n_global - n_positive[labels]) >= ENOUGH)
    if not checked.size or not shard.n_features:
        return
    pairs = [
        (position, feature)
        for position, feature in _find_candidates(comm, dataset, shard, labels[checked], n_positive)
        if headings is None or not headings.hides(int(labels[checked[position]]), np.array([feature]))[0]
    ]
    leaks = []
    for position, feature in pairs[:CHECKED]:
        area = auc_of_feature(comm, shard, int(labels[checked[position]]), feature)
        if max(area, 1.0 - area) >= AREA:
            leaks.append((names[checked[position]], feature, max(area, 1.0 - area)))
    if not leaks:
        return
    features = np.array([feature for _, feature, _ in leaks])
    feature_names = mpi.run_on_root(comm, f"reading the features of {dataset.path}", lambda: read_feature_names(dataset, features))
    for number, (label, feature, area) in enumerate(leaks[:SHOWN]):
        name = f"feature {feature}" if feature_names is None else f"feature {named(feature_names[number], 40)!r}"
        why = f"alone determines label {named(label, 40)!r} (AUC {area:.4f} on the training rows)"
        log(f"warning: {name} {why}; it may leak the label: remove it unless it is known before the label")
    if len(leaks) > SHOWN:
        minimum = "at least " if len(pairs) > CHECKED else ""
        log(f"warning: the same holds for {minimum}{plural(len(leaks) - SHOWN, 'further pair')} of a feature and a label")


def warn_about_class_leaks(comm: mpi.Comm, dataset: DataFile, split: str, names: list[str], log: Log) -> None:
    shard = load_shard(comm, dataset, split)
    all_names = mpi.run_on_root(comm, f"reading the labels of {dataset.path}", dataset.label_names)
    labels = np.array([all_names.index(name) for name in names], dtype=np.int64)
    warn_about_leaks(comm, dataset, shard, labels, names, count_positives(comm, shard), None, log)


def auc_of_feature(comm: mpi.Comm, shard: Shard, label: int, feature: int) -> float:
    with mpi.agreed(comm, DOING):
        values, has = np.zeros(shard.indptr.size - 1, np.float32), np.zeros(shard.indptr.size - 1, np.bool_)
        entries = np.flatnonzero(shard.indices == feature)
        values[np.searchsorted(shard.indptr, entries, side="right") - 1] = shard.data[entries]
        has[np.searchsorted(shard.y_indptr, np.flatnonzero(shard.y_indices == label), side="right") - 1] = True
        values, has = values[shard.rows], has[shard.rows]
    positives = np.sort(np.concatenate(mpi.allgather_arrays(comm, values[has])))
    negatives = np.sort(values[~has])
    below, above = (np.searchsorted(positives, negatives, side) for side in ("left", "right"))
    counts = np.array([2 * positives.size * negatives.size - int(below.sum()) - int(above.sum()), negatives.size])
    doubled, n_negative = mpi.allreduce_sum(comm, counts).tolist()
    return float(doubled / (2.0 * max(1, positives.size) * max(1, n_negative)))


def _find_candidates(
    comm: mpi.Comm, dataset: DataFile, shard: Shard, labels: np.ndarray, n_positive: np.ndarray
) -> list[tuple[int, int]]:
    with mpi.agreed(comm, DOING):
        rows = shard.first_row + shard.rows
        draws = rng.uniform(0, "rows that may tell an answer", rows)  # one draw per row, for all labels
        position_of = np.full(shard.n_labels, -1)
        position_of[labels] = np.arange(labels.size)
        sizes, entries = entries_of(shard.y_indptr, shard.rows)
        row_positions, label_positions = np.repeat(np.arange(rows.size), sizes), position_of[shard.y_indices[entries]]
        common = 2 * n_positive[labels] > shard.n_global  # labels that more than half of the rows have
        without_label = [
            np.flatnonzero(np.bincount(row_positions[label_positions == position], minlength=rows.size) == 0)
            for position in np.flatnonzero(common)
        ]
        rest = np.flatnonzero((label_positions >= 0) & ~common[label_positions])
        n_without = [each.size for each in without_label]
        label_positions = np.concatenate([label_positions[rest], np.repeat(np.flatnonzero(common), n_without)])
        row_positions = np.concatenate([row_positions[rest], *without_label])
        sizes = np.where(common, shard.n_global - n_positive[labels], n_positive[labels])
        is_other = draws < OTHER / shard.n_global
    samples = []  # sampled rows of all ranks by label: bounds (labels + 1), and the rows
    for is_sampled in (draws[row_positions] < POSITIVE / sizes[label_positions], is_other[row_positions]):
        own = (label_positions[is_sampled], rows[row_positions[is_sampled]])
        position, sampled = (np.concatenate(mpi.allgather_arrays(comm, part)) for part in own)
        samples.append((offsets(np.bincount(position, minlength=labels.size)), sampled[np.argsort(position, kind="stable")]))
    positives, (begins, having) = samples
    others = np.concatenate(mpi.allgather_arrays(comm, rows[is_other]))
    own_labels = np.arange(comm.rank, labels.size, comm.size)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        csr = tuple(dataset.map(f"X/{part}") for part in ("indptr", "indices", "data"))
        counts, values = entries_of(csr[0], others)
        matrix = sp.csr_matrix((csr[2][values], csr[1][values], offsets(counts)), (others.size, shard.n_features)).tocsc()
        matrix.eliminate_zeros()
        by_feature = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
        frequent = np.argsort(-np.diff(by_feature[0]), kind="stable")
        sample = (by_feature, (begins, np.searchsorted(others, having)), others.size)
        candidates, areas = np.empty((own_labels.size, CANDIDATES), np.int64), np.empty((own_labels.size, CANDIDATES))
    with mpi.node_first(comm):
        kernels.extreme_features(csr, positives, sample, frequent, own_labels[:0], candidates, areas)
    with mpi.agreed(comm, DOING):
        kernels.extreme_features(csr, positives, sample, frequent, own_labels, candidates, areas)
        is_found = candidates >= 0
        pairs = np.repeat(own_labels, is_found.sum(axis=1)), candidates[is_found], np.abs(areas[is_found] - 0.5)
    gathered = [np.concatenate(mpi.allgather_arrays(comm, part)) for part in pairs]
    order = np.lexsort((gathered[1], gathered[0], -gathered[2]))
    return list(zip(gathered[0][order].tolist(), gathered[1][order].tolist(), strict=True))
