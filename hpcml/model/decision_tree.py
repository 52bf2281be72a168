"""A decision tree that splits by information gain. It does not import scikit-learn, which takes one second."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcml.kernels import elementary
from hpcml.kernels import tree as kernels

_ROW_AND_CLASS_BITS = int(kernels.SHIFT)
# Bits of the fixed-point scores of splits.
_SCORE_BITS = 61
_MAX_DEPTH = 2**31 - 1


class DecisionTree:
    """A binary tree whose splits `value <= threshold` reduce the entropy most.

    A node is a leaf if it has one class, fewer than 2 · `min_samples_leaf` rows, depth `max_depth`, or no split with at least
    `min_samples_leaf` rows on each side. A threshold is the midpoint of two neighbouring values, rounded down to float32.

    The tree equals scikit-learn's `DecisionTreeClassifier(criterion="entropy")` with two differences: of equally good splits, the
    one of the first feature and lowest value is chosen; values closer than 1e-7 are distinguished. The order of rows has no effect.

    Each column is sorted once per tree (Shafer, Agrawal & Mehta, "SPRINT", VLDB 1996). Training takes time proportional to
    rows × features × levels, and 8 bytes per value.

    Fitted attributes: `classes_` (ascending), `n_features_in_`, and per node, the root first: `feature_` (int32; −1 for a leaf),
    `threshold_` (float32), `child_` (int32; the node of rows with value <= threshold, followed by the node of the other rows) and
    `count_` (n_nodes, n_classes; int32), the number of rows of each class.
    """

    kind = "tree"  # in files

    def __init__(self, max_depth: int | None = None, min_samples_leaf: int = 1) -> None:
        self.max_depth, self.min_samples_leaf = max_depth, min_samples_leaf

    def fit(self, X: Any, y: np.ndarray) -> DecisionTree:
        """Grow the tree from X (n_rows, n_features) and y (n_rows,), classes from 0. Raises ValueError for non-finite values."""
        self.n_features_in_ = X.shape[1]
        X, n_rows = self._rows(X), X.shape[0]
        sizes = np.bincount(y)
        self.classes_ = np.flatnonzero(sizes)
        n_classes = self.classes_.size
        class_bits = max(1, (n_classes - 1).bit_length())
        if n_rows >> (_ROW_AND_CLASS_BITS - class_bits):
            raise ValueError(f"X: {n_rows:,} rows of {n_classes} classes are too many for one tree")
        keys = np.empty((self.n_features_in_, n_rows), dtype=np.uint64)
        numbers = np.searchsorted(self.classes_, np.arange(sizes.size))
        kernels.make_keys(X.view(np.uint32), numbers[y], np.uint64(class_bits), keys)
        keys.sort(axis=1)
        depth = _MAX_DEPTH if self.max_depth is None else min(self.max_depth, _MAX_DEPTH)
        n_leaves = min(max(1, n_rows // self.min_samples_leaf), 2 ** min(depth, 32))
        room = 2 * n_leaves - 1
        features, children = (np.full(room, value, dtype=np.int32) for value in (kernels.LEAF, 0))
        codes, counts = np.empty((2, room), dtype=np.uint32), np.empty((room, n_classes), dtype=np.int32)
        counts[0] = sizes[self.classes_]
        largest = n_rows * elementary.log2(float(max(n_rows, 1)))
        entropies = np.zeros(n_rows + 1, np.int64)  # n log₂ n as integers, scaled by 2^k so that no sum overflows
        kernels.tabulate_entropies(2.0 ** (_SCORE_BITS - int(np.frexp(largest + 1)[1])), entropies)
        rules = (np.uint64(class_bits), entropies, self.min_samples_leaf, depth)
        n = kernels.grow(keys, rules, (features, *codes, children, counts))
        self.feature_, self.child_, self.count_ = features[:n].copy(), children[:n].copy(), counts[:n].copy()
        self.threshold_, splits = np.zeros(n, dtype=np.float32), self.feature_ != kernels.LEAF
        self.threshold_[splits] = _midpoints(*codes[:, :n][:, splits])
        return self

    def _rows(self, X: Any) -> np.ndarray:
        if not isinstance(X, np.ndarray):
            raise ValueError("X: sparse rows; a tree needs dense rows")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but expected {self.n_features_in_}")
        rows: np.ndarray = np.ascontiguousarray(X, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise ValueError("X: a value is not finite in single precision")
        return rows

    def apply(self, X: Any) -> np.ndarray:
        leaves = np.empty(X.shape[0], dtype=np.int32)
        kernels.leaves(self._rows(X), self.feature_, self.threshold_, self.child_, leaves)
        return leaves

    def _shares(self) -> np.ndarray:
        return np.asarray(self.count_ / self.count_.sum(axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class frequencies (n_rows, n_classes) in the leaf of each row."""
        return np.asarray(self._shares()[self.apply(X)])

    def confidence(self, X: Any) -> np.ndarray:
        """Return the largest class frequency minus the second largest (n_rows,)."""
        ascending = np.sort(self._shares(), axis=1)
        return np.asarray((ascending[:, -1] - ascending[:, -2])[self.apply(X)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the most frequent class in the leaf of each row; the first one of equals."""
        return np.asarray(self.classes_[self.count_.argmax(axis=1)[self.apply(X)]])

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays are consistent; kernels do not check indices."""
        n, n_classes = self.feature_.size, self.classes_.size
        shapes = {"feature_": (n,), "threshold_": (n,), "child_": (n,), "count_": (n, n_classes)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != (np.float32 if name == "threshold_" else np.int32):
                raise ValueError(f"{name} is damaged")
        splits = np.flatnonzero(self.feature_ != kernels.LEAF)
        features, children = self.feature_[splits], self.child_[splits]
        if n == 0 or n_classes < 2 or (self.count_ < 0).any() or not self.count_.any(axis=1).all():
            raise ValueError("count_ is damaged")
        if (features < 0).any() or (features >= self.n_features_in_).any() or not np.isfinite(self.threshold_).all():
            raise ValueError("feature_ is damaged")
        if (children <= splits).any() or (children >= n - 1).any():  # ascending indices exclude cycles
            raise ValueError("child_ is damaged")


def _midpoints(lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """Return the midpoints of float32 values given by their sort keys, rounded down."""
    low, high = (np.where(codes >> 31, codes ^ (1 << 31), ~codes).view(np.float32).astype(np.float64) for codes in (lows, highs))
    means = low / 2 + high / 2
    rounded = means.astype(np.float32)
    return np.asarray(np.where(rounded > means, np.nextafter(rounded, np.float32(-np.inf)), rounded))
