"""Which versions of citations stay: the last that files say, and of versions the highest.

What a file says is a key: the PMID, the version, and whether it is deleted. Keys are in the order
of the files. A part of the PMIDs at a time is sent to the ranks that decide about them, so that
memory does not grow with the number of citations.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.files.spool import Spool, slices
from hpcml.mpi.routing import Routing

VERSION_BITS = 20
RANGE_KEYS = 1 << 20  # that a rank decides about together


class Revisions:
    """The records of this rank's files, in order, outside of memory. Local; raises OSError."""

    def __init__(self, scratch: Path) -> None:
        self.spool = Spool(scratch, np.int64)
        self._waiting: list[int] = []

    def add(self, pmid: int, version: int, deleted: bool = False) -> None:
        """A version of a citation stands here, or is deleted."""
        self._waiting.append((pmid << VERSION_BITS | version) << 1 | deleted)
        if len(self._waiting) >= 1 << 16:
            self.close()

    def close(self) -> None:
        """Put away what waits."""
        self.spool.append(np.array(self._waiting, dtype=np.int64))
        self._waiting.clear()


def staying(keys: np.ndarray) -> np.ndarray:
    """Flags of keys (n, in order): last of its version, not deleted, of the highest version."""
    order = np.argsort(keys >> 1, kind="stable")
    ordered = keys[order]
    last = np.diff(ordered >> 1, append=-1) != 0
    alive = order[last & (ordered & 1 == 0)]  # ascending by PMID, then by version
    pmids = keys[alive] >> (VERSION_BITS + 1)
    flags = np.zeros(keys.size, dtype=bool)
    flags[alive[np.diff(pmids, append=-1) != 0]] = True
    return flags


def rows_that_stay(comm: mpi.Comm, revisions: Revisions) -> np.ndarray:
    """Collective over `comm`. A flag for each citation of this rank (not deletions), in order."""
    with mpi.agreed(comm, "looking for revisions"):
        revisions.close()
    spool = revisions.spool
    _, (total,) = mpi.exclusive_sum(comm, [spool.size])
    n_rounds = math.ceil(max(1, int(total)) / RANGE_KEYS / comm.size)
    flags = np.zeros(spool.size, dtype=bool)
    for number in range(n_rounds):
        with mpi.agreed(comm, "looking for revisions"):
            places, keys = _of_round(spool, number, n_rounds)
            routing = Routing(comm, (keys >> (VERSION_BITS + 1)) // n_rounds % comm.size)
        flags[places] = routing.answer(staying(routing.send(keys)))
    with mpi.agreed(comm, "looking for revisions"):
        deleted = [spool[some] & 1 == 1 for some in slices(spool.size)]
    return flags[~np.concatenate([np.zeros(0, dtype=bool), *deleted])]


def _of_round(spool: Spool, number: int, n_rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The places and the keys of the PMIDs of one round. Raises OSError."""
    places, found = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for some in slices(spool.size):
        keys = spool[some]
        chosen = np.flatnonzero((keys >> (VERSION_BITS + 1)) % n_rounds == number)
        places.append(some.start + chosen)
        found.append(keys[chosen])
    return np.concatenate(places), np.concatenate(found)
