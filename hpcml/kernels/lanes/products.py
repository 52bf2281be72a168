"""Products of CSR rows with the weights of a panel, sums of rows into them, and requests for what comes next into the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from hpcml.kernels import njit
from hpcml.kernels.lanes import LINE
from hpcml.kernels.lanes.write import I64, Array, Lanes, by_width

FIRST_VALUES = 48  # of a row, that are asked for together
TILE = 64  # rows


def use_values(
    lanes: Lanes, values: tuple[Array, Array], span: tuple[ir.Value, ir.Value], several: int, use: Callable[..., None]
) -> None:
    """Write `use(index, value, n)` for the span begin ≤ k < end of `values` (indices, data), which
    are taken `several` at a time, n < several.

    The last ones are filled up with zeros at an index of the span: the processor would guess wrong
    how often a loop over them goes round.
    """
    (indices, data), (begin, end), builder = values, span, lanes.builder
    whole = builder.add(begin, builder.and_(builder.sub(end, begin), I64(-several)))
    with lanes.rows(begin, whole, several) as (k, _):
        for n in range(several):
            place = builder.add(k, I64(n))
            use(indices.index(place), data.one(place), n)
    with builder.if_then(builder.icmp_signed("<", whole, end)):
        use(indices.index(whole), data.one(whole), 0)
        for n in range(1, several - 1):
            place = builder.add(whole, I64(n))
            inside = builder.icmp_signed("<", place, end)
            place = builder.select(inside, place, whole)
            use(indices.index(place), builder.select(inside, data.one(place), ir.Constant(data.element, 0.0)), n)


def score(lanes: Lanes, values: tuple[Array, Array], span: tuple[ir.Value, ir.Value], w: Array, n_sums: int) -> list[ir.Value]:
    """`n_sums` sums that together are Σ data[k] w[indices[k], :] over the span begin ≤ k < end of
    `values` (indices, data): no multiply-add waits for the one before.
    """
    builder, count = lanes.builder, I64(lanes.count)
    sums = [lanes.variable(lanes.constant(0.0)) for _ in range(n_sums)]

    def add(index: ir.Value, value: ir.Value, n: int) -> None:
        weights = lanes.widened(w.lanes(builder.mul(index, count)))
        builder.store(lanes.fma(lanes.splat(value), weights, builder.load(sums[n])), sums[n])

    use_values(lanes, values, span, n_sums, add)
    return [builder.load(total) for total in sums]


@by_width(of=3)
def dot_row(lanes, values, span, w, out, at):
    """out[at + l] = Σ data[k] w[indices[k], l] over a span begin ≤ k < end of `values` (indices,
    data), in the type of `out`, which is that of w or wider.
    """
    out.put(at, lanes.builder.fadd(*score(lanes, values, span, w, 2)))


def _add(lanes, values, span, slopes, at, g, line, rounded=lambda index, addend: addend):
    """g[indices[k] width + first + l] += slopes[at + l] data[k] over a span begin ≤ k < end of
    `values` (indices, data) for l < lanes; `line` is (first, width).
    """
    (indices, data), (first, width), builder = values, line, lanes.builder
    slope = lanes.widened(slopes.lanes(at))
    with lanes.rows(*span) as (k, _):
        index = indices.index(k)
        addend = rounded(index, builder.fmul(slope, lanes.splat(data.one(k))))
        place = builder.add(builder.mul(index, width), first)
        g.put(place, builder.fadd(g.lanes(place), addend))


@by_width(of=4)
def add_line(lanes, values, span, slopes, at, g, line):
    """The sums of `_add`, not rounded."""
    _add(lanes, values, span, slopes, at, g, line)


@by_width(of=4, widths=(1, 2, 4, 8))
def _add_rounded(lanes, values, span, slopes, at, g, line, grids):
    """`_add` with every addend rounded to the grid shift_of_level[levels[indices[k]]]; `grids` are
    (levels, shift_of_level).
    """
    (levels, shift_of_level), builder = grids, lanes.builder

    def rounded(index, addend):
        shift = lanes.splat(shift_of_level.one(builder.zext(levels.one(index), I64)))
        return builder.fsub(builder.fadd(addend, shift), shift)

    _add(lanes, values, span, slopes, at, g, line, rounded)


@by_width(of=0)
def shrink(lanes, w, at, factor, by):
    """w[at + l] = sgn(w[at + l]) [factor |w[at + l]| − by]₊ for l < lanes, with factor and by
    rounded to the type of w.
    """
    builder, zero, old = lanes.builder, lanes.constant(0.0), w.lanes(at)
    size = builder.fsub(builder.fmul(lanes.call("fabs", old), lanes.splat(factor)), lanes.splat(by))
    kept = builder.select(builder.fcmp_unordered(">", size, zero), size, zero)  # not a number stays so
    w.put(at, lanes.call("copysign", kept, old))


@by_width()
def add_scaled(lanes, out, matrix, row, column, x):
    """out[column + l] += x · matrix[row, column + l] for l < lanes."""
    builder = lanes.builder
    product = builder.fmul(lanes.splat(x), matrix.line(row).lanes(column))
    out.put(column, builder.fadd(out.lanes(column), product))


@by_width(widths=(1, 2))
def ask(lanes, array, index):
    """Ask for the cache line of element `index` of a contiguous array, without waiting, into the cache whose level is the
    last argument (1, 2); unchecked.
    """
    array.ask(index, 4 - lanes.count)


@njit
def ask_row(indices, data, begin, end):
    """Ask for the non-zeros of a row, without waiting, into the first-level cache; of the first
    ones whether they are there or not, for the processor would guess wrong how many they are.
    """
    for k in range(0, FIRST_VALUES, 16):
        ask(indices, begin + k, 1)
        ask(data, begin + k, 1)
    for k in range(begin + FIRST_VALUES, end, 16):
        ask(indices, k, 1)
        ask(data, k, 1)


@njit
def dot_rows(indptr, indices, data, first, rows, w, z, lanes, ahead=False):
    """z[i lanes + l] = Σ_k data[k] w[indices[k] lanes + l] over the non-zeros of row first + i, for
    i in `rows`, l < lanes.

    With `ahead` the weights of the row behind each one are asked for before.
    """
    for i in rows:
        begin, end = indptr[first + i], indptr[first + i + 1]
        if ahead and first + i + 2 < indptr.size:
            for k in range(end, indptr[first + i + 2]):
                ask(w, np.int64(indices[k]) * lanes, 2)
        dot_row((indices, data), (begin, end), w, z, i * lanes, lanes)


@njit
def score_rows(indptr, indices, data, w, lanes, out):
    """out[l, i] = x_i · w_l for CSR rows and `lanes` labels; w (d lanes) flat, out (lanes, n)."""
    n = indptr.size - 1
    z, some = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, n, TILE):
        here = min(TILE, n - tile)
        dot_rows(indptr, indices, data, tile, some[:here], w, z, lanes)
        for r in range(here):
            for lane in range(out.shape[0]):
                out[lane, tile + r] = z[r * lanes + lane]


@njit
def add_lines(csr, first, starts, slopes, g, lanes, grids, rounded):
    """g[indices[k] lanes + l] += slopes[i lanes + l] data[k] over the non-zeros of row first + i
    of `csr` (indptr, indices, data), for some rows i and lanes l.

    `starts` are the places i lanes + l in `slopes` of the lines, of min(lanes, 8) lanes, to add.
    With `rounded` every addend is rounded to the grid shift_of_level[levels[indices[k]]] of its
    feature; `grids` are (levels, shift_of_level).
    """
    (indptr, indices, data), size = csr, min(lanes, LINE)
    for at in starts:
        row, lane = first + at // lanes, at % lanes
        values, span, line = (indices, data), (indptr[row], indptr[row + 1]), (lane, lanes)
        if rounded:
            _add_rounded(values, span, slopes, at, g, line, grids, size)
        else:
            add_line(values, span, slopes, at, g, line, size)
