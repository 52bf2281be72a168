"""exp, the logistic function and log(1 + exp) of vectors, in LLVM's own terms (see `vector`).

Only additions, multiplications, fused multiply-adds and divisions that IEEE 754 rounds, so the bits are the same on every machine
and in every lane. Arguments of exp are kept within EXPONENTS, where nothing overflows and nothing is denormal.
"""

import math

from llvmlite import ir

from hpcml.kernels.vector import cgutils

SINGLE, DOUBLE = ir.FloatType(), ir.DoubleType()
EXPONENTS = {SINGLE: 80.0, DOUBLE: 700.0}
DEGREE = {SINGLE: 7, DOUBLE: 13}  # of exp's Taylor polynomial on |r| ≤ ½ log 2: relative errors 1e-8 and 1e-17
N_ODD = {SINGLE: 5, DOUBLE: 11}  # terms of 2 artanh(s) on |s| ≤ 0.172: 1e-9 and 1e-18
BITS = {SINGLE: 23, DOUBLE: 52}  # of the mantissa
LOG2_HIGH = {SINGLE: 0.693359375, DOUBLE: 6.93147180369123816490e-01}  # with few enough bits that a multiple of it is exact
LOG2_LOW = {SINGLE: -2.12194440054690583e-4, DOUBLE: 1.90821492927058770002e-10}


class VectorMath:
    """Writes the instructions for vectors of `count` numbers of type `element`."""

    def __init__(self, builder, element, count):
        self.builder, self.element, self.count = builder, element, count
        self.vector = ir.VectorType(element, count)
        self.whole = ir.VectorType(ir.IntType(32 if element == SINGLE else 64), count)

    def constant(self, value):
        """A number, in every lane."""
        return ir.Constant(self.vector, [value] * self.count)

    def call(self, name, *given):
        """One of LLVM's functions: fma, maxnum, minnum, fabs."""
        kind = f"v{self.count}{'f32' if self.element == SINGLE else 'f64'}"
        signature = ir.FunctionType(self.vector, [self.vector] * len(given))
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.{kind}"), given)

    def _polynomial(self, x, coefficients):
        """Horner's rule; the coefficient of the highest power first."""
        total = self.constant(coefficients[0])
        for c in coefficients[1:]:
            total = self.call("fma", total, x, self.constant(c))
        return total

    def exp(self, x):
        """exp(x), for x within ±EXPONENTS the number nearest to x."""
        builder, bits, most = self.builder, BITS[self.element], EXPONENTS[self.element]
        x = self.call("maxnum", self.call("minnum", x, self.constant(most)), self.constant(-most))
        magic = self.constant(1.5 * 2.0**bits)  # a sum with it is rounded to a whole number, in its lowest bits
        shifted = self.call("fma", x, self.constant(1.0 / math.log(2.0)), magic)
        k = builder.fsub(shifted, magic)
        r = self.call("fma", k, self.constant(-LOG2_HIGH[self.element]), x)
        r = self.call("fma", k, self.constant(-LOG2_LOW[self.element]), r)
        power = self._polynomial(r, [1.0 / math.factorial(n) for n in range(DEGREE[self.element], -1, -1)])
        places = ir.Constant(self.whole, [bits] * self.count)
        exponent = builder.shl(builder.bitcast(shifted, self.whole), places)
        return builder.bitcast(builder.add(builder.bitcast(power, self.whole), exponent), self.vector)

    def sigmoid(self, u):
        """a = 1 / (1 + exp(−u)) and a (1 − a), both with full relative precision."""
        builder, one = self.builder, self.constant(1.0)
        e = self.exp(builder.fneg(u))
        a = builder.fdiv(one, builder.fadd(one, e))
        return a, builder.fmul(a, builder.fmul(a, e))

    def softplus(self, u):
        """log(1 + exp(u))."""
        builder, zero, one = self.builder, self.constant(0.0), self.constant(1.0)
        t = self.exp(builder.fneg(self.call("fabs", u)))
        # log(1 + t) = 2 artanh(t / (2 + t)), or log 2 + 2 artanh((t − 1) / (t + 3)), whichever is of a smaller number
        large = builder.fcmp_ordered(">", t, self.constant(math.sqrt(2.0) - 1.0))
        top = builder.select(large, builder.fsub(t, one), t)
        bottom = builder.fadd(t, builder.select(large, self.constant(3.0), self.constant(2.0)))
        s = builder.fdiv(top, bottom)
        odd = self._polynomial(builder.fmul(s, s), [2.0 / (2 * n + 1) for n in range(N_ODD[self.element] - 1, -1, -1)])
        log = self.call("fma", odd, s, builder.select(large, self.constant(math.log(2.0)), zero))
        return builder.fadd(self.call("maxnum", u, zero), log)
