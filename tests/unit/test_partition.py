"""Ranges of rows: they cover everything once, in order, and are balanced."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcml.partition import bounds_by_weight, bounds_in_items, even_bounds

PARTS = st.integers(1, 40)


@given(n=st.integers(0, 10**12), n_parts=PARTS)
def test_even_bounds(n, n_parts):
    bounds = even_bounds(n, n_parts)
    sizes = np.diff(bounds)
    assert bounds.dtype == np.int64
    assert (len(bounds), bounds[0], bounds[-1]) == (n_parts + 1, 0, n)
    assert sizes.min() >= 0
    assert sizes.max() - sizes.min() <= 1


@given(weights=st.lists(st.integers(0, 100), max_size=60), start=st.integers(0, 2**60), n_parts=PARTS)
def test_bounds_by_weight(weights, start, n_parts):
    cumulative = start + np.concatenate([[0], np.cumsum(np.array(weights, dtype=np.int64))])
    before = cumulative.copy()
    bounds = bounds_by_weight(cumulative, n_parts)
    assert bounds.dtype == np.int64
    assert (len(bounds), bounds[0], bounds[-1]) == (n_parts + 1, 0, len(weights))
    assert np.diff(bounds).min() >= 0
    heaviest = np.diff(cumulative[bounds]).max()
    assert heaviest <= sum(weights) / n_parts + max(weights, default=0)
    np.testing.assert_array_equal(cumulative, before)


@given(n=st.integers(0, 50), n_parts=PARTS)
def test_items_without_weight_are_shared_by_count(n, n_parts):
    np.testing.assert_array_equal(bounds_by_weight(np.full(n + 1, 7), n_parts), even_bounds(n, n_parts))


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(1, 7))
def test_bounds_in_items_are_those_of_the_whole(sizes, n_parts):
    found = bounds_in_items(sizes, n_parts)
    whole, begins = even_bounds(sum(sizes), n_parts), np.cumsum([0, *sizes])
    for part in range(n_parts):
        items = [begins[k] + place for k, bounds in enumerate(found) for place in range(*bounds[part : part + 2])]
        assert items == list(range(*whole[part : part + 2]))
