"""The decision tree against an exact textbook version, and against scikit-learn where no two splits are equally good."""

from fractions import Fraction
from itertools import pairwise
from math import prod

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.tree import DecisionTreeClassifier

from hpcml.model.decision_tree import DecisionTree
from hpcml.model.learner import confidence, fit, parse_learner, scores


def data(seed, n_rows, n_features, n_classes, decimals=8):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), decimals).astype(np.float32)
    y = np.digitize(X @ rng.normal(size=n_features) + rng.normal(0, 0.5, n_rows), np.linspace(-1, 1, n_classes - 1))
    return X, y


def nested(tree, node=0):
    counts = tuple(tree.count_[node].tolist())
    if tree.feature_[node] < 0:
        return (counts,)
    left = int(tree.child_[node])
    return counts, int(tree.feature_[node]), float(tree.threshold_[node]), nested(tree, left), nested(tree, left + 1)


def purity(X, y, j, threshold):
    """What is greatest where a split has the least entropy, exactly: 2 to the power of Σ_sides (Σ_c n_c log₂ n_c − n log₂ n)."""
    sides = (np.bincount(y[side]).tolist() for side in (X[:, j] <= threshold, X[:, j] > threshold))
    return prod(Fraction(prod(n**n for n in counts), sum(counts) ** sum(counts)) for counts in sides)


def textbook(X, y, classes, min_leaf, max_depth, depth=0):
    """The tree whose splits have the least entropy, compared exactly; of equal ones that of the first feature and lowest values."""
    counts = tuple(int((y == c).sum()) for c in classes)
    best = None
    if max(counts) < y.size and depth < max_depth:
        for j in range(X.shape[1]):
            values = np.unique(X[:, j])
            for low, high in pairwise(values):
                if min(np.count_nonzero(X[:, j] <= low), np.count_nonzero(X[:, j] > low)) >= min_leaf:
                    score = purity(X, y, j, low)
                    if best is None or score > best[0]:
                        best = score, j, (float(low) + float(high)) / 2
    if best is None:
        return (counts,)
    _, j, threshold = best
    left = X[:, j] <= threshold
    below = [textbook(X[side], y[side], classes, min_leaf, max_depth, depth + 1) for side in (left, ~left)]
    return counts, j, threshold, *below


@pytest.mark.parametrize(
    ("n_classes", "min_leaf", "max_depth", "decimals"),
    [(2, 1, None, 0), (3, 2, None, 1), (5, 1, 2, 0), (3, 4, 5, 8)],
)
def test_equals_textbook_trees(n_classes, min_leaf, max_depth, decimals):
    for seed in range(3):
        X, y = data(seed, 40, 4, n_classes, decimals)
        X[:, 3] = 7  # constant
        expected = textbook(X, y, np.unique(y), min_leaf, max_depth or 99)
        assert nested(DecisionTree(max_depth, min_leaf).fit(X, y)) == single(expected)


def single(tree):
    if len(tree) == 1:
        return tree
    counts, j, threshold, left, right = tree
    below = np.float32(threshold)
    below = np.nextafter(below, np.float32(-np.inf)) if float(below) > threshold else below
    return counts, j, float(below), single(left), single(right)


def sklearns(tree, node=0):
    counts = tuple(np.rint(tree.value[node, 0] * tree.n_node_samples[node]).astype(int).tolist())
    if tree.children_left[node] < 0:
        return (counts,)
    sides = (sklearns(tree, int(child[node])) for child in (tree.children_left, tree.children_right))
    return counts, int(tree.feature[node]), float(tree.threshold[node]), *sides


@pytest.mark.parametrize("n_classes", [2, 4])
def test_predictions_equal_scikit_learn(n_classes):
    X, y = data(5, 1000, 6, n_classes)
    theirs = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=0).fit(X, y)
    ours = DecisionTree(max_depth=3).fit(X, y)
    assert nested(ours) == single(sklearns(theirs.tree_))
    other, _ = data(6, 500, 6, n_classes)
    assert np.array_equal(ours.predict_proba(other), theirs.predict_proba(other))
    assert np.array_equal(ours.predict(other), theirs.predict(other))
    gaps = np.sort(theirs.predict_proba(other), axis=1)
    assert np.array_equal(confidence(ours, other), gaps[:, -1] - gaps[:, -2])
    assert np.array_equal(scores(ours, other, n_classes), scores(theirs, other, n_classes))


def test_order_of_rows_and_sign_of_zero_have_no_effect():
    X, y = data(7, 400, 5, 3, decimals=1)
    order = np.random.default_rng(0).permutation(400)
    tree, other = DecisionTree().fit(X, y), DecisionTree().fit(np.where(X == 0, -X, X)[order], y[order])
    for name in ("feature_", "threshold_", "child_", "count_"):
        assert getattr(tree, name).tobytes() == getattr(other, name).tobytes()


@pytest.mark.parametrize(
    ("base", "ours"), [("tree", True), ("stump", True), ("tree max_depth=None", True), ("tree criterion=gini", False)]
)
def test_uses_scikit_learn_for_other_options_and_sparse_rows(base, ours):
    X, y = data(8, 100, 3, 2)
    learner = parse_learner(base.split())
    assert isinstance(fit(learner, X, y, 0), DecisionTree if ours else DecisionTreeClassifier)
    assert isinstance(fit(learner, sp.csr_matrix(X), y, 0), DecisionTreeClassifier)


def test_rejects_invalid_rows():
    X, y = data(9, 20, 3, 2)
    tree = DecisionTree().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but expected 3"):
        tree.predict(X[:, :2])
    with pytest.raises(ValueError, match="not finite"):
        DecisionTree().fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(ValueError, match="dense rows"):
        tree.predict(sp.csr_matrix(X))


DAMAGE = {
    "feature_": [("width", np.int32(3)), ("before", np.int32(-2))],
    "child_": [("outside", np.int32(10**9)), ("circle", np.int32(0)), ("negative", np.int32(-5))],
    "threshold_": [("infinite", np.float32(np.inf))],
    "count_": [("negative", np.int32(-1))],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in DAMAGE.items() for _, value in values])
def test_rejects_damaged_trees(name, value):
    X, y = data(10, 60, 3, 2)
    tree = DecisionTree().fit(X, y)
    tree.check_arrays()
    getattr(tree, name).flat[0] = value
    with pytest.raises(ValueError, match="is damaged"):
        tree.check_arrays()
    setattr(tree, name, getattr(tree, name)[:-1])
    with pytest.raises(ValueError, match="is damaged"):
        tree.check_arrays()
