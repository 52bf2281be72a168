"""The torus, the distribution and replacement of rows, and the threshold of `--judge auc`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from support.make import class_data, dataset
from support.oracles_psbml import neighbourhood
from support.training import train

from hpcml import PsbmlClassifier
from hpcml.data.labels import Classes
from hpcml.errors import ConfigError
from hpcml.methods.psbml.selection import Population, assign_nodes, finite_range, replace, selection_weights
from hpcml.methods.psbml.snapshot import best_threshold
from hpcml.methods.psbml.torus import NEIGHBOURHOODS, Torus, parse_grid
from hpcml.model.classifier import ClassifierModel

RNG = np.random.default_rng(5)


def spread_rows(classes, keys, n_nodes, share, seed, groups=None):
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
    assert node.shape == classes.shape and node.min() >= -1 and node.max() < n_nodes
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


def test_validation_does_not_divide_groups():
    classes, groups = RNG.integers(0, 2, 300), np.repeat(np.arange(60, dtype=np.uint64), 5)
    node = spread_rows(classes, np.arange(300), 4, 0.2, 0, groups)
    validates = (node < 0).reshape(60, 5)
    assert (validates.all(axis=1) | ~validates.any(axis=1)).all()
    shares = [(node[classes == one] < 0).mean() for one in (0, 1)]
    assert max(abs(share - 0.2) for share in shares) < 0.06


def test_selection_weights():
    np.testing.assert_allclose(selection_weights(np.array([0.2, 0.7, 1.2]), 0.2, 1.2), [1.0, 0.5, 0.0])
    np.testing.assert_allclose(selection_weights(np.array([3.0, 7.0]), 1.0, 9.0), [0.75, 0.25])
    assert selection_weights(np.full(4, 0.3), 0.3, 0.3).tolist() == [1, 1, 1, 1]
    assert selection_weights(np.full(2, np.inf), *finite_range(np.full(2, np.inf))).tolist() == [1, 1]
    assert finite_range(np.array([0.0, 2.0, np.inf])) == (0.0, 2.0)
    assert selection_weights(np.array([0.0, 2.0, np.inf]), 0.0, 2.0).tolist() == [1.0, 0.0, 0.0]


POOL = [rows([0, 1, 2], [0.0, 0.25, 1.0], [1, 2, 5]), rows([1, 4], [0.5, 0.75], [3, 1])]
NO_WEIGHT = [rows([0, 1], [1.0, np.inf], [1, 3]), rows([2], [1.0], [4])]


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (POOL, {(0, 0.0): 1 * 1.0, (1, 0.25): 2 * 0.75, (1, 0.5): 3 * 0.5, (4, 0.75): 1 * 0.25}),  # (2, 1.0) has no weight
        (NO_WEIGHT, {(0, 1.0): 1, (1, np.inf): 3, (2, 1.0): 4}),
    ],
)
def test_rows_are_drawn_in_proportion_to_weight_and_count(pool, expected):
    n, before = 20_000, (np.full(20_000, 99, dtype=np.int32), np.full(20_000, 8.0))
    slots, fitness = replace(0, 1, 0, *before, pool, 1.0, 0.0, 1.0)
    assert (before[0] == 99).all() and (before[1] == 8.0).all()
    pairs, total = list(zip(slots.tolist(), fitness.tolist(), strict=True)), sum(expected.values())
    assert set(pairs) == set(expected)
    statistic = sum((pairs.count(pair) - n * weight / total) ** 2 / (n * weight / total) for pair, weight in expected.items())
    assert statistic < chi2.ppf(0.999, len(expected) - 1)
    kept = replace(0, 1, 0, *before, pool, 0.25, 0.0, 1.0)[0] == 99
    assert abs(kept.mean() - 0.75) < 0.02


SIDE = st.integers(1, 9)
KIND = st.sampled_from(sorted(NEIGHBOURHOODS))


@given(width=SIDE, height=SIDE, kind=KIND)
def test_neighbours_are_symmetric_wrapped_steps(width, height, kind):
    torus = Torus(width, height, kind)
    for node in range(torus.n_nodes):
        assert torus.neighbours(node) == tuple(neighbourhood(width, height, kind, node))
        assert all(node in torus.neighbours(other) for other in torus.neighbours(node))


def test_rejects_invalid_grids():
    assert [parse_grid(text) for text in ("3x4", "1x1", "99999x10")] == [(3, 4), (1, 1), (99999, 10)]
    for text in ("", "3", "3x", "x3", "0x3", "3x0", "-1x3", "3X3", "3x3x3", " 3x3", "3x3\n", "3.0x3", "03x3", "123456x1"):
        with pytest.raises(ConfigError, match="expected WIDTHxHEIGHT"):
            parse_grid(text)


@given(width=SIDE, height=SIDE, kind=KIND, n_ranks=st.integers(1, 12))
def test_sent_nodes_are_those_the_receiver_needs(width, height, kind, n_ranks):
    torus = Torus(width, height, kind)
    ranks = [Torus(width, height, kind, n_ranks, rank) for rank in range(n_ranks)]
    assert [node for rank in ranks for node in rank.nodes] == list(range(torus.n_nodes))
    assert np.ptp([len(rank.nodes) for rank in ranks]) <= 1
    for a in ranks:
        assert a.to_send.keys() == a.to_receive.keys()
        assert a.rank not in a.to_send
        for b in ranks:
            assert a.to_send.get(b.rank) == b.to_receive.get(a.rank)
        seen = {other for node in a.nodes for other in torus.neighbours(node)}
        assert sorted([*a.nodes, *(node for nodes in a.to_receive.values() for node in nodes)]) == sorted(seen)


OPTIONS = {"grid": "2x2", "cycles": 3, "judge": "auc", "validation_share": 0.3}


@pytest.mark.parametrize("seed", range(9))
def test_best_threshold_has_the_fewest_errors(seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(30) < rng.random()
    scores = np.round(rng.normal(size=30) + positive + 2 * rng.normal(), seed % 3)  # with ties
    found = best_threshold(scores, positive)
    wrong = {cut: np.sum((scores > cut) != positive) for cut in [-np.inf, *scores]}
    assert np.sum((scores > found) != positive) == min(wrong.values())


def test_best_threshold_prefers_values_near_0():
    assert best_threshold(np.array([-3.0, -1.0, 2.0, 5.0]), np.array([False, False, True, True])) == 0.0
    assert best_threshold(np.array([1.0, 2.0, 4.0]), np.array([False, False, True])) == 3.0
    near = np.array([1.0, np.nextafter(1.0, 2.0)])  # nothing lies between them
    assert best_threshold(near, np.array([False, True])) == 1.0


def test_threshold_of_estimator_equals_that_of_command(tmp_path):
    X, y, Y = class_data(3, 200, 6, 2, 0.4)
    data = dataset(tmp_path / "data.h5", X, Y)
    run = train("psbml", None, data, tmp_path / "run", {**OPTIONS, "seed": 4})
    assert "cycle 1: validation ROC AUC " in (tmp_path / "run" / "log.txt").read_text()
    model = ClassifierModel(run.model)
    found = PsbmlClassifier(**OPTIONS, random_state=4).fit(X, y)
    assert found.threshold_ == model.thresholds[0] != 0
    assert np.array_equal(found.predict(X) == 1, model.scores(X.toarray())[:, 0] > model.thresholds[0])
    assert not np.array_equal(found.predict(X) == 1, found.decision_function(X) > 0)

    by_error = OPTIONS | {"judge": "error"}
    run = train("psbml", None, data, tmp_path / "by error", {**by_error, "seed": 2})
    assert ClassifierModel(run.model).threshold_source == ""
    assert PsbmlClassifier(**by_error).fit(X, y).threshold_ == 0
