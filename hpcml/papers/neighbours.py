"""Rows that are hard to tell from those of a label: their nearest neighbours (Wilbur 2000)."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.files.atomic import write_whole

BLOCK = 500  # rows whose cosines are in memory at a time


def nearest(X: sp.csr_matrix, positive: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
    """Of the rows `others` the n whose largest product with a row of `positive` is largest; equal
    ones in their order. X has rows of unit length.
    """
    columns = X[positive].T.tocsc()
    cosines = [(X[others[k : k + BLOCK]] @ columns).max(axis=1).toarray().ravel() for k in range(0, others.size, BLOCK)]
    return others[np.argsort(-np.concatenate(cosines), kind="stable")[:n]]


def write_neighbours(data: Path, source: Path, path: Path, label: str, sizes: tuple[int, int]) -> int:
    """Write those lines of `source` (JSON lines, .xz), of which `data` were made, that are the
    first rows with the label, and the rows without it that are nearest to them: as many as
    `sizes` says. Returns how many lines there are. Local; raises DataError.
    """
    with DataFile(data) as dataset:
        X = read_rows(dataset, np.arange(dataset.n_rows), dense=False)
        indptr, indices = dataset.map("Y/indptr"), dataset.map("Y/indices")
        has = np.zeros(dataset.n_rows, dtype=bool)
        number = dataset.label_names().index(label)
        has[np.repeat(np.arange(dataset.n_rows), np.diff(indptr))[indices == number]] = True
    positive = np.flatnonzero(has)[: sizes[0]]
    chosen = np.sort(np.concatenate([positive, nearest(X, positive, np.flatnonzero(~has), sizes[1])]))
    lines = lzma.decompress(source.read_bytes()).splitlines(keepends=True)
    write_whole(path, b"".join(lines[k] for k in chosen.tolist()))
    return int(chosen.size)
