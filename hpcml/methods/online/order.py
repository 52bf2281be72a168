"""Warnings of rows that these learners learn little from: rows in blocks of one label, and rows with wrong labels.

Wrong labels push every weight of a Winnow down, to its lower bound, for a mistake of either kind
multiplies by 1.5 and 0.5. Of generated rows with 10 to 50 % wrong labels a quarter or more of the
weights of `mbw` and `bw` end at the bound, with right ones 1 to 3 %; of texts at most 2 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.methods.online.kernels import LEAST, count_runs
from hpcml.methods.online.state import LearnerState, frozen

LEAST_RUNS = 16  # of fewer expected runs, few may be chance
RUN_SHARE = 4  # one run where chance makes so many tells of blocks; of 32 in 64 rows that happens once in 10¹⁰ times
ORDER, N_NUMBERS = "order", 4  # of each label in a checkpoint: rows, and what `RowOrder` counts
BOUND_SHARE, BOUND_LEAST = 0.1, 16  # of a label's weights, and how many, tell of labels that contradict one another
AVERAGE = "the average still holds what was learnt before"
AVERAGES = "averages the models on the way, and gets fewer rows wrong then"


class RowOrder:
    """Counts the runs of positive rows of this rank's labels, in the order of the pass.

    `runs`, `positives`, `last` (B each, int64): runs, positive rows and the place of the last.
    """

    def __init__(self, lane_of: np.ndarray, n_lanes: int) -> None:
        """`lane_of` gives the place of each label number among this rank's labels, or −1."""
        self.lane_of, self.n_rows = lane_of, 0
        self.runs, self.positives = np.zeros(n_lanes, dtype=np.int64), np.zeros(n_lanes, dtype=np.int64)
        self.last = np.full(n_lanes, -2, dtype=np.int64)

    def add(self, shard: Shard, rows: np.ndarray) -> None:
        """Count the runs of `rows` (positions in the shard), in this order."""
        labels = frozen(shard.y_indptr, shard.y_indices)
        count_runs(rows, *labels, self.lane_of, self.n_rows, self.last, self.runs, self.positives)
        self.n_rows += rows.size

    def pack(self) -> np.ndarray:
        """The numbers of each label for a checkpoint (B, N_NUMBERS)."""
        return np.column_stack([np.full(self.runs.size, self.n_rows), self.runs, self.positives, self.last])

    def restore(self, values: np.ndarray) -> None:
        """Go on from what `pack` gave."""
        self.n_rows = int(values[0, 0]) if len(values) else 0
        self.runs, self.positives, self.last = (np.ascontiguousarray(column) for column in values[:, 1:].T)

    def blocks(self, comm: mpi.Comm, names: list[str]) -> str:
        """Collective over `comm`. A sentence on labels (`names`, of all ranks) in blocks, or ""."""
        chance = self.positives * (self.n_rows - self.positives + 1) / max(1, self.n_rows)  # runs in random orders, on the average
        mine = np.stack([self.runs, self.positives, chance], axis=1)
        found = np.concatenate(mpi.allgather_arrays(comm, mine.reshape(-1))).reshape(-1, 3)
        runs, positives, expected = found.T
        blocks = np.flatnonzero((expected >= LEAST_RUNS) & (RUN_SHARE * runs < expected))
        if not blocks.size:
            return ""
        worst = int(blocks[np.argmin(runs[blocks] / expected[blocks])])
        return (
            f"the rows come sorted by label, or in blocks ({blocks.size:,} of {len(names):,} labels; the "
            f"{int(positives[worst]):,} rows with {names[worst]!r} in {int(runs[worst]):,} runs, where random order has about "
            f"{expected[worst]:,.0f}): what these learners learn depends on the order"
        )


def weights_at_bound(comm: mpi.Comm, names: Sequence[str], state: LearnerState) -> str:
    """Collective over `comm`. A sentence on labels (`names`, of all ranks) at the bound, or ""."""
    if not state.method.winnow:
        return ""
    n_vectors = len(state.method.weights)
    n_weights = n_vectors * (state.kept()[0].size + 1)
    columns = ([part * state.n_lanes + lane for part in range(n_vectors)] for lane in range(state.n_lanes))
    at_bound = [sum(int((state.weights[:, column] <= LEAST).sum()) for column in of_lane) for of_lane in columns]
    found = np.concatenate(mpi.allgather_arrays(comm, np.array(at_bound, dtype=np.int64)))
    many = np.flatnonzero((found >= BOUND_SHARE * n_weights) & (found >= BOUND_LEAST))
    if not many.size:
        return ""
    worst = int(many[np.argmax(found[many])])
    return (
        f"{int(found[worst]):,} of {n_weights:,} weights of {names[worst]!r} are at their bound of "
        f"2^{int(np.log2(LEAST))} (many are for {many.size:,} of {len(names):,} labels): rows contradict one another, "
        "as they do where labels are wrong"
    )
