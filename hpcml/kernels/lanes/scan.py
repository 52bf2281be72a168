"""Upper bounds of the scores of all rows for several labels, and the rows whose bound reaches a threshold."""

from __future__ import annotations

from numba import types

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import score
from hpcml.kernels.lanes.write import I64, by_width


@by_width(of=1)
def _raise_line(lanes, values, w, span, bounds, at):
    """bounds[at + l] += Σ data[k] w[indices[k], l] over a span begin ≤ k < end of `values` (indices, data)."""
    parts, builder = score(lanes, values, span, w, 4), lanes.builder
    total = builder.fadd(builder.fadd(*parts[:2]), builder.fadd(*parts[2:]))
    bounds.put(at, builder.fadd(bounds.lanes(at), total))


@by_width(types.int64, of=0)
def _reach(lanes, bounds, at, thresholds):
    """The lanes, as bits, whose bound reaches its threshold or is NaN."""
    return lanes.number(lanes.builder.fcmp_unordered(">=", bounds.lanes(at), thresholds.lanes(I64(0))))


@njit
def raise_bounds(csr, ends, w, bounds, lanes):
    """bounds[i lanes + l] += Σ data[k] w[indices[k] lanes + l] over the values of row i of `csr` before ends[i]."""
    indptr, indices, data = csr
    for i in range(ends.size):
        _raise_line((indices, data), w, (indptr[i], ends[i]), bounds, i * lanes, lanes)


@njit
def rows_above(bounds, thresholds, lanes, counts, rows):
    """Write the ascending rows whose bounds (n lanes, flat) reach the lane's threshold to rows[l, : counts[l]]."""
    counts[:] = 0
    for i in range(bounds.size // lanes):
        bits = _reach(bounds, i * lanes, thresholds, lanes)
        lane = 0
        while bits:
            if bits & 1:
                rows[lane, counts[lane]] = i
                counts[lane] += 1
            bits >>= 1
            lane += 1
