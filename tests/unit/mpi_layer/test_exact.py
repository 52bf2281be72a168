import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcml import mpi
from hpcml.mpi import exact_sum, grid, self_comm

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=60).map(np.array)


def bound_of(values):
    return max(math.fsum(np.abs(values)) * (1 + 2**-50), 2.0**-900)


@given(values=VALUES)
def test_rounds_to_the_nearest_multiple(values):
    shift, spacing = grid(bound_of(values))
    rounded = (values + shift) - shift
    for x, y in zip(values.tolist(), rounded.tolist(), strict=True):
        assert (Fraction(y) / Fraction(spacing)).denominator == 1
        assert abs(Fraction(x) - Fraction(y)) <= Fraction(spacing) / 2


@given(values=VALUES, seed=st.integers(0, 1000))
def test_every_partial_sum_is_exact(values, seed):
    shift, _ = grid(bound_of(values))
    rounded = (values + shift) - shift
    total, exact = 0.0, Fraction(0)
    for y in np.random.default_rng(seed).permutation(rounded).tolist():
        total, exact = total + y, exact + Fraction(y)
        assert Fraction(total) == exact


@given(values=VALUES, seed=st.integers(0, 1000))
def test_sum_is_close_and_independent_of_order(values, seed):
    bound, n = bound_of(values), len(values)
    got = exact_sum(self_comm(), values, bound, n)
    shuffled = np.random.default_rng(seed).permutation(values)
    assert exact_sum(self_comm(), shuffled, bound, n).hex() == got.hex()
    exact = math.fsum(values)
    assert abs(got - exact) <= math.ulp(exact) + bound * 2.0**-80


@given(st.floats(1e-38, 1e45), st.integers(0, 2**32))
def test_grid_level_makes_sums_exact(bound, seed):
    values = np.random.default_rng(seed).uniform(-1, 1, 100) * (bound / 100)
    shift = mpi.SHIFT_OF_LEVEL[mpi.grid_levels(np.array([bound]))[0]]
    rounded = (values + shift) - shift
    assert np.abs(rounded - values).max() <= bound * 2.0**-49
    assert rounded.sum() == rounded[::-1].sum() == math.fsum(rounded)


@given(st.floats(2.0**-140, 2.0**100, width=32), st.integers(90, 160))
def test_lies_on_grid(value, level):
    shift = float(mpi.SHIFT_OF_LEVEL[level])
    above = [float(np.float32(value) * (1 + k * np.float32(2.0**-23))) for k in (0, 1, 77)]
    if mpi.lies_on_grid(shift, value):
        assert all((x + shift) - shift == x for x in above if x < shift / 6)
    assert not mpi.lies_on_grid(shift, shift * 2.0**-60)
