"""Dual coordinate descent for the labels of a panel ("lanes") at once (Hsieh et al. 2008, Algorithm 1, for every lane).

A row's margins with all lanes take one sweep over its non-zeros, the lanes' steps a few vector instructions, and a second sweep
adds them to the weights if any lane moved. What happens in a lane depends on nothing in the others: which rows a lane still
looks at is a bit of its own, so its numbers are the same whatever labels are beside it.

Weights `w` (d lanes) and duals `alpha` (n lanes) are flat, float32 or float64; `positive` and `active` (n) uint16 have a bit per
lane. `rules` (N_RULES, lanes) holds what differs between lanes.
"""

import numpy as np
from llvmlite import ir

from hpcml.kernels import njit
from hpcml.kernels.vector import (
    I64,
    _array,
    _load,
    _splat,
    _store,
    _vector_at,
    add_lines,
    ask,
    cgutils,
    dot_rows,
    intrinsic,
    types,
)
from hpcml.methods.dual.visit_kernels import DIAGONAL_POSITIVE, TOP_POSITIVE, visit

# Rows of `sums`: of positive rows, and of negative ones in the next row; the rest of all rows.
SHORT, SHORT_SQUARED, MOVED_SHORT, MOVED_SHORT_SQUARED, ALPHA_SQUARED = range(0, 10, 2)
ALPHA, MOST, LEAST, N_SUMS = range(10, 14)
TILE = 64


@njit
def shuffle(rows, bounds, chunks, key):
    """Order the rows 0 .. n − 1 at random, by `key` (uint64): the chunks bounds[c] .. bounds[c + 1] − 1, and the rows in each.

    rows (n) int32 or int64, chunks (n_chunks) int64 is scratch.
    """
    state = key
    for c in range(chunks.size):
        chunks[c] = c
    for c in range(chunks.size - 1, 0, -1):
        state, drawn = _draw(state, c + 1)
        chunks[c], chunks[drawn] = chunks[drawn], chunks[c]
    place = 0
    for c in chunks:
        size = bounds[c + 1] - bounds[c]
        for i in range(size):
            rows[place + i] = bounds[c] + i
        for i in range(size - 1, 0, -1):
            state, drawn = _draw(state, i + 1)
            rows[place + i], rows[place + drawn] = rows[place + drawn], rows[place + i]
        place += size


@njit
def _draw(state, n):
    """The next state (splitmix64) and a number below n."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit
def looked_at(order, active, rows):
    """Put those of the rows in `order` that some lane looks at into `rows`, in this order; how many they are."""
    n = 0
    for i in order:
        if active[i] != 0:
            rows[n] = i
            n += 1
    return n


@njit
def pack(indptr, indices, data, kept, to_indptr, to_indices, to_data):
    """Copy the rows that are `kept` (n) bool; the others have no values in the copy. to_indptr (n + 1) is written, too."""
    place = 0
    for i in range(kept.size):
        to_indptr[i] = place
        if kept[i]:
            for k in range(indptr[i], indptr[i + 1]):
                to_indices[place], to_data[place] = indices[k], data[k]
                place += 1
    to_indptr[kept.size] = place


@intrinsic(prefer_literal=True)
def _not_zero(typing, values, at, lanes):
    """A bit for each of values[at] .. values[at + lanes − 1] that is not 0."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    count = lanes.literal_value

    def emit(context, builder, signature, args):
        pointer, _ = _array(context, builder, signature, args, 0)
        vector = ir.VectorType(pointer.type.pointee, count)
        some = _load(builder, _vector_at(builder, pointer, args[1], vector), vector.element)
        some = builder.fcmp_unordered("!=", some, ir.Constant(vector, [0.0] * count))
        return builder.zext(builder.bitcast(some, ir.IntType(count)), I64)

    return types.int64(values, types.int64, lanes), emit


@njit
def support(alpha, width, lanes, active):
    """Set the bits of `active` (n) for the lanes < `lanes` of a panel of `width` whose dual of the row is not 0."""
    all_lanes = (1 << lanes) - 1
    for i in range(active.size):
        if width == 16:
            bits = _not_zero(alpha, i * 16, 16)
        elif width == 8:
            bits = _not_zero(alpha, i * 8, 8)
        elif width == 4:
            bits = _not_zero(alpha, i * 4, 4)
        elif width == 2:
            bits = _not_zero(alpha, i * 2, 2)
        else:
            bits = _not_zero(alpha, i, 1)
        active[i] = bits & all_lanes


@njit
def epoch(indptr, indices, data, rows, norms, w, alpha, positive, active, rules, gradients, counts, lanes, ahead):
    """Visit `rows`, in this order; `norms` (of all rows) are ‖x_i‖².

    w, alpha, rules, gradients and counts are flat. What a row needs is asked for while rows before it are at work; with `ahead`
    its weights are, too: worth while if they do not fit the second-level cache.
    """
    n = rows.size
    for r in range(n):
        i = rows[r]
        begin, end = indptr[i], indptr[i + 1]
        if r + 6 < n:
            ask(indptr, rows[r + 6], 1)
        if r + 3 < n:
            far = rows[r + 3]
            for k in range(indptr[far], indptr[far + 1], 16):
                ask(indices, k, 1)
                ask(data, k, 1)
            ask(alpha, np.int64(far) * lanes, 1)
            ask(norms, far, 1)
            ask(positive, far, 1)
            ask(active, far, 1)
        if ahead and r + 1 < n:
            near = rows[r + 1]
            for k in range(indptr[near], indptr[near + 1]):
                ask(w, np.int64(indices[k]) * lanes, 2)
        at, p, a = i * lanes, positive[i], active[i]
        if lanes == 16:
            live = visit(indices, data, begin, end, w, alpha, at, norms[i], p, a, rules, gradients, counts, 16)
        elif lanes == 8:
            live = visit(indices, data, begin, end, w, alpha, at, norms[i], p, a, rules, gradients, counts, 8)
        elif lanes == 4:
            live = visit(indices, data, begin, end, w, alpha, at, norms[i], p, a, rules, gradients, counts, 4)
        elif lanes == 2:
            live = visit(indices, data, begin, end, w, alpha, at, norms[i], p, a, rules, gradients, counts, 2)
        else:
            live = visit(indices, data, begin, end, w, alpha, at, norms[i], p, a, rules, gradients, counts, 1)
        active[i] = live


@intrinsic(prefer_literal=True)
def _signed(typing, alpha, at, positive, slopes, place, lanes):
    """slopes[place + l] = y alpha[at + l] as float64, l < lanes, with y by the bits of `positive`. Returns whether any is not 0."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    signature = types.boolean(alpha, types.int64, types.int64, slopes, types.int64, lanes)
    count = lanes.literal_value

    def emit(context, builder, signature, args):
        (ap, _), (sp, _) = (_array(context, builder, signature, args, n) for n in (0, 3))
        stored, doubles, bits = ap.type.pointee, ir.VectorType(ir.DoubleType(), count), ir.IntType(count)
        a = _load(builder, _vector_at(builder, ap, args[1], ir.VectorType(stored, count)), stored)
        a = a if stored == ir.DoubleType() else builder.fpext(a, doubles)
        is_positive = builder.bitcast(builder.trunc(args[2], bits), ir.VectorType(ir.IntType(1), count))
        signed = builder.select(is_positive, a, builder.fneg(a))
        _store(builder, signed, _vector_at(builder, sp, args[4], doubles), ir.DoubleType())
        some = builder.fcmp_ordered("!=", a, ir.Constant(doubles, [0.0] * count))
        return builder.icmp_unsigned("!=", builder.bitcast(some, bits), ir.Constant(bits, 0))

    return signature, emit


@njit
def combine(indptr, indices, data, alpha, positive, width, first, lanes, v):
    """v[j lanes + l] += Σ_i alpha y x_ij, in float64, of the lanes first .. first + lanes − 1 of a panel of `width`; lanes ≤ 8."""
    slopes, starts = np.empty(TILE * lanes), np.empty(TILE, np.int64)
    none, shifts = np.zeros(1, np.uint8), np.zeros(1)
    for tile in range(0, positive.size, TILE):
        n = 0
        for i in range(tile, min(tile + TILE, positive.size)):
            at, flags, place = i * width + first, np.int64(positive[i]) >> first, (i - tile) * lanes
            if lanes == 8:
                some = _signed(alpha, at, flags, slopes, place, 8)
            elif lanes == 4:
                some = _signed(alpha, at, flags, slopes, place, 4)
            elif lanes == 2:
                some = _signed(alpha, at, flags, slopes, place, 2)
            else:
                some = _signed(alpha, at, flags, slopes, place, 1)
            if some:
                starts[n] = place
                n += 1
        add_lines(indptr, indices, data, tile, starts[:n], slopes, none, shifts, v, lanes, False)


@intrinsic(prefer_literal=True)
def _keep_line(typing, v, at, w, to, sums, lanes):
    """w[to + l] = v[at + l], rounded to w's type; sums[l] += v[at + l]², sums[lanes + l] += w[to + l]², for l < lanes."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    signature = types.void(v, types.int64, w, types.int64, sums, lanes)
    count = lanes.literal_value

    def emit(context, builder, signature, args):
        (vp, _), (wp, _), (sp, _) = (_array(context, builder, signature, args, n) for n in (0, 2, 4))
        stored, double = wp.type.pointee, ir.DoubleType()
        doubles = ir.VectorType(double, count)
        exact = _load(builder, _vector_at(builder, vp, args[1], doubles), double)
        narrow = exact if stored == double else builder.fptrunc(exact, ir.VectorType(stored, count))
        _store(builder, narrow, _vector_at(builder, wp, args[3], narrow.type), stored)
        for row, value in enumerate((exact, exact if stored == double else builder.fpext(narrow, doubles))):
            place = _vector_at(builder, sp, I64(row * count), doubles)
            _store(builder, builder.fadd(_load(builder, place, double), builder.fmul(value, value)), place, double)
        return context.get_dummy_value()

    return signature, emit


@njit
def keep(v, lanes, w, width, first, sums):
    """Put v (d lanes, float64) into the lanes from `first` on of w (d width); sums (2 lanes): Σ v², and Σ w² as rounded."""
    sums[:] = 0.0
    for j in range(v.size // lanes):
        if lanes == 8:
            _keep_line(v, j * 8, w, j * width + first, sums, 8)
        elif lanes == 4:
            _keep_line(v, j * 4, w, j * width + first, sums, 4)
        elif lanes == 2:
            _keep_line(v, j * 2, w, j * width + first, sums, 2)
        else:
            _keep_line(v, j, w, j * width + first, sums, 1)


@intrinsic(prefer_literal=True)
def _judge(typing, z, alpha, at, positive, rules, shifts, sums, within, lanes):
    """Add a row, of scores z[at + l] and duals alpha[at + l], to `sums`; returns its bits of `near`. See `certify`."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    i64 = types.int64
    signature = types.int64(z, alpha, i64, i64, rules, shifts, sums, types.float64, lanes)
    count = lanes.literal_value

    def emit(context, builder, signature, args):
        (zp, _), (ap, _), (rp, _), (hp, _), (sp, _) = (_array(context, builder, signature, args, n) for n in (0, 1, 4, 5, 6))
        stored, double, bits = ap.type.pointee, ir.DoubleType(), ir.IntType(count)
        doubles = ir.VectorType(double, count)
        zero, one = (ir.Constant(doubles, [value] * count) for value in (0.0, 1.0))
        within = _splat(builder, args[7], doubles)

        def function(name):
            name = f"llvm.{name}.v{count}f64"
            return cgutils.get_or_insert_function(builder.module, ir.FunctionType(doubles, [doubles] * 2), name)

        larger, smaller = function("maxnum"), function("minnum")

        def wide(pointer, offset):
            value = _load(builder, _vector_at(builder, pointer, offset, ir.VectorType(stored, count)), stored)
            return value if stored == double else builder.fpext(value, doubles)

        def gather(row, value, pick=builder.fadd):
            pointer = _vector_at(builder, sp, I64(row * count), doubles)
            _store(builder, pick(_load(builder, pointer, double), value), pointer, double)

        is_positive = builder.bitcast(builder.trunc(args[3], bits), ir.VectorType(ir.IntType(1), count))

        def sides(row, value):
            gather(row, builder.select(is_positive, value, zero))
            gather(row + 1, builder.select(is_positive, zero, value))

        def rule(row):
            return builder.select(is_positive, wide(rp, I64(row * count)), wide(rp, I64((row + 1) * count)))

        a, top, diagonal = wide(ap, args[2]), rule(TOP_POSITIVE), rule(DIAGONAL_POSITIVE)
        score = _load(builder, _vector_at(builder, zp, args[2], doubles), double)
        past = builder.fsub(builder.select(is_positive, score, builder.fneg(score)), one)  # margin − 1
        shift = _load(builder, _vector_at(builder, hp, I64(0), doubles), double)
        moved = builder.fadd(past, builder.select(is_positive, shift, builder.fneg(shift)))
        for row, missing in ((SHORT, past), (MOVED_SHORT, moved)):
            short = builder.call(larger, [zero, builder.fneg(missing)])
            sides(row, short)
            sides(row + SHORT_SQUARED, builder.fmul(short, short))
        sides(ALPHA_SQUARED, builder.fmul(a, a))
        gather(ALPHA, a)
        gradient = builder.fadd(past, builder.fmul(diagonal, a))
        at_zero, at_top = builder.fcmp_ordered("==", a, zero), builder.fcmp_ordered("==", a, top)
        projected = builder.select(at_top, builder.call(larger, [gradient, zero]), gradient)
        projected = builder.select(at_zero, builder.call(smaller, [gradient, zero]), projected)
        gather(MOST, projected, lambda x, y: builder.call(larger, [x, y]))
        gather(LEAST, projected, lambda x, y: builder.call(smaller, [x, y]))
        far = builder.or_(
            builder.and_(at_zero, builder.fcmp_ordered(">", gradient, within)),
            builder.and_(at_top, builder.fcmp_ordered("<", gradient, builder.fneg(within))),
        )
        return builder.zext(builder.bitcast(builder.not_(far), bits), I64)

    return signature, emit


@njit
def scores(indptr, indices, data, w, out, lanes, ahead):
    """out[i lanes + l] = x_i · w_l, summed in float64, of all rows; `ahead` as in `epoch`."""
    n = indptr.size - 1
    z, rows = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, n, TILE):
        here = min(TILE, n - tile)
        dot_rows(indptr, indices, data, tile, rows[:here], w, z, lanes, ahead)
        for k in range(here * lanes):
            out[tile * lanes + k] = z[k]


@njit
def slopes(out, positive, costs, squared, moves, sums):
    """sums[g lanes + l] += the slope of Σ C ℓ in the intercept of lane l if that is moved by moves[g], from scores `out` (n lanes).

    costs (2 lanes): C of positive and of negative rows.
    """
    lanes = costs.size // 2
    own, sign = np.empty(lanes), np.empty(lanes)
    for i in range(positive.size):
        for lane in range(lanes):
            is_positive = (positive[i] >> lane) & 1
            sign[lane] = 1.0 if is_positive else -1.0
            own[lane] = costs[lane] if is_positive else -costs[lanes + lane]
        for g in range(moves.size):
            for lane in range(lanes):
                short = 1.0 - sign[lane] * (out[i * lanes + lane] + moves[g])
                if squared:
                    sums[g * lanes + lane] -= own[lane] * 2 * max(short, 0.0)
                else:
                    sums[g * lanes + lane] -= own[lane] if short > 0 else 0.0


@njit
def certify(z, alpha, positive, rules, shifts, near, sums, lanes, within):
    """Add to `sums` (N_SUMS lanes, flat) what the certificate of a panel needs from its scores z (n lanes, flat), in float64.

    Of positive and of negative rows: Σ (1 − margin)₊ and Σ (1 − margin)₊², the same with `shifts` (lanes) added to the scores, and
    Σ alpha²; Σ alpha; and the extremes of the projected gradient over all rows. `near` (n) gets a bit for every lane that a row may
    still move: its dual is not at a bound, or the gradient is less than `within` from driving it away.
    """
    for i in range(positive.size):
        at, flags = i * lanes, positive[i]
        if lanes == 16:
            near[i] = _judge(z, alpha, at, flags, rules, shifts, sums, within, 16)
        elif lanes == 8:
            near[i] = _judge(z, alpha, at, flags, rules, shifts, sums, within, 8)
        elif lanes == 4:
            near[i] = _judge(z, alpha, at, flags, rules, shifts, sums, within, 4)
        elif lanes == 2:
            near[i] = _judge(z, alpha, at, flags, rules, shifts, sums, within, 2)
        else:
            near[i] = _judge(z, alpha, at, flags, rules, shifts, sums, within, 1)


@njit
def norms(indptr, data, out):
    """out[i] = ‖x_i‖², summed in float64."""
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * np.float64(data[k])
        out[i] = total


@njit
def depart(indptr, indices, data, rows, start, alpha, w, lanes, lane):
    """Take the duals `start` (n) of `rows`, negative so far, back to 0 in one lane: they will be positive."""
    for i in rows:
        alpha[i * lanes + lane] = 0.0
        if start[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k] * lanes + lane] += start[i] * data[k]
