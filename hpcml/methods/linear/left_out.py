"""Leave-one-out scores of the labels that a solver finishes, counted in their records."""

from typing import Any

import numpy as np

from hpcml.kernels.lanes import WIDTHS
from hpcml.leave_one_out.cells import pack_counts
from hpcml.leave_one_out.scores import LabelWeights, LeaveOneOut
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import Finished, SparseWeightsOf, Turns
from hpcml.model.linear import mask_kept_weights
from hpcml.run.stop import Stop


def count_left_out(turns: Turns, risk: Risk, solver: Any, stop: Stop, drop: float) -> Turns:
    """Yield the finished labels of `turns` with the counts of their leave-one-out scores.

    `solver` has `labels` (numbers in the data) and `costs_of`; weights below `drop` are not stored.
    Collective over the group; raises as the solver.
    """
    sink = LeaveOneOut(risk.rows, risk.slices)

    def as_stored(done: Finished) -> LabelWeights:
        if isinstance(done.w, SparseWeightsOf):
            columns, weights, intercept = done.w
            columns = columns.astype(np.int64, copy=False)  # one type: compiled once
        else:
            weights, intercept = (done.w[:-1], float(done.w[-1])) if risk.rows.bias else (done.w, 0.0)
            columns = None
        weights = np.ascontiguousarray(weights, risk.weight_type)  # those of a lane are far apart
        kept = np.flatnonzero(mask_kept_weights(weights, drop))
        number = int(solver.labels[done.label])
        above = None if drop or done.above is None else done.above.astype(np.int64, copy=False)
        return LabelWeights(
            number, solver.costs_of(number), kept if columns is None else columns[kept], weights[kept], intercept, above
        )

    for finished in turns:
        copies: dict[int, list[Finished]] = {}  # labels with the same rows have the same array
        for done in finished:
            copies.setdefault(id(done.w), []).append(done)
        groups = list(copies.values())
        for first in range(0, len(groups), WIDTHS[-1]):
            block = groups[first : first + WIDTHS[-1]]
            with risk.profile("scores"):
                counts = map(pack_counts, sink.count([as_stored(group[0]) for group in block], stop.slices))
            yield [done._replace(scores=each, above=None) for group, each in zip(block, counts, strict=True) for done in group]
        if not groups:
            yield []
