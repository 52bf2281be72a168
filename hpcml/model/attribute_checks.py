"""Checks of single attributes of a scikit-learn classifier that was read from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MAX_TREE_WIDTH = 1 << 25  # features of sparse rows: a tree takes 12 bytes for each


class ArraySizes(NamedTuple):
    """The sizes of which the shapes of an estimator's arrays are made."""

    k: int  # classes
    d: int  # features
    p: int  # functions that decide: 1 for two classes, else one for each


Check = Callable[[Any, ArraySizes], bool]


def is_reals(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether a value is an array of real numbers of that shape."""
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype in (np.float32, np.float64)


def reals(*letters: str) -> Check:
    """An array of real numbers; its shape by letters of `ArraySizes`."""
    return lambda value, sizes: is_reals(value, tuple(getattr(sizes, letter) for letter in letters))


def equal(letter: str) -> Check:
    """The very number of `ArraySizes`, alone."""

    def check(value: Any, sizes: ArraySizes) -> bool:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value == getattr(sizes, letter)

    return check


def exactly(expected: int | bool) -> Check:
    """The very value."""
    return lambda value, _: isinstance(value, (int, np.integer)) and value == expected


def functions(value: Any, sizes: ArraySizes) -> bool:
    """The weights of each function that decides; of a single one some classes keep a vector."""
    return is_reals(value, (sizes.p, sizes.d)) or (sizes.p == 1 and is_reals(value, (sizes.d,)))


def intercepts(value: Any, sizes: ArraySizes) -> bool:
    """One number for each function, or one for all (0 where no intercept was wanted)."""
    return is_reals(value, (sizes.p,)) or (isinstance(value, (float, np.floating)) and bool(np.isfinite(value)))


def arrays_of_classes(*letters: str) -> Check:
    """A list of an array of real numbers for each class; "r" is the rank of a class."""

    def check(value: Any, sizes: ArraySizes) -> bool:
        return (
            isinstance(value, list)
            and len(value) == sizes.k
            and all(isinstance(a, np.ndarray) and a.dtype in (np.float32, np.float64) and a.ndim == len(letters) for a in value)
            and all(n == sizes.d for a in value for n, letter in zip(a.shape, letters, strict=True) if letter == "d")
        )

    return check


def is_anything(_: Any, __: ArraySizes) -> bool:
    """For what `then` checks."""
    return True


def by_then(names: str) -> dict[str, Check]:
    """Names (with blanks between) of what `then` checks."""
    return dict.fromkeys(names.split(), is_anything)


def is_tree(value: Any, sizes: ArraySizes) -> bool:
    """A tree of one output whose nodes were checked before it was made (`untrusted_dump`)."""
    from sklearn.tree._tree import Tree

    return (
        type(value) is Tree
        and (value.n_features, value.n_outputs, value.max_n_classes) == (sizes.d, 1, max(1, sizes.k))
        and sizes.d <= MAX_TREE_WIDTH
    )


WIDTH = {"n_features_in_": equal("d")}
CLASSES = {"classes_": is_anything}  # checked where they are counted
