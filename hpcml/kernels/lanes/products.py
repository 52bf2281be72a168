"""Products of CSR rows with the weights of a panel, sums of rows into them, and prefetching."""

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from hpcml.kernels import njit
from hpcml.kernels.lanes import LINE
from hpcml.kernels.lanes.write import I64, Array, Lanes, by_width

FIRST_VALUES = 48  # values of a row that are prefetched unconditionally
TILE = 64  # rows


def use_values(
    lanes: Lanes, values: tuple[Array, Array], span: tuple[ir.Value, ir.Value], several: int, use: Callable[..., None]
) -> None:
    """Emit `use(index, value, n < several)` for each k in the span of `values` (indices, data), `several` at a time.

    The last group is filled with zeros, because a loop over it would be mispredicted.
    """
    (indices, data), (begin, end), builder = values, span, lanes.builder
    whole = builder.add(begin, builder.and_(builder.sub(end, begin), I64(-several)))
    with lanes.rows(begin, whole, several) as (k, _):
        for n in range(several):
            position = builder.add(k, I64(n))
            use(indices.index(position), data.one(position), n)
    with builder.if_then(builder.icmp_signed("<", whole, end)):
        use(indices.index(whole), data.one(whole), 0)
        for n in range(1, several - 1):
            position = builder.add(whole, I64(n))
            inside = builder.icmp_signed("<", position, end)
            position = builder.select(inside, position, whole)
            use(indices.index(position), builder.select(inside, data.one(position), ir.Constant(data.element, 0.0)), n)


def score(lanes: Lanes, values: tuple[Array, Array], span: tuple[ir.Value, ir.Value], w: Array, n_sums: int) -> list[ir.Value]:
    """Emit `n_sums` independent sums that together are Σ data[k] w[indices[k], :] over the span."""
    builder, count = lanes.builder, I64(lanes.count)
    sums = [lanes.variable(lanes.constant(0.0)) for _ in range(n_sums)]

    def add(index: ir.Value, value: ir.Value, n: int) -> None:
        weights = lanes.widened(w.lanes(builder.mul(index, count)))
        builder.store(lanes.fma(lanes.splat(value), weights, builder.load(sums[n])), sums[n])

    use_values(lanes, values, span, n_sums, add)
    return [builder.load(total) for total in sums]


@by_width(of=3)
def dot_row(lanes, values, span, w, out, at):
    """out[at + l] = Σ data[k] w[indices[k], l] over a span of `values` (indices, data), in the type of `out`."""
    out.put(at, lanes.builder.fadd(*score(lanes, values, span, w, 2)))


def _add(lanes, values, span, slopes, at, g, line, rounded=lambda index, addend: addend):
    """g[indices[k] width + first + l] += slopes[at + l] data[k] over a span of `values`; `line` is (first, width)."""
    (indices, data), (first, width), builder = values, line, lanes.builder
    slope = lanes.widened(slopes.lanes(at))
    with lanes.rows(*span) as (k, _):
        index = indices.index(k)
        addend = rounded(index, builder.fmul(slope, lanes.splat(data.one(k))))
        position = builder.add(builder.mul(index, width), first)
        g.put(position, builder.fadd(g.lanes(position), addend))


@by_width(of=4)
def add_line(lanes, values, span, slopes, at, g, line):
    _add(lanes, values, span, slopes, at, g, line)


@by_width(of=4, widths=(1, 2, 4, 8))
def _add_rounded(lanes, values, span, slopes, at, g, line, grids):
    """`_add` with addends rounded to the grid shift_of_level[levels[indices[k]]]; `grids` are (levels, shift_of_level)."""
    (levels, shift_of_level), builder = grids, lanes.builder

    def rounded(index, addend):
        shift = lanes.splat(shift_of_level.one(builder.zext(levels.one(index), I64)))
        return builder.fsub(builder.fadd(addend, shift), shift)

    _add(lanes, values, span, slopes, at, g, line, rounded)


@by_width(of=0)
def shrink(lanes, w, at, factor, by):
    """w[at + l] = sgn(w[at + l]) [factor |w[at + l]| − by]₊, with factor and by rounded to the type of w."""
    builder, zero, old = lanes.builder, lanes.constant(0.0), w.lanes(at)
    size = builder.fsub(builder.fmul(lanes.call("fabs", old), lanes.splat(factor)), lanes.splat(by))
    shrunk = builder.select(builder.fcmp_unordered(">", size, zero), size, zero)  # keeps NaN
    w.put(at, lanes.call("copysign", shrunk, old))


@by_width()
def add_scaled(lanes, out, matrix, row, column, x):
    """out[column + l] += x · matrix[row, column + l]."""
    builder = lanes.builder
    product = builder.fmul(lanes.splat(x), matrix.line(row).lanes(column))
    out.put(column, builder.fadd(out.lanes(column), product))


@by_width(widths=(1, 2))
def prefetch(lanes, array, index):
    """Prefetch the cache line of element `index` into the cache whose level is the last argument (1, 2); unchecked."""
    array.prefetch(index, 4 - lanes.count)


@njit
def prefetch_row(indices, data, begin, end):
    """Prefetch the non-zeros of a row into the L1 cache; the first ones unconditionally, because a loop would be mispredicted."""
    for k in range(0, FIRST_VALUES, 16):
        prefetch(indices, begin + k, 1)
        prefetch(data, begin + k, 1)
    for k in range(begin + FIRST_VALUES, end, 16):
        prefetch(indices, k, 1)
        prefetch(data, k, 1)


@njit
def dot_rows(indptr, indices, data, first, rows, w, z, lanes, ahead=False):
    """z[i lanes + l] = Σ_k data[k] w[indices[k] lanes + l] over row first + i, for i in `rows`; `ahead` prefetches weights."""
    for i in rows:
        begin, end = indptr[first + i], indptr[first + i + 1]
        if ahead and first + i + 2 < indptr.size:
            for k in range(end, indptr[first + i + 2]):
                prefetch(w, np.int64(indices[k]) * lanes, 2)
        dot_row((indices, data), (begin, end), w, z, i * lanes, lanes)


@njit
def score_rows(indptr, indices, data, w, lanes, out):
    """out[l, i] = x_i · w_l for CSR rows and `lanes` labels; w (d lanes) flat, out (lanes, n)."""
    n = indptr.size - 1
    z, rows = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, n, TILE):
        n_rows = min(TILE, n - tile)
        dot_rows(indptr, indices, data, tile, rows[:n_rows], w, z, lanes)
        for r in range(n_rows):
            for lane in range(out.shape[0]):
                out[lane, tile + r] = z[r * lanes + lane]


@njit
def add_lines(csr, first, starts, slopes, g, lanes, grids, rounded):
    """g[indices[k] lanes + l] += slopes[i lanes + l] data[k] over row first + i of `csr`, for selected rows i and lanes l.

    `starts` are the positions i lanes + l of the lines (min(lanes, 8) lanes) to add. With `rounded`, addends are rounded to
    `grids`.
    """
    (indptr, indices, data), size = csr, min(lanes, LINE)
    for at in starts:
        row, lane = first + at // lanes, at % lanes
        values, span, line = (indices, data), (indptr[row], indptr[row + 1]), (lane, lanes)
        if rounded:
            _add_rounded(values, span, slopes, at, g, line, grids, size)
        else:
            add_line(values, span, slopes, at, g, line, size)
