"""exp, the logistic function and log(1 + exp) of lanes.

They use only additions, multiplications, fused multiply-adds and divisions, which IEEE 754 rounds exactly, so the bits are the same
on every machine and in every lane. They differ from `hpcml.kernels.elementary` (single numbers, no fused multiply-add, full range).
Arguments of exp are clipped to EXPONENTS, where nothing overflows and nothing is denormal.
"""

import math

from llvmlite import ir

from hpcml.kernels import elementary
from hpcml.kernels.lanes.write import DOUBLE, SINGLE, Lanes

EXPONENTS = {SINGLE: 80.0, DOUBLE: 700.0}
DEGREE = {SINGLE: 7, DOUBLE: 13}  # of exp's Taylor polynomial on |r| ≤ ½ log 2: relative errors 1e-8 and 1e-17
N_ODD = {SINGLE: 5, DOUBLE: 11}  # terms of 2 artanh(s) on |s| ≤ 0.172: 1e-9 and 1e-18
BITS = {SINGLE: 23, DOUBLE: 52}  # of the mantissa
LOG2_HIGH = {SINGLE: 0.693359375, DOUBLE: elementary.LOG2_HIGH}  # with few enough bits that a multiple of it is exact
LOG2_LOW = {SINGLE: -2.12194440054690583e-4, DOUBLE: elementary.LOG2_LOW}


def _polynomial(lanes: Lanes, x: ir.Value, coefficients: list[float]) -> ir.Value:
    total = lanes.constant(coefficients[0])
    for c in coefficients[1:]:
        total = lanes.fma(total, x, lanes.constant(c))
    return total


def exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    """exp(x), with x clipped to ±EXPONENTS."""
    builder, bits, most = lanes.builder, BITS[lanes.element], EXPONENTS[lanes.element]
    whole = ir.VectorType(ir.IntType(32 if lanes.element == SINGLE else 64), lanes.count)
    x = lanes.larger(lanes.constant(-most), lanes.smaller(lanes.constant(most), x))
    magic = lanes.constant(1.5 * 2.0**bits)  # adding it rounds to an integer, in the lowest bits
    shifted = lanes.fma(x, lanes.constant(elementary.PER_LOG2), magic)
    k = builder.fsub(shifted, magic)
    r = lanes.fma(k, lanes.constant(-LOG2_HIGH[lanes.element]), x)
    r = lanes.fma(k, lanes.constant(-LOG2_LOW[lanes.element]), r)
    power = _polynomial(lanes, r, [1.0 / math.factorial(n) for n in range(DEGREE[lanes.element], -1, -1)])
    exponent = builder.shl(builder.bitcast(shifted, whole), ir.Constant(whole, [bits] * lanes.count))
    return builder.bitcast(builder.add(builder.bitcast(power, whole), exponent), lanes.vector)


def sigmoid(lanes: Lanes, u: ir.Value) -> tuple[ir.Value, ir.Value]:
    """a = 1 / (1 + exp(−u)) and a (1 − a), both with full relative precision."""
    builder, one = lanes.builder, lanes.constant(1.0)
    e = exp(lanes, builder.fneg(u))
    a = builder.fdiv(one, builder.fadd(one, e))
    return a, builder.fmul(a, builder.fmul(a, e))


def softplus(lanes: Lanes, u: ir.Value) -> ir.Value:
    builder, zero, one = lanes.builder, lanes.constant(0.0), lanes.constant(1.0)
    t = exp(lanes, builder.fneg(lanes.call("fabs", u)))
    # log(1 + t) = 2 artanh(t / (2 + t)) or log 2 + 2 artanh((t − 1) / (t + 3)): the form with the smaller argument
    large = builder.fcmp_ordered(">", t, lanes.constant(math.sqrt(2.0) - 1.0))
    top = builder.select(large, builder.fsub(t, one), t)
    bottom = builder.fadd(t, builder.select(large, lanes.constant(3.0), lanes.constant(2.0)))
    s = builder.fdiv(top, bottom)
    odd = _polynomial(lanes, builder.fmul(s, s), [2.0 / (2 * n + 1) for n in range(N_ODD[lanes.element] - 1, -1, -1)])
    log = lanes.fma(odd, s, builder.select(large, lanes.constant(elementary.LOG2), zero))
    return builder.fadd(lanes.larger(zero, u), log)
