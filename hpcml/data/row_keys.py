"""Keys of rows: 64-bit hashes that identify a record in every file that contains it.

The key of a row is a hash of its id or, without an id, of its content: the text of a document, or the features (by name, if they
have names) and their values. Splits, folds and samples are drawn by key, so a row keeps its side when other rows are added, removed
or reordered. Rows of one group have a second key in common, which takes the place of the first in all draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from hpcml import mpi
from hpcml.kernels import row_keys as kernels
from hpcml.mpi.routing import Routing

if TYPE_CHECKING:
    from hpcml.data.dataset import DataFile

ID, TEXT, FEATURE, GROUP = b"id", b"text", b"feature", b"group"  # what a string is: equal strings of two kinds differ


def string_key(kind: bytes, *parts: str) -> int:
    """Return the key of a record that these strings identify; where one ends matters."""
    content = ("\0".join(parts) + "\0").encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8, person=kind).digest(), "little")


def name_key(kind: bytes, name: str) -> int:
    """Return the key of an id or a group, 0 for an empty one; 7.0, as tables write whole numbers with gaps, is 7."""
    number = name[:-2]
    return string_key(kind, number if name.endswith(".0") and number.isdecimal() else name) if name else 0


def string_keys(kind: bytes, values: Iterable[str]) -> np.ndarray:
    """Return the keys (uint64) of strings; 0 for an empty one."""
    return np.array([string_key(kind, value) if value else 0 for value in values], dtype=np.uint64)


def feature_keys(names: Iterable[str] | None) -> np.ndarray:
    """Return the keys (uint64) of named features; an empty array if numbers identify them."""
    return np.zeros(0, np.uint64) if names is None else string_keys(FEATURE, names)


def content_keys(lengths: np.ndarray, indices: np.ndarray, data: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the keys (uint64) of rows of `lengths` values; `features` as `feature_keys`."""
    out = np.empty(lengths.size, np.uint64)
    values = np.ascontiguousarray(data, np.float32).view(np.uint32)
    kernels.hash_rows(lengths.astype(np.int64), indices.astype(np.int64), values, features, out)
    return out


def draw_keys(dataset: DataFile, rows: np.ndarray) -> np.ndarray:
    """Return the keys (uint64) by which rows are drawn: of their groups, else of the rows. Local."""
    keys: np.ndarray = dataset.map("row_groups" if dataset.has_groups else "row_keys")[rows]
    return keys


def groups_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows by group: where each group begins (n_groups + 1), and the rows, group after group.

    Rows with equal `keys` (uint64) are one group.
    """
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.append(True, keys[order][1:] != keys[order][:-1])) if keys.size else np.zeros(0, np.int64)
    return np.append(first, keys.size), order


def look_up(comm: mpi.Comm, known: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Collective over `comm`. Return the value (int32) of each wanted key; -1 for an unknown one.

    Each rank gives a part of the `known` keys with their `values` (int32, not negative), and keys
    of its own. A key with several values has the largest.
    """
    size = np.uint64(comm.size)
    there, asking = (Routing(comm, (keys % size).astype(np.int64)) for keys in (known, wanted))
    keys, values, asked = there.send(known), there.send(values), asking.send(wanted)
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    place = np.searchsorted(keys, asked, side="right") - 1
    hit = np.zeros(asked.size, bool) if keys.size == 0 else (place >= 0) & (keys[place] == asked)
    answers: np.ndarray = np.where(hit, values[place] if keys.size else 0, -1).astype(np.int32)
    return asking.answer(answers)
