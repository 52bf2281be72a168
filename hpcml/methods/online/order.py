"""Whether rows come in blocks of one label, of which a single pass learns little."""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.methods.online.kernels import count_runs
from hpcml.methods.online.state import frozen

LEAST_RUNS = 16  # of fewer expected runs, few may be chance
SHARE = 4  # one run where chance makes so many tells of blocks; of 32 in 64 rows that happens once in 10¹⁰ times
ORDER, N_NUMBERS = "order", 4  # of each label in a checkpoint: rows, and what `RowOrder` counts


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
        """Look at `rows` (positions in the shard), in this order."""
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

    def expected(self) -> np.ndarray:
        """The number of runs that random orders have on the average (B)."""
        return self.positives * (self.n_rows - self.positives + 1) / max(1, self.n_rows)

    def note(self, comm: mpi.Comm, names: list[str], is_stream: bool) -> str:
        """Collective over `comm`. A warning of these labels, with what to do about it, or ""."""
        found = self.blocks(comm, names)
        advice = "shuffle the lines first, for instance with shuf" if is_stream else "use --shuffle"
        return found and f"warning: {found}, and this progressive error tells nothing of other rows; {advice}"

    def blocks(self, comm: mpi.Comm, names: list[str]) -> str:
        """Collective over `comm`. A sentence on labels (`names`, of all ranks) in blocks, or ""."""
        mine = np.stack([self.runs, self.positives, self.expected()], axis=1)
        found = np.concatenate(mpi.allgather_arrays(comm, mine.reshape(-1))).reshape(-1, 3)
        runs, positives, expected = found.T
        blocks = np.flatnonzero((expected >= LEAST_RUNS) & (SHARE * runs < expected))
        if not blocks.size:
            return ""
        worst = int(blocks[np.argmin(runs[blocks] / expected[blocks])])
        return (
            f"the rows come sorted by label, or in blocks ({blocks.size:,} of {len(names):,} labels; the "
            f"{int(positives[worst]):,} rows with {names[worst]!r} in {int(runs[worst]):,} runs, where random order has about "
            f"{expected[worst]:,.0f}): what these learners learn depends on the order"
        )
