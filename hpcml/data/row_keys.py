"""Keys of rows: 64-bit hashes that identify a record in every file that contains it.

The key of a row is a hash of its id or, without an id, of its content: the text of a document, or the features (by name, if they
have names) and their values. Splits, folds and samples are drawn by key, so a row keeps its side when other rows are added, removed
or reordered. Rows of one group share a group key, which replaces their own keys in all draws.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.kernels import row_keys as kernels

# Kinds of strings: equal strings of different kinds have different keys.
ID, TEXT, FEATURE, GROUP = b"id", b"text", b"feature", b"group"


def string_key(kind: bytes, *parts: str) -> int:
    content = ("\0".join(parts) + "\0").encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8, person=kind).digest(), "little")


def name_key(kind: bytes, name: str) -> int:
    """Return the key of an id or a group, 0 for an empty one; "7.0", an integer in a column with gaps, has the key of "7"."""
    number = name[:-2]
    return string_key(kind, number if name.endswith(".0") and number.isdecimal() else name) if name else 0


def string_keys(kind: bytes, values: Iterable[str]) -> np.ndarray:
    return np.array([string_key(kind, value) if value else 0 for value in values], dtype=np.uint64)


def feature_keys(names: Iterable[str] | None) -> np.ndarray:
    return np.zeros(0, np.uint64) if names is None else string_keys(FEATURE, names)


def content_keys(lengths: np.ndarray, indices: np.ndarray, data: np.ndarray, features: np.ndarray) -> np.ndarray:
    out = np.empty(lengths.size, np.uint64)
    values = np.ascontiguousarray(data, np.float32).view(np.uint32)
    kernels.hash_rows(lengths.astype(np.int64), indices.astype(np.int64), values, features, out)
    return out


def draw_keys(dataset: DataFile, rows: np.ndarray) -> np.ndarray:
    keys: np.ndarray = dataset.map("row_groups" if dataset.has_groups else "row_keys")[rows]
    return keys


def groups_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group rows with equal keys (uint64): return the begin of each group (n_groups + 1), and the rows, group after group."""
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.append(True, keys[order][1:] != keys[order][:-1])) if keys.size else np.zeros(0, np.int64)
    return np.append(first, keys.size), order


def flag_repeats(comm: mpi.Comm, keys: np.ndarray) -> np.ndarray:
    """Return a mask of the keys (uint64) that occur earlier, on this rank or a lower one. Collective over `comm`."""
    routing = mpi.Routing(comm, (keys % np.uint64(comm.size)).astype(np.int64))
    begins, rows = groups_of(routing.send(keys))
    is_repeat = np.ones(rows.size, bool)
    is_repeat[rows[begins[:-1]]] = False
    return routing.answer(is_repeat)


def find_key_values(comm: mpi.Comm, known: np.ndarray, values: np.ndarray, requested: np.ndarray) -> np.ndarray:
    """Return the largest value (int32 ≥ 0) of each requested key on any rank; −1 if unknown. Collective over `comm`."""
    size = np.uint64(comm.size)
    to_owner, to_ask = (mpi.Routing(comm, (keys % size).astype(np.int64)) for keys in (known, requested))
    keys, values, queries = to_owner.send(known), to_owner.send(values), to_ask.send(requested)
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    position = np.searchsorted(keys, queries, side="right") - 1
    is_known = np.zeros(queries.size, bool) if keys.size == 0 else (position >= 0) & (keys[position] == queries)
    answers: np.ndarray = np.where(is_known, values[position] if keys.size else 0, -1).astype(np.int32)
    return to_ask.answer(answers)
