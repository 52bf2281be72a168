"""Features that alone determine a label: each may be the answer in disguise.

For every label a sample of its rows is compared with a sample of other rows, feature by feature. If the AUC of a feature over all
rows is at least 0.999, the expectation of its AUC in the sample is so, too, and a feature below 0.98 there is left out. The AUC of
the few that remain is computed over all rows. Which rows are in the samples depends on the hash of their number alone, and all
counts are exact, so the result does not depend on the number of ranks.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from hpcml import mpi, rng
from hpcml.data.dataset import DataFile, names_of
from hpcml.data.headings import Headings
from hpcml.data.labels import count_positives
from hpcml.data.shard import Shard, load_shard
from hpcml.kernels import leaks as kernels
from hpcml.log import Log, named, plural
from hpcml.partition import entries_of, offsets

AREA = 0.999  # AUC, of the feature or of its negative, that is reported
ENOUGH = 20  # rows with and without a label
POSITIVE, OTHER = 24, 128  # rows of the samples
KEPT = 4  # features of a label that are looked at in all rows
DOING = "looking for features that alone determine a label"
CHECKED, SHOWN = 32, 5  # pairs of a label and a feature that are looked at in all rows, and lines


def warn_of_leaks(
    comm: mpi.Comm,
    dataset: DataFile,
    shard: Shard,
    labels: np.ndarray,
    names: list[str],
    n_positive: np.ndarray,
    headings: Headings | None,
    log: Log,
) -> None:
    """Report features that alone determine one of the labels (their numbers and names). Collective over `comm`.

    `n_positive` (n_labels of the dataset) counts the rows of the split with each label.
    """
    places = np.flatnonzero(np.minimum(n_positive[labels], shard.n_global - n_positive[labels]) >= ENOUGH)
    if not places.size or not shard.n_features:
        return
    pairs = [
        (place, feature)
        for place, feature in _suspects(comm, dataset, shard, labels[places], n_positive)
        if headings is None or not headings.hides(int(labels[places[place]]), np.array([feature]))[0]
    ]
    found = []
    for place, feature in pairs[:CHECKED]:
        area = auc_of_feature(comm, shard, int(labels[places[place]]), feature)
        if max(area, 1.0 - area) >= AREA:
            found.append((names[places[place]], feature, max(area, 1.0 - area)))
    if not found:
        return
    features = np.array([feature for _, feature, _ in found])
    of_features = mpi.run_on_root(comm, f"reading the features of {dataset.path}", lambda: names_of(dataset, features))
    for number, (label, feature, area) in enumerate(found[:SHOWN]):
        name = f"feature {feature}" if of_features is None else f"feature {named(of_features[number], 40)!r}"
        log(
            f"warning: {name} alone determines label {named(label, 40)!r} (AUC {area:.4f} on the training rows); it may be the "
            "answer in disguise: leave it out unless it is known before the label"
        )
    if len(found) > SHOWN:
        least = "at least " if len(pairs) > CHECKED else ""
        log(f"warning: the same holds for {least}{plural(len(found) - SHOWN, 'further pair')} of a feature and a label")


def warn_of_class_leaks(comm: mpi.Comm, dataset: DataFile, split: str, names: list[str], log: Log) -> None:
    """Report features that alone determine one of the labels of these names. Collective over `comm`."""
    shard = load_shard(comm, dataset, split)
    all_names = mpi.run_on_root(comm, f"reading the labels of {dataset.path}", dataset.label_names)
    labels = np.array([all_names.index(name) for name in names], dtype=np.int64)
    warn_of_leaks(comm, dataset, shard, labels, names, count_positives(comm, shard), None, log)


def auc_of_feature(comm: mpi.Comm, shard: Shard, label: int, feature: int) -> float:
    """Return the AUC of the values of a feature for a label, over all rows. Collective over `comm`."""
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


def _suspects(comm: mpi.Comm, dataset: DataFile, shard: Shard, labels: np.ndarray, n_positive: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of a label (its place in `labels`) and a feature, the most extreme in the samples first. Collective."""
    with mpi.agreed(comm, DOING):
        rows = shard.first_row + shard.rows
        draws = rng.uniform(0, "rows that may tell an answer", rows)  # of a row, the same for all labels
        place_of = np.full(shard.n_labels, -1)
        place_of[labels] = np.arange(labels.size)
        sizes, places = entries_of(shard.y_indptr, shard.rows)
        at, own = np.repeat(np.arange(rows.size), sizes), place_of[shard.y_indices[places]]
        common = 2 * n_positive[labels] > shard.n_global  # whose rows without the label are the rarer ones
        lacking = [np.flatnonzero(np.bincount(at[own == place], minlength=rows.size) == 0) for place in np.flatnonzero(common)]
        rest = np.flatnonzero((own >= 0) & ~common[own])
        own = np.concatenate([own[rest], np.repeat(np.flatnonzero(common), [each.size for each in lacking])])
        at = np.concatenate([at[rest], *lacking])
        sizes = np.where(common, shard.n_global - n_positive[labels], n_positive[labels])
        is_other = draws < OTHER / shard.n_global
    of_labels = []  # the sampled rows of all ranks by label: bounds (labels + 1), and the rows
    for taken in (draws[at] < POSITIVE / sizes[own], is_other[at]):
        place, sampled = (np.concatenate(mpi.allgather_arrays(comm, part)) for part in (own[taken], rows[at[taken]]))
        of_labels.append((offsets(np.bincount(place, minlength=labels.size)), sampled[np.argsort(place, kind="stable")]))
    positives, (begins, having) = of_labels
    others = np.concatenate(mpi.allgather_arrays(comm, rows[is_other]))
    mine = np.arange(comm.rank, labels.size, comm.size)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        csr = tuple(dataset.map(f"X/{part}") for part in ("indptr", "indices", "data"))
        counts, values = entries_of(csr[0], others)
        matrix = sp.csr_matrix((csr[2][values], csr[1][values], offsets(counts)), (others.size, shard.n_features)).tocsc()
        matrix.eliminate_zeros()
        by_feature = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
        frequent = np.argsort(-np.diff(by_feature[0]), kind="stable")
        sample = (by_feature, (begins, np.searchsorted(others, having)), others.size)
        found, areas = np.empty((mine.size, KEPT), np.int64), np.empty((mine.size, KEPT))
    with mpi.node_first(comm):
        kernels.extreme_features(csr, positives, sample, frequent, mine[:0], found, areas)
    with mpi.agreed(comm, DOING):
        kernels.extreme_features(csr, positives, sample, frequent, mine, found, areas)
        which = found >= 0
        pairs = np.repeat(mine, which.sum(axis=1)), found[which], np.abs(areas[which] - 0.5)
    of_all = [np.concatenate(mpi.allgather_arrays(comm, part)) for part in pairs]
    order = np.lexsort((of_all[1], of_all[0], -of_all[2]))
    return list(zip(of_all[0][order].tolist(), of_all[1][order].tolist(), strict=True))
