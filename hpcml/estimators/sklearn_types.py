"""scikit-learn's base classes with types. scikit-learn has none, and type checkers would accept any parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from sklearn.utils import Tags

    class BaseEstimator:
        n_features_in_: int
        feature_names_in_: np.ndarray

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...

        def set_params(self, **params: Any) -> Self: ...

        def __sklearn_tags__(self) -> Tags: ...

        def __sklearn_clone__(self) -> Self: ...

        def __getstate__(self) -> dict[str, Any]: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

        def __sklearn_tags__(self) -> Tags: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["BaseEstimator", "ClassifierMixin"]
