"""exp, log and other functions of single numbers (float64), for kernels and for Python.

Library functions have different last bits on different processors and versions, because the C library and NumPy choose an
implementation by the processor's instructions. These functions use additions, multiplications, divisions and selections, which IEEE
754 defines exactly and LLVM neither fuses nor reorders, so the bits are the same everywhere, in scalar and vectorised loops. They
avoid fused multiply-add: without hardware support, the C library emulates it tens of times as slowly.

Arguments are reduced as in Cody & Waite (1980), by constants in two or three parts; the remainder goes into the Taylor series, and
the sum of its two largest terms keeps its rounding error (Dekker 1971). Errors are below 1 unit in the last place; 2 for `sigmoid`,
1 + |y log x| for `power`. `elementwise` has the same functions for arrays.
"""

import math

import numpy as np

from hpcml.kernels import njit

LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # few enough bits that integer multiples are exact
LOG2, PER_LOG2, _PER_LOG2_LOW = 0.6931471805599453, 1.4426950408889634, 2.0355273740931033e-17
_MAGIC = 1.5 * 2.0**52  # adding it rounds to an integer, in the lowest bits
_MAGIC_BITS = np.int64(0x4338000000000000)
_ROOT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_E = tuple(1.0 / math.factorial(n) for n in range(14))
_L = tuple(2.0 / (2 * n + 1) for n in range(11))  # 2 artanh(s) = Σ _L[n] s^(2n + 1), |s| < 0.172
_F = tuple((-1) ** n * 1.1283791670955126 / (math.factorial(n) * (2 * n + 1)) for n in range(20))  # of erf: 2/√π · …
_F0, _F0_LOW = 0.1283791670955126, -1.2420116002463032765e-17  # 2/√π − 1 and its rounding error
_F1_LOW = 1.3391897206030648759e-17  # rounding error of _F[1]
_TAIL_FROM, _TAIL_END = 0.8125, 28.0
# x exp(x²) erfc(x) as a polynomial of (x − 3)/(x + 3), interpolated at 22 Chebyshev nodes of 0.75 ≤ x ≤ 28
_T = (
    *(0.5370034535441699, 0.09530622695922802, -0.14658304803289116, 0.13988054760177007, -0.09546975030661636),
    *(0.046350263331279146, -0.01401982562656572, 0.0009108226896016733, 0.001242876166212415, -0.00041254380021045023),
    *(-8.460828180146072e-05, 6.898006549174017e-05, 6.464331038987574e-06, -1.11111419481973e-05, -9.935334479764585e-07),
    *(1.886439454797205e-06, 2.9791289021636996e-07, -3.301381384216639e-07, -9.396532869421996e-08, 6.00408442679532e-08),
    *(2.0308318817941225e-08, -1.1016877663473664e-08),
)
_T_LOW = -4.380740109718452e-17  # rounding error of _T[0]


@njit(forceinline=True)
def _bits(x):
    return np.float64(x).view(np.int64)


@njit(forceinline=True)
def _number(bits):
    return np.int64(bits).view(np.float64)


@njit(forceinline=True)
def _four(x, square, a, b, c, d):
    """a + b x + c x² + d x³, by two independent halves."""
    return (a + b * x) + (c + d * x) * square


@njit(forceinline=True)
def _power_of_two(k):
    """2^k for −1022 ≤ k ≤ 1023."""
    return _number((k + 1023) << 52)


@njit(forceinline=True)
def _scaled(x, k):
    """2^k x, rounded once; extreme k is applied in two halves."""
    half = k >> 1
    return x * _power_of_two(half) * _power_of_two(k - half)


@njit(forceinline=True)
def _sum(x, y):
    """x + y and its rounding error (Knuth)."""
    near = x + y
    part = near - x
    return near, (x - (near - part)) + (y - part)


@njit(forceinline=True)
def _halves(x):
    """x = top + bottom with 26 bits each, whose products are exact (Veltkamp)."""
    top = x * 134217729.0
    top = top - (top - x)
    return top, x - top


@njit(forceinline=True)
def _product(x, y):
    """x y and its rounding error (Dekker)."""
    near = x * y
    x_top, x_bottom = _halves(x)
    y_top, y_bottom = _halves(y)
    return near, ((x_top * y_top - near) + (x_top * y_bottom + x_bottom * y_top)) + x_bottom * y_bottom


@njit(forceinline=True)
def _reduced(x, more):
    """k and r = high − low with x + more = k log 2 + r, |r| ≤ ½ log 2; |x| < 2^20."""
    shifted = x * (PER_LOG2) + _MAGIC
    whole = shifted - _MAGIC
    return _bits(shifted) - _MAGIC_BITS, x - whole * LOG2_HIGH, whole * LOG2_LOW - more


@njit(forceinline=True)
def _beyond_linear(high, low):
    """exp(r) − 1 − high for r = high − low."""
    r = high - low
    z = r * r
    z2 = z * z
    first, second = _four(r, z, _E[2], _E[3], _E[4], _E[5]), _four(r, z, _E[6], _E[7], _E[8], _E[9])
    return z * ((first + second * z2) + _four(r, z, _E[10], _E[11], _E[12], _E[13]) * (z2 * z2)) - low


@njit(forceinline=True)
def _exp(x, more, factor):
    """factor exp(x + more) for x in the range of exp and |more| ≪ |x|."""
    k, high, low = _reduced(x, more)
    near = 1.0 + high
    rest = ((1.0 - near) + high) + _beyond_linear(high, low)
    return _scaled(near * factor + rest * factor, k)


@njit(forceinline=True)
def exp(x):
    x_in_range = -746.0 if x < -746.0 else x
    x_in_range = 710.0 if x_in_range > 710.0 else x_in_range
    return x if x != x else _exp(x_in_range, 0.0, 1.0)


@njit(forceinline=True)
def expm1(x):
    x_in_range = -40.0 if x < -40.0 else x
    x_in_range = 710.0 if x_in_range > 710.0 else x_in_range
    k, high, low = _reduced(x_in_range, 0.0)
    one = _power_of_two(-(k if k < 100 else 100))  # in units of 2^k
    away = 1.0 - one
    near = away + high
    rest = ((1.0 - away) - one) + (((away - near) + high) + _beyond_linear(high, low))
    return x if abs(x) < 2.0**-54 or x != x else -1.0 if x < -40.0 else _scaled(near + rest, k)


@njit(forceinline=True)
def _split(x):
    """k and m with x = 2^k m, √½ ≤ m < √2, for a normal number above 0."""
    bits = _bits(x)
    k = (bits - _ROOT_HALF_BITS) >> 52
    return k, _number(bits - (k << 52))


@njit(forceinline=True)
def _as_float(k):
    return _number(k + _MAGIC_BITS) - _MAGIC


@njit(forceinline=True)
def _beyond(f, half):
    """log(1 + f) − f + half for √½ − 1 ≤ f ≤ √2 − 1, half = f²/2.

    log(1 + f) = 2 artanh(s) with s = f/(2 + f), and 2s = f − f s = f − f²/2 + s f²/2.
    """
    s = f / (2.0 + f)
    z = s * s
    z2 = z * z
    first, second = _four(z, z2, _L[1], _L[2], _L[3], _L[4]), _four(z, z2, _L[5], _L[6], _L[7], _L[8])
    odd = z * ((first + second * (z2 * z2)) + (_L[9] + _L[10] * z) * ((z2 * z2) * (z2 * z2)))
    return s * (half + odd)


@njit(forceinline=True)
def _logarithm(k, f, more):
    """k log 2 + log(1 + f) + more; `more` is much smaller than either."""
    k = _as_float(k)
    high, half = k * LOG2_HIGH, 0.5 * f * f
    near = high + f
    return near + (((high - near) + f) + (k * LOG2_LOW + (more + (_beyond(f, half) - half))))


@njit(forceinline=True)
def _at_the_ends(x, value):
    """log's `value` at x, or its limit if x is not positive and finite."""
    value = value if x > 0.0 else -np.inf if x == 0.0 else np.nan
    return x if not x < np.inf else value


@njit(forceinline=True)
def log(x):
    """−∞ for 0, NaN for negative numbers."""
    tiny = x < 2.0**-1022
    k, m = _split(x * 2.0**54 if tiny else x)
    return _at_the_ends(x, _logarithm(k - 54 if tiny else k, m - 1.0, 0.0))


@njit(forceinline=True)
def log1p(x):
    """log(1 + x): −∞ for −1, NaN below."""
    u = 1.0 + x
    lost = x - (u - 1.0) if x < 1.0 else 1.0 - (u - x)
    k, m = _split(u)
    value = _logarithm(k, x if k == 0 else m - 1.0, 0.0 if k == 0 else lost / u)
    return x if abs(x) < 2.0**-54 else _at_the_ends(u, value)


@njit(forceinline=True)
def log2(x):
    """Exact for powers of two; −∞ for 0, NaN for negative numbers."""
    tiny = x < 2.0**-1022
    k, m = _split(x * 2.0**54 if tiny else x)
    f = m - 1.0
    half, lack_half = _product(0.5 * f, f)
    main, lack = _sum(f, -half)
    rest = _beyond(f, half) + (lack - lack_half)  # log m = main + rest
    high, low = _product(main, PER_LOG2)
    near, lack = _sum(_as_float(k - 54 if tiny else k), high)
    return _at_the_ends(x, near + (lack + (low + main * _PER_LOG2_LOW + rest * PER_LOG2)))


@njit(forceinline=True)
def power(x, y):
    """x^y = exp(y log x) for x ≥ 0; exact for y = 0 and y = 1."""
    return 1.0 if y == 0.0 else x if y == 1.0 else exp(y * log(x))


@njit(forceinline=True)
def sigmoid(x):
    """1 / (1 + exp(−x)), accurate also for small results."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@njit(forceinline=True)
def softplus(x):
    return (x if x > 0.0 else 0.0) + log1p(exp(-abs(x))) if x == x else x


@njit(forceinline=True)
def _odd_part(x):
    """erf(x) − x for |x| < 1, and its rounding error."""
    z, lack_z = _product(x, x)
    z2 = z * z
    z4 = z2 * z2
    z8 = z4 * z4
    low = _four(z, z2, _F[2], _F[3], _F[4], _F[5]) + _four(z, z2, _F[6], _F[7], _F[8], _F[9]) * z4
    high = _four(z, z2, _F[10], _F[11], _F[12], _F[13]) + _four(z, z2, _F[14], _F[15], _F[16], _F[17]) * z4
    rest = low + (high + (_F[18] + _F[19] * z) * z8) * z8
    linear, lack_linear = _product(_F[1], z)
    near, lack = _sum(_F0, linear)
    near, lack_near = _sum(near, rest * z2)
    lack += lack_near + lack_linear + (_F0_LOW + _F1_LOW * z + lack_z * (_F[1] + 2.0 * rest * z))
    part, lack_part = _product(x, near)
    return part, lack_part + x * lack


@njit(forceinline=True)
def _next(a, t, rest, lack):
    """a + t (rest + lack) and its rounding error: a step of Horner's rule."""
    part, lack_part = _product(t, rest)
    near, lack_near = _sum(a, part)
    return near, lack_near + (lack_part + t * lack)


@njit(forceinline=True)
def _tail(x):
    """erfc(x) for x ≥ 0.8125: exp(−x²) times a polynomial, divided by x, with rounding errors."""
    x = _TAIL_END if x > _TAIL_END else x
    (over, lack_over), (under, lack_under) = _sum(x, -3.0), _sum(x, 3.0)
    inverse = 1.0 / under
    t = over * inverse
    back, lack = _product(t, under)
    lack_t = (((over - back) - lack) + (lack_over - t * lack_under)) * inverse
    t2 = t * t
    t4 = t2 * t2
    t8 = t4 * t4
    low = _four(t, t2, _T[3], _T[4], _T[5], _T[6]) + _four(t, t2, _T[7], _T[8], _T[9], _T[10]) * t4
    high = _four(t, t2, _T[11], _T[12], _T[13], _T[14]) + _four(t, t2, _T[15], _T[16], _T[17], _T[18]) * t4
    near = low + (high + ((_T[19] + _T[20] * t) + _T[21] * t2) * t8) * t8
    near, lack = _next(_T[2], t, near, 0.0)
    near, lack = _next(_T[1], t, near, lack)
    near, lack = _next(_T[0], t, near, lack)
    low = _T_LOW + (lack + lack_t * _four(t, t2, _T[1], 2.0 * _T[2], 3.0 * _T[3], 4.0 * _T[4]))
    inverse = 1.0 / x
    share = near * inverse
    back, lack = _product(share, x)
    low = (((near - back) - lack) + low) * inverse
    square, more = _product(x, x)
    k, left, right = _reduced(-square, -more)
    e = 1.0 + left
    rest = ((1.0 - e) + left) + _beyond_linear(left, right)
    product, lack = _product(e, share)
    return _scaled(product + (lack + (rest * share + e * low)), k)


@njit(forceinline=True)
def erfc(x):
    size = abs(x)
    small = size < _TAIL_FROM
    part, lack_part = _odd_part(x if small else 0.0)
    near, lack_near = _sum(1.0, -x)
    near, lack = _sum(near, -part)
    tail = _tail(_TAIL_FROM if small else size)
    value = near + (lack + lack_near - lack_part) if small else tail if x > 0.0 else 2.0 - tail
    return x if x != x else value
