"""Draws are functions of (seed, purpose, index): in range, unrelated to chunks, unlike for other purposes, roughly uniform."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcml.rng import bits, uniform

SEEDS = st.integers(0, 2**63)
INDICES = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50).map(lambda values: np.array(values, dtype=np.int64))


@given(seed=SEEDS, index=INDICES, cut=st.integers(0, 50))
def test_independent_of_chunks_and_order(seed, index, cut):
    whole = bits(seed, "split", index)
    np.testing.assert_array_equal(np.concatenate([bits(seed, "split", index[:cut]), bits(seed, "split", index[cut:])]), whole)
    np.testing.assert_array_equal(bits(seed, "split", index[::-1]), whole[::-1])


def test_no_draw_repeats_over_indices_seeds_and_purposes():
    index = np.arange(5000)
    draws = [bits(seed, purpose, index) for seed in (0, 1, 2) for purpose in ("split", "sleep", "init")]
    assert len(np.unique(np.concatenate(draws))) == 9 * index.size


def test_known_value():
    """Results of old runs stay reproducible: the mapping must not change."""
    assert uniform(0, "split", np.arange(3)).tolist() == [0.45068260791399495, 0.22689215463796453, 0.8018199722748168]


def test_roughly_uniform_and_uncorrelated():
    n, seed = 100_000, 3
    draws = uniform(seed, "split", np.arange(n))
    assert ((draws >= 0) & (draws < 1)).all()
    counts = np.histogram(draws, bins=64, range=(0, 1))[0]
    chi_square = ((counts - n / 64) ** 2 / (n / 64)).sum()
    assert chi_square < 63 + 6 * (2 * 63) ** 0.5
    other = uniform(seed, "sleep", np.arange(n))
    for a, b in ((draws[1:], draws[:-1]), (draws, other), (draws, uniform(seed + 1, "split", np.arange(n)))):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / n**0.5
