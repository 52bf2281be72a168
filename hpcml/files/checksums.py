"""Checksums of the arrays of a file, in blocks: written with the values, verified while they are read.

The checksum of a block is the sum modulo 2^64 of its 32-bit words, each times an odd factor that
depends on its place. So the change of a single word always shows, and ranks that write parts of a
block add their sums.
"""

from __future__ import annotations

import hashlib

import h5py
import numpy as np

from hpcml.kernels import checksums as kernels

GROUP = "checksums"
BLOCK = 1 << 16  # 32-bit words that have a checksum in common


def n_blocks(n_words: int) -> int:
    """Return the number of blocks of an array."""
    return -(-n_words // BLOCK)


def add_sums(values: np.ndarray, first: int, sums: np.ndarray) -> None:
    """Add entries from number `first` of an array to the checksums (uint64), of which the first is that of the block of `first`."""
    words = np.ascontiguousarray(values).view(np.uint32)
    at = first * (values.itemsize // 4)
    if words.size:
        kernels.add_sums(words, at, BLOCK, sums)


def blocks_of(data: h5py.Dataset, begin: int, end: int) -> tuple[int, int, int]:
    """Return the first and last + 1 of the blocks with entries begin..end, and the entries of a block."""
    per_block = BLOCK // (data.dtype.itemsize // 4)
    return begin // per_block, -(-end // per_block), per_block


def names(file: h5py.File) -> list[str]:
    """Return the names of the arrays of a file that have checksums. Raises what h5py raises."""
    found: list[str] = []
    if GROUP in file:
        file[GROUP].visititems(lambda name, part: found.append(name) if isinstance(part, h5py.Dataset) else None)
    return found


def fingerprint(file: h5py.File, more: str) -> str:
    """Return a digest of the checksums of all arrays, and of `more`. Raises what h5py raises."""
    digest = hashlib.sha256(more.encode("utf-8", "surrogatepass"))
    for name in names(file):
        digest.update(name.encode() + file[f"{GROUP}/{name}"][()].tobytes())
    return digest.hexdigest()
