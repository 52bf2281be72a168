"""`hpcml duplicates`: near-duplicate rows of a dataset, and the consistency of its labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hpcml import mpi
from hpcml.data.dataset import DataFile, names_of
from hpcml.data.shard import load_shard
from hpcml.files.table import write_table
from hpcml.log import Log, plural
from hpcml.near_duplicates.consistency import PairLabels, measure_consistency
from hpcml.near_duplicates.pairs import COMPARED, WINDOW, Pairs, choose_bands, find_pairs
from hpcml.near_duplicates.report import Duplicates

STEPS = np.array([0.5, 0.8, 0.9, 0.95, 1.0])  # bins of the similarity histogram
COLUMNS = ("row", "other_row", "id", "other_id", "similarity", "counted", "labels", "other_labels", "common_labels")


def find_duplicates(comm: mpi.Comm, dataset: DataFile, split: str, similarity: float, output: Path | None, log: Log) -> Duplicates:
    """Return the pairs of rows with at least this similarity and the consistency of labels. Collective over `comm`. Raises
    ConfigError, DataError.
    """
    begin = time.monotonic()
    bands = choose_bands(similarity)
    shard = load_shard(comm, dataset, split, unlabelled=True)
    log(f"{dataset.path}: comparing {plural(shard.n_global, 'row')}")
    log.detail(f"{bands.number} bands of {bands.size} hashes")
    pairs = find_pairs(comm, dataset, shard, similarity, bands, log)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        rows = dataset.split(split) if dataset.n_unlabelled else np.zeros(0, np.int64)
        unlabelled = np.flatnonzero(np.isin(rows, dataset.labelled(rows), assume_unique=True, invert=True))
    labels, of_pairs = measure_consistency(comm, shard, pairs, unlabelled)
    steps = np.concatenate([[similarity], STEPS[similarity < STEPS]])
    counts = np.bincount(np.searchsorted(steps, pairs.similarity, "right") - 1, minlength=steps.size)
    sizes = [pairs.first.size, int(np.count_nonzero(of_pairs.counted)), *counts]
    _, (n_pairs, n_counted, *by_similarity) = mpi.exclusive_sum(comm, sizes)
    if pairs.n_limited:
        log(
            f"note: {pairs.n_limited:,} times, a bucket had more rows than each row is compared with ({WINDOW}), so pairs among "
            "very many similar rows may be missing"
        )
    if output is not None:
        _write_pairs(comm, dataset, split, pairs, of_pairs, output)
    return Duplicates(
        data=dataset.path,
        split=split,
        n_rows=shard.n_global,
        n_unlabelled=unlabelled.size,
        n_empty=pairs.n_empty,
        n_equal=pairs.n_equal,
        n_limited=pairs.n_limited,
        similarity=similarity,
        bands=bands,
        n_pairs=int(n_pairs),
        n_counted=int(n_counted),
        steps=steps.tolist(),
        by_similarity=[int(count) for count in by_similarity],
        label_names=dataset.label_names(),
        labels=labels,
        seconds=time.monotonic() - begin,
    )


def _write_pairs(comm: mpi.Comm, dataset: DataFile, split: str, pairs: Pairs, of_pairs: PairLabels, output: Path) -> None:
    """Write the pairs of all ranks, sorted by first rows. Collective over `comm`; raises DataError."""
    lines: list[Sequence[object]] = []

    def take(columns: list[np.ndarray]) -> None:
        (first, other), rest = (rows[positions] for positions in columns[:2]), columns[2:]
        ids = [names_of(dataset, each, "row_ids") or [""] * each.size for each in (first, other)]
        lines.extend(zip(first.tolist(), other.tolist(), *ids, *(column.tolist() for column in rest), strict=True))

    with mpi.agreed(comm, f"reading {dataset.path}"):
        rows = dataset.split(split) if comm.rank == 0 else np.zeros(0, np.int64)
    labels = (of_pairs.counted.astype(np.int64), of_pairs.of_first, of_pairs.of_other, of_pairs.common)
    columns = (pairs.first, pairs.other, pairs.similarity, *labels)
    begins = range(0, pairs.first.size, COMPARED)
    mpi.stream_to_root(comm, ([column[begin : begin + COMPARED] for column in columns] for begin in begins), take)
    with mpi.agreed(comm, f"writing {output}"):
        if comm.rank == 0:
            # Rows connected by pairs form a group, named by its first row.
            first, other = (np.array([line[column] for line in lines], dtype=np.int64) for column in (0, 1))
            numbers, row_numbers = np.unique(np.concatenate([first, other]), return_inverse=True)
            links = sp.coo_matrix((np.ones(first.size, np.int8), row_numbers.reshape(2, -1)), (numbers.size, numbers.size))
            _, component = connected_components(links, directed=False)
            smallest = np.full(numbers.size, np.iinfo(np.int64).max)
            np.minimum.at(smallest, component, numbers)
            groups = smallest[component[row_numbers[: first.size]]].tolist()
            write_table(output, [[*COLUMNS, "group"], *([*line, group] for line, group in zip(lines, groups, strict=True))])
