"""Warnings about rows that single-pass learners learn little from: rows grouped by label, and rows with wrong labels.

Wrong labels push all weights of a Winnow to the lower bound, since each pair of opposite mistakes multiplies them by 1.5 · 0.5. On
generated rows with 10 to 50 % wrong labels, a quarter or more of the weights of `mbw` and `bw` end at the bound; with correct
labels 1 to 3 %, on texts at most 2 %.
"""

from collections.abc import Sequence

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.methods.online.kernels import LEAST, count_runs
from hpcml.methods.online.state import LearnerState, read_only

MIN_RUNS = 16  # expected runs below which few runs may be chance
# Labels with fewer runs than 1/4 of the expected number are reported. With 32 positive rows of 64, chance gives that once in 10¹⁰
# cases.
RUN_RATIO = 4
ORDER, N_NUMBERS = "order", 4  # name and width of the table of counts in a checkpoint
BOUND_SHARE, BOUND_MIN = 0.1, 16  # share and number of a label's weights at the bound that are reported
AVERAGE = "the average still contains the earlier weights"
AVERAGES = "averages the intermediate models and then makes fewer errors"


class RowOrder:
    """Counts runs of consecutive positive rows of a rank's labels; `last` is the position of the last positive row."""

    def __init__(self, lane_of: np.ndarray, n_lanes: int) -> None:
        """`lane_of` maps a label number to its index among this rank's labels, or −1."""
        self.lane_of, self.n_rows = lane_of, 0
        self.runs, self.positives = np.zeros(n_lanes, dtype=np.int64), np.zeros(n_lanes, dtype=np.int64)
        self.last = np.full(n_lanes, -2, dtype=np.int64)

    def add(self, shard: Shard, rows: np.ndarray) -> None:
        labels = read_only(shard.y_indptr, shard.y_indices)
        count_runs(rows, *labels, self.lane_of, self.n_rows, self.last, self.runs, self.positives)
        self.n_rows += rows.size

    def pack(self) -> np.ndarray:
        return np.column_stack([np.full(self.runs.size, self.n_rows), self.runs, self.positives, self.last])

    def restore(self, values: np.ndarray) -> None:
        self.n_rows = int(values[0, 0]) if len(values) else 0
        self.runs, self.positives, self.last = (np.ascontiguousarray(column) for column in values[:, 1:].T)

    def block_warning(self, comm: mpi.Comm, names: list[str]) -> str:
        """Return a sentence if rows are grouped by label, else "". `names`: of all ranks' labels. Collective over `comm`."""
        expected = self.positives * (self.n_rows - self.positives + 1) / max(1, self.n_rows)  # mean over random orders
        local = np.stack([self.runs, self.positives, expected], axis=1)
        runs, positives, expected = np.concatenate(mpi.allgather_arrays(comm, local.reshape(-1))).reshape(-1, 3).T
        blocks = np.flatnonzero((expected >= MIN_RUNS) & (RUN_RATIO * runs < expected))
        if not blocks.size:
            return ""
        worst = int(blocks[np.argmin(runs[blocks] / expected[blocks])])
        return (
            f"the rows are sorted or grouped by label ({blocks.size:,} of {len(names):,} labels; label {names[worst]!r}: "
            f"{int(positives[worst]):,} rows in {int(runs[worst]):,} runs, about {expected[worst]:,.0f} runs in random order); "
            "the result of these learners depends on the row order"
        )


def bound_warning(comm: mpi.Comm, names: Sequence[str], state: LearnerState) -> str:
    """Return a sentence if many weights are at the lower bound, else "". `names`: of all ranks' labels. Collective over `comm`."""
    if not state.method.winnow:
        return ""
    n_vectors = len(state.method.weights)
    n_weights = n_vectors * (state.model_features()[0].size + 1)
    columns = ([part * state.n_lanes + lane for part in range(n_vectors)] for lane in range(state.n_lanes))
    local = [sum(int((state.weights[:, column] <= LEAST).sum()) for column in lane_columns) for lane_columns in columns]
    at_bound = np.concatenate(mpi.allgather_arrays(comm, np.array(local, dtype=np.int64)))
    many = np.flatnonzero((at_bound >= BOUND_SHARE * n_weights) & (at_bound >= BOUND_MIN))
    if not many.size:
        return ""
    worst = int(many[np.argmax(at_bound[many])])
    return (
        f"{int(at_bound[worst]):,} of {n_weights:,} weights of label {names[worst]!r} are at their lower bound "
        f"2^{int(np.log2(LEAST))} ({many.size:,} of {len(names):,} labels affected): the rows contradict one another; "
        "check for wrong labels"
    )
