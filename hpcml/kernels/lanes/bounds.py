"""Upper bounds of scores: of rows for several labels, and of cells of labels as sums of 8-bit levels times numbers."""

from llvmlite import ir
from numba import types

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import score
from hpcml.kernels.lanes.write import DOUBLE, I32, I64, by_width

BYTES = ir.VectorType(ir.IntType(8), 16)
TILE = 64  # cells whose levels fill a cache line


@by_width(types.float64, widths=(16,), of=4)
def add_levels(lanes, table, lines, numbers, span, sums, row, at, bases, slopes):
    """sums[row, at + a] += Σ numbers[i] table[lines[i], a] over begin ≤ i < end, for a < TILE; table (F, TILE) int8, sums float32.

    Return the largest sums[row, at + a] slopes[at + a] + bases[at + a].
    """
    builder, sums = lanes.builder, sums.line(row)
    offsets = [I64(offset) for offset in range(0, TILE, lanes.count)]
    totals = [lanes.variable(sums.lanes(builder.add(at, offset))) for offset in offsets]
    with lanes.rows(*span) as (i, _):
        line, number = table.line(lines.index(i)), lanes.splat(numbers.one(i))
        for total, offset in zip(totals, offsets, strict=True):
            levels = builder.sitofp(builder.load(line.at(offset), align=1, typ=BYTES), lanes.vector)
            builder.store(lanes.fma(levels, number, builder.load(total)), total)
    largest = lanes.constant(float("-inf"))
    for total, offset in zip(totals, offsets, strict=True):
        position = builder.add(at, offset)
        sums.put(position, builder.load(total))
        largest = lanes.larger(largest, lanes.fma(builder.load(total), slopes.lanes(position), bases.lanes(position)))
    values = [builder.extract_element(largest, I32(lane)) for lane in range(lanes.count)]
    single = lanes.of(lanes.element)
    while len(values) > 1:
        values = [single.larger(*pair) for pair in zip(values[::2], values[1::2], strict=True)]
    return builder.fpext(values[0], DOUBLE)


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
