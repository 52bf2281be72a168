"""Where rows begin, what weight they have, and what replaces them: counts, bounds and frequencies."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from hpcml.data.labels import Classes
from hpcml.methods.psbml.selection import Population, assign_nodes, finite_range, population, replace, selection_weights

RNG = np.random.default_rng(5)


def spread_rows(classes, keys, n_nodes, share, seed, groups=None):
    """Where rows of these classes and keys begin."""
    rows = Classes([], np.arange(len(keys)), np.asarray(classes), np.asarray(keys, dtype=np.uint64), groups)
    return assign_nodes(rows, n_nodes, share, seed)


def positions(*values):
    return np.array(values, dtype=np.int32)


def rows(row_places, fitness, counts=None):
    counts = np.ones(len(row_places)) if counts is None else counts
    return Population(positions(*row_places), np.array(counts, dtype=np.int32), np.array(fitness, dtype=np.float64))


@settings(max_examples=30)
@given(
    classes=st.lists(st.integers(0, 3), min_size=1, max_size=120),
    n_nodes=st.integers(1, 9),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_spread_is_stratified(classes, n_nodes, share, seed):
    classes = np.array(classes)
    node = spread_rows(classes, np.arange(classes.size), n_nodes, share, seed)
    assert node.shape == classes.shape
    assert node.min() >= -1
    assert node.max() < n_nodes
    sizes = np.bincount(node[node >= 0], minlength=n_nodes)
    assert sizes.max() - sizes.min() <= 1
    for one in np.unique(classes):
        of_class = node[classes == one]
        held_out = np.count_nonzero(of_class < 0)
        assert abs(held_out - share * of_class.size) <= 0.5 + 1e-9
        per_node = np.bincount(of_class[of_class >= 0], minlength=n_nodes)
        assert per_node.max() - per_node.min() <= 1


def test_spread_depends_on_the_numbers_of_the_rows_not_on_their_order():
    classes, numbers = RNG.integers(0, 3, 200), np.sort(RNG.choice(10_000, 200, replace=False))
    node = spread_rows(classes, numbers, 5, 0.2, 7)
    order = RNG.permutation(200)
    np.testing.assert_array_equal(spread_rows(classes[order], numbers[order], 5, 0.2, 7), node[order])
    assert (spread_rows(classes, numbers + 1, 5, 0.2, 7) != node).any()  # other rows, another spread
    np.testing.assert_array_equal(spread_rows(classes, numbers, 5, 0.2, 7), node)


def test_a_group_validates_as_a_whole():
    classes, groups = RNG.integers(0, 2, 300), np.repeat(np.arange(60, dtype=np.uint64), 5)
    node = spread_rows(classes, np.arange(300), 4, 0.2, 0, groups)
    validates = (node < 0).reshape(60, 5)
    assert (validates.all(axis=1) | ~validates.any(axis=1)).all()
    shares = [(node[classes == one] < 0).mean() for one in (0, 1)]
    assert max(abs(share - 0.2) for share in shares) < 0.06


def test_weights_are_one_minus_the_normalised_fitness_and_one_if_all_are_alike():
    np.testing.assert_allclose(selection_weights(np.array([0.2, 0.7, 1.2]), 0.2, 1.2), [1.0, 0.5, 0.0])
    np.testing.assert_allclose(selection_weights(np.array([3.0, 7.0]), 1.0, 9.0), [0.75, 0.25])
    assert selection_weights(np.full(4, 0.3), 0.3, 0.3).tolist() == [1, 1, 1, 1]
    assert selection_weights(np.full(2, np.inf), *finite_range(np.full(2, np.inf))).tolist() == [1, 1]
    assert selection_weights(np.empty(0), np.inf, -np.inf).size == 0


def test_a_row_of_which_nobody_has_an_opinion_has_no_weight():
    assert finite_range(np.empty(0)) == finite_range(np.array([np.inf])) == (np.inf, -np.inf)
    fitness = np.array([0.0, 2.0, np.inf])
    assert finite_range(fitness) == (0.0, 2.0)
    assert selection_weights(fitness, 0.0, 2.0).tolist() == [1.0, 0.0, 0.0]


def test_population():
    found = population(positions(7, 3, 7, 5, 7), np.array([4.0, 1.0, 2.0, np.inf, 3.0]))
    assert (found.positions.tolist(), found.counts.tolist(), found.fitness.tolist()) == ([3, 5, 7], [1, 1, 3], [1.0, np.inf, 2.0])
    assert (found.positions.dtype, found.counts.dtype, found.fitness.dtype) == (np.int32, np.int32, np.float64)
    assert population(positions(2, 2)).fitness.tolist() == [np.inf]
    assert population(positions()).positions.size == 0


POOL = [rows([0, 1, 2], [0.0, 0.25, 1.0], [1, 2, 5]), rows([1, 4], [0.5, 0.75], [3, 1])]


def draw(n, probability=1.0, pool=POOL, seed=0, cycle=1, node=0, low=0.0, high=1.0):
    slots, fitness = np.full(n, 99, dtype=np.int32), np.full(n, 8.0)
    return replace(seed, cycle, node, slots, fitness, pool, probability, low, high)


def test_rows_are_drawn_in_proportion_to_weight_and_count():
    n = 20_000
    slots, fitness = draw(n)
    expected = {(0, 0.0): 1 * 1.0, (1, 0.25): 2 * 0.75, (1, 0.5): 3 * 0.5, (4, 0.75): 1 * 0.25}  # (2, 1.0) weighs nothing
    total = sum(expected.values())
    pairs = list(zip(slots.tolist(), fitness.tolist(), strict=True))
    assert set(pairs) == set(expected)
    statistic = sum((pairs.count(pair) - n * weight / total) ** 2 / (n * weight / total) for pair, weight in expected.items())
    assert statistic < chi2.ppf(0.999, len(expected) - 1)


def check_shares(slots, weights):
    """Places stand in the slots in proportion to their weights."""
    for position, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(np.count_nonzero(slots == position) - slots.size * share) < 5 * np.sqrt(slots.size * share * (1 - share))


def test_without_any_weight_rows_are_drawn_evenly():
    pool = [rows([0, 1], [1.0, np.inf], [1, 3]), rows([2], [1.0], [4])]
    slots, _ = draw(20_000, pool=pool, low=0.0, high=1.0)
    check_shares(slots, {0: 1, 1: 3, 2: 4})


@given(
    slots=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    parts=st.lists(st.dictionaries(st.integers(10, 30), st.floats(0, 1) | st.just(np.inf), min_size=1), min_size=1, max_size=4),
    probability=st.floats(0.01, 1),
    seed=st.integers(0, 1000),
)
def test_new_rows_come_from_the_pool_with_their_fitness_and_the_input_stays(slots, parts, probability, seed):
    slots, fitness = np.array(slots, dtype=np.int32), np.linspace(2, 3, len(slots))
    pool = [rows(sorted(part), [part[position] for position in sorted(part)]) for part in parts]
    before = slots.copy(), fitness.copy(), [part.fitness.copy() for part in pool]
    low, high = finite_range(np.concatenate([part.fitness for part in pool]))
    got, known = replace(seed, 3, 2, slots, fitness, pool, probability, low, high)
    assert (got.dtype, got.shape, known.shape) == (np.int32, slots.shape, slots.shape)
    kept = got < 10
    assert (got[kept] == slots[kept]).all()
    assert (known[kept] == fitness[kept]).all()
    pairs = {(position, value) for part in parts for position, value in part.items()}
    assert set(zip(got[~kept].tolist(), known[~kept].tolist(), strict=True)) <= pairs
    np.testing.assert_array_equal(slots, before[0])
    np.testing.assert_array_equal(fitness, before[1])
    for part, values in zip(pool, before[2], strict=True):
        np.testing.assert_array_equal(part.fitness, values)
