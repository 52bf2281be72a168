"""What a visit to a row does in all lanes, as vector instructions (see `kernels`)."""

from llvmlite import ir

from hpcml.kernels.vector import (
    I64,
    _array,
    _element,
    _index,
    _load,
    _splat,
    _store,
    _vector_at,
    _widened,
    cgutils,
    intrinsic,
    types,
)

# Rows of `rules`: the bound of a dual and what the loss adds to the diagonal, for positive and negative rows; the projected
# gradients beyond which a dual at its bound is set aside; what the step of a row does to the weights of this rank (CoCoA+'s σ′);
# the size that a projected gradient must be beyond for a step.
TOP_POSITIVE, TOP_NEGATIVE, DIAGONAL_POSITIVE, DIAGONAL_NEGATIVE, HIGHEST, LOWEST, SIGMA, IGNORED, N_RULES = range(9)
MAXIMUM, MINIMUM = range(2)  # rows of `gradients`
ACTIVE, MOVED = range(2)  # rows of `counts`
SUMS = 4  # independent sums, so that one multiply-add need not wait for the one before


class _Visit:
    """Writes the instructions for one row."""

    def __init__(self, context, builder, signature, args, count):
        pairs = (_array(context, builder, signature, args, n) for n in (0, 1, 4, 5, 10, 11, 12))
        (self.ip, self.istride), (self.dp, self.dstride), *others = pairs
        self.wp, self.ap, self.rp, self.gp, self.cp = (pointer for pointer, _ in others)
        self.begin, self.end, self.at, self.norm, self.positive, self.active = (args[n] for n in (2, 3, 6, 7, 8, 9))
        self.builder, self.count, self.element = builder, count, self.wp.type.pointee
        self.vector, self.bits = ir.VectorType(self.element, count), ir.IntType(count)
        self.mask, self.numbers = ir.VectorType(ir.IntType(1), count), ir.VectorType(I64, count)
        self.zero, self.one, self.minus_one = (ir.Constant(self.vector, [value] * count) for value in (0.0, 1.0, -1.0))
        self.fma, self.larger, self.smaller = self._function("fma", 3), self._function("maxnum", 2), self._function("minnum", 2)

    def _function(self, name, n_args):
        kind = f"v{self.count}{'f32' if self.element == ir.FloatType() else 'f64'}"
        signature = ir.FunctionType(self.vector, [self.vector] * n_args)
        return cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.{kind}")

    def value(self, k):
        """The row's value k, in every lane."""
        value = _widened(self.builder, _element(self.builder, self.dp, self.dstride, k), self.element)
        return _splat(self.builder, value, self.vector)

    def weights(self, k):
        """Where the lanes' weights of its feature are."""
        index = _index(self.builder, self.ip, self.istride, k)
        return _vector_at(self.builder, self.wp, self.builder.mul(index, I64(self.count)), self.vector)

    def lanes_of(self, number):
        """The bits of a number, lane by lane."""
        return self.builder.bitcast(self.builder.trunc(number, self.bits), self.mask)

    def rule(self, row):
        """A row of `rules`."""
        return _load(self.builder, _vector_at(self.builder, self.rp, I64(row * self.count), self.vector), self.element)

    def gather(self, row, values, pick):
        """Bring an extreme of the gradients up to date."""
        place = _vector_at(self.builder, self.gp, I64(row * self.count), self.vector)
        _store(self.builder, self.builder.call(pick, [_load(self.builder, place, self.element), values]), place, self.element)

    def tally(self, row, flags):
        """Count lanes."""
        place, builder = _vector_at(self.builder, self.cp, I64(row * self.count), self.numbers), self.builder
        _store(builder, builder.add(_load(builder, place, I64), builder.zext(flags, self.numbers)), place, I64)

    def score(self):
        """The lanes' products of weights and row."""
        builder = self.builder
        sums = [cgutils.alloca_once_value(builder, self.zero) for _ in range(SUMS)]
        for total in sums:
            builder.store(self.zero, total)

        def add(k, total):
            w_k = _load(builder, self.weights(k), self.element)
            builder.store(builder.call(self.fma, [self.value(k), w_k, builder.load(total)]), total)

        odd = builder.add(self.begin, builder.and_(builder.sub(self.end, self.begin), I64(SUMS - 1)))
        with cgutils.for_range_slice(builder, self.begin, odd, I64(1), I64) as (k, _):
            add(k, sums[0])
        with cgutils.for_range_slice(builder, odd, self.end, I64(SUMS), I64) as (k, _):
            for n, total in enumerate(sums):
                add(builder.add(k, I64(n)), total)
        parts = [builder.load(total) for total in sums]
        return builder.fadd(builder.fadd(parts[0], parts[1]), builder.fadd(parts[2], parts[3]))

    def project(self, gradient, a, top, is_active):
        """(the lanes that look at the row any more, their projected gradients; 0 in others)."""
        builder = self.builder
        at_zero, at_top = builder.fcmp_ordered("==", a, self.zero), builder.fcmp_ordered("==", a, top)
        aside = builder.or_(
            builder.and_(at_zero, builder.fcmp_ordered(">", gradient, self.rule(HIGHEST))),
            builder.and_(at_top, builder.fcmp_ordered("<", gradient, self.rule(LOWEST))),
        )
        live = builder.and_(is_active, builder.not_(aside))
        projected = builder.select(at_top, builder.call(self.larger, [gradient, self.zero]), gradient)
        projected = builder.select(at_zero, builder.call(self.smaller, [gradient, self.zero]), projected)
        return live, builder.select(live, projected, self.zero)

    def add_row(self, step):
        """Add the lanes' multiples of the row to the weights."""
        builder = self.builder
        with cgutils.for_range_slice(builder, self.begin, self.end, I64(1), I64) as (k, _):
            pointer = self.weights(k)
            w_k = _load(builder, pointer, self.element)
            _store(builder, builder.call(self.fma, [self.value(k), step, w_k]), pointer, self.element)

    def write(self):
        """The whole visit; what it returns."""
        builder, score = self.builder, self.score()
        is_positive, is_active = self.lanes_of(self.positive), self.lanes_of(self.active)
        top = builder.select(is_positive, self.rule(TOP_POSITIVE), self.rule(TOP_NEGATIVE))
        diagonal = builder.select(is_positive, self.rule(DIAGONAL_POSITIVE), self.rule(DIAGONAL_NEGATIVE))
        sign = builder.select(is_positive, self.one, self.minus_one)
        place = _vector_at(builder, self.ap, self.at, self.vector)
        a = _load(builder, place, self.element)
        gradient = builder.call(self.fma, [diagonal, a, builder.call(self.fma, [sign, score, self.minus_one])])
        live, projected = self.project(gradient, a, top, is_active)
        self.gather(MAXIMUM, projected, self.larger)
        self.gather(MINIMUM, projected, self.smaller)
        sigma = self.rule(SIGMA)
        curvature = builder.call(self.fma, [sigma, _splat(builder, self.norm, self.vector), diagonal])
        moved = builder.fsub(a, builder.fdiv(gradient, curvature))
        moved = builder.call(self.smaller, [builder.call(self.larger, [moved, self.zero]), top])
        size = builder.call(self.larger, [projected, builder.fneg(projected)])
        moved = builder.select(builder.fcmp_ordered(">", size, self.rule(IGNORED)), moved, a)
        moves = builder.fcmp_ordered("!=", moved, a)
        self.tally(ACTIVE, is_active)
        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(moves, self.bits), ir.Constant(self.bits, 0))):
            self.tally(MOVED, moves)
            step = builder.fmul(sigma, builder.fmul(sign, builder.fsub(moved, a)))
            _store(builder, moved, place, self.element)
            self.add_row(step)
        return builder.zext(builder.bitcast(live, self.bits), I64)


@intrinsic(prefer_literal=True)
def visit(typing, indices, data, begin, end, w, alpha, at, norm, positive, active, rules, gradients, counts, lanes):
    """Take a row (its non-zeros begin .. end − 1, its duals from alpha[at]) through the step of every active lane.

    Returns the lanes that look at the row any more, as bits. The gradients' extremes and the counts of active and moved lanes are
    brought up to date.
    """
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    i64 = types.int64
    signature = types.int64(indices, data, i64, i64, w, alpha, i64, w.dtype, i64, i64, rules, gradients, counts, lanes)

    def emit(context, builder, signature, args):
        return _Visit(context, builder, signature, args, lanes.literal_value).write()

    return signature, emit
