"""Upper bounds of scores: of rows for several labels, and of blocks of labels as saturating 16-bit sums of bytes times integers."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import score
from hpcml.kernels.lanes.write import I32, I64, by_width

BYTE, SHORT = ir.IntType(8), ir.IntType(16)
AT_ONCE = 32  # lanes of a vector, which LLVM splits into registers
LINE = 64  # bytes of a cache line
AHEAD = 8  # prefetch distance in lines
SUMS = 4  # vectors summed together


@by_width(widths=(AT_ONCE,))
def _add(lanes, table, lines, numbers, span, out, at):
    """out[at + l] = Σ numbers[i] table[lines[i], at + l] over begin ≤ i < end, for l < SUMS · lanes."""
    builder, bytes_, shorts = lanes.builder, ir.VectorType(BYTE, lanes.count), ir.VectorType(SHORT, lanes.count)
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(shorts, [shorts, shorts]), f"llvm.uadd.sat.v{lanes.count}i16"
    )
    sums = [lanes.variable(ir.Constant(shorts, [0] * lanes.count)) for _ in range(SUMS)]
    positions = [builder.add(at, I64(n * lanes.count)) for n in range(SUMS)]
    undefined, zeros = ir.Constant(shorts, ir.Undefined), ir.Constant(ir.VectorType(I32, lanes.count), [0] * lanes.count)
    with lanes.rows(*span) as (i, _):
        later = builder.add(i, I64(AHEAD))
        later = table.line(lines.index(builder.select(builder.icmp_signed("<", later, span[1]), later, i)))
        for position in positions[:: LINE // lanes.count]:
            later.prefetch(position, 3)
        line, number = table.line(lines.index(i)), builder.trunc(numbers.one(i), SHORT)
        number = builder.shuffle_vector(builder.insert_element(undefined, number, I32(0)), undefined, zeros)
        for total, position in zip(sums, positions, strict=True):
            levels = builder.zext(builder.load(line.at(position), align=1, typ=bytes_), shorts)
            builder.store(builder.call(add, [builder.load(total), builder.mul(levels, number)]), total)
    for total, position in zip(sums, positions, strict=True):
        builder.store(builder.load(total), out.at(position), align=2)


@njit
def add_levels(table, lines, numbers, begin, end, out):
    """out (T uint16) = min(65535, Σ numbers[i] table[lines[i]]); table (F, T) bytes, T a multiple of 128; numbers int32 ≤ 257."""
    for at in range(0, out.size, SUMS * AT_ONCE):
        _add(table, lines, numbers, (begin, end), out, at, AT_ONCE)


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
