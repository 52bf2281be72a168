"""Elementary functions against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from hpcml.kernels import elementary, elementwise

INF, NAN, TINY, LEAST = math.inf, math.nan, 2.0**-1022, 5e-324
RANGES = {  # even, and with even logarithms (of both signs, if the third says so); the largest error in units in the last place
    "exp": ((-745.0, 709.0), (1e-10, 700.0), True, 0.8),
    "expm1": ((-40.0, 709.0), (1e-20, 700.0), True, 0.8),
    "log": ((1e-3, 10.0), (5e-324, 1e308), False, 0.8),
    "log1p": ((-0.9999, 10.0), (1e-20, 1e308), False, 0.9),
    "log2": ((1e-3, 10.0), (5e-324, 1e308), False, 0.8),
    "erfc": ((-6.0, 26.0), (1e-20, 26.0), True, 0.9),
}
BITS = {
    "exp": 4903069393950200188,
    "expm1": 4371067399926732660,
    "log": -874322806793228403,
    "log1p": -335864823887069910,
    "log2": 1582732302599454137,
    "erfc": -3591944592088092283,
}
AT_ENDS = {  # arguments, values
    "exp": (
        [0.0, -0.0, INF, -INF, 709.782712893385, 1e308, -745.1332191019411, -745.1332191019412, -1e308, LEAST],
        [1.0, 1.0, INF, 0.0, INF, INF, LEAST, 0.0, 0.0, 1.0],
    ),
    "expm1": (
        [0.0, -0.0, LEAST, -LEAST, TINY, 1e-17, INF, -INF, -1e308, 709.782712893385, -38.0, -45.0],
        [0.0, -0.0, LEAST, -LEAST, TINY, 1e-17, INF, -1.0, -1.0, INF, -1.0, -1.0],
    ),
    "log": (
        [0.0, -0.0, 1.0, INF, -INF, -1.0, -LEAST, LEAST, TINY, 1.7976931348623157e308],
        [-INF, -INF, 0.0, INF, NAN, NAN, NAN, -744.4400719213812, -708.3964185322641, 709.782712893384],
    ),
    "log1p": (
        [0.0, -0.0, LEAST, -LEAST, -1.0, -1.5, INF, -INF, 1.7976931348623157e308, 1e-17, -(1 - 2.0**-53)],
        [0.0, -0.0, LEAST, -LEAST, -INF, NAN, INF, NAN, 709.782712893384, 1e-17, -36.7368005696771],
    ),
    "log2": (
        [0.0, 1.0, 2.0, 2.0**1023, TINY, LEAST, 0.25, INF, -1.0],
        [-INF, 0.0, 1.0, 1023.0, -1022.0, -1074.0, -2.0, INF, NAN],
    ),
    "erfc": (
        [0.0, -0.0, INF, -INF, 30.0, -30.0],
        [1.0, 1.0, 0.0, 2.0, 0.0, 2.0],
    ),
}


def points(name, n=1500):
    rng = np.random.default_rng(7)
    evenly, logarithms, signs, _ = RANGES[name]
    wide = np.exp(rng.uniform(*np.log(logarithms), n))
    return np.concatenate([rng.uniform(*evenly, n), wide * rng.choice((-1.0, 1.0), n) if signs else wide])


def error(name, x, value):
    of = (lambda z: mpmath.log(z) / mpmath.log(2)) if name == "log2" else getattr(mpmath, name)
    exact = of(mpmath.mpf(x))
    return float(abs(mpmath.mpf(value) - exact) / mpmath.mpf(math.ulp(float(exact))))


@pytest.mark.parametrize("name", RANGES)
def test_errors_are_within_the_documented_limit(name):
    x = points(name)
    values = getattr(elementwise, name)(x)
    with mpmath.workprec(1200 if name == "log1p" else 120):
        assert max(error(name, *pair) for pair in zip(x.tolist(), values.tolist(), strict=True)) < RANGES[name][-1]


@pytest.mark.parametrize("name", RANGES)
def test_single_numbers_and_arrays_of_any_shape_have_the_same_bits(name):
    x = points(name, 51)[:101]
    values = getattr(elementwise, name)(x)
    assert [getattr(elementary, name)(number) for number in x.tolist()] == values.tolist()
    np.testing.assert_array_equal(getattr(elementwise, name)(x[:100].reshape(4, 25).T), values[:100].reshape(4, 25).T)
    assert getattr(elementwise, name)(x[0]).shape == ()


@pytest.mark.parametrize("name", AT_ENDS)
def test_limits_and_special_values(name):
    given, expected = np.pad(AT_ENDS[name], ((0, 0), (0, 1)), constant_values=NAN)
    found = getattr(elementwise, name)(given)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
    assert [repr(getattr(elementary, name)(x)) for x in given.tolist()] == [repr(x) for x in found.tolist()]


def test_bits_are_fixed():
    found = {name: int(getattr(elementwise, name)(np.linspace(0.01, 20, 1000)).view(np.int64).sum()) for name in RANGES}
    assert found == BITS


def test_powers():
    x, y = np.array([0.0, 0.0, 0.3, 0.3, 7.0, 7.0, 1e-300, INF]), np.array([0.0, 2.0, 0.0, 1.0, 1.0, -2.5, 1.5, 0.5])
    found = elementwise.power(x, y)
    np.testing.assert_array_equal(found[:5], [1.0, 0.0, 1.0, 0.3, 7.0])
    np.testing.assert_allclose(found[5:], [7.0**-2.5, 0.0, INF], rtol=1e-14)


def test_sigmoid_and_softplus_of_large_and_small_numbers():
    x = np.array([-INF, -745.0, -710.0, -40.0, -1e-9, 0.0, 0.5, 40.0, 800.0, INF, NAN])
    with mpmath.workprec(2200):
        shares = [float(1 / (1 + mpmath.exp(-mpmath.mpf(z)))) for z in x[1:-2].tolist()]
        logs = [float(mpmath.log1p(mpmath.exp(mpmath.mpf(z)))) for z in x[1:-2].tolist()]
    np.testing.assert_allclose(elementwise.sigmoid(x), [0.0, *shares, 1.0, NAN], rtol=5e-16)
    np.testing.assert_allclose(elementwise.softplus(x), [0.0, *logs, INF, NAN], rtol=5e-16)
