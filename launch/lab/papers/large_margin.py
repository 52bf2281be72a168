"""Large margin classifiers of two sets whose boundary is known (Kamath et al. 2018, section 5)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

RADIUS = 0.4  # of the circle that `hpcml convert synthetic circle` makes

DIAGONAL = np.full(2, math.sqrt(0.5))
TURN = np.linspace(0, 2 * math.pi, 200)


class LargeMargin(ClassifierMixin, BaseEstimator, ABC):
    """The boundary half-way between the least positive row and the greatest negative one.

    `position` (n) of points (n × 2) grows by 1 per unit of length in the direction `upwards` (n ×
    2); `boundary` is the position of the true boundary.
    """

    boundary = 0.0
    axis = ""  # what the position is
    kernel = ""  # of the SVM that has such boundaries
    line: np.ndarray  # the boundary in the plane (k × 2)

    @staticmethod
    @abstractmethod
    def position(X: np.ndarray) -> np.ndarray:
        """The number that tells the classes apart."""

    @staticmethod
    @abstractmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        """The unit vectors along which it grows."""

    @classmethod
    def project(cls, X: np.ndarray) -> np.ndarray:
        """The points of the true boundary that are nearest to X."""
        return X - (cls.position(X) - cls.boundary)[:, None] * cls.upwards(X)

    def fit(self, X: np.ndarray, y: np.ndarray) -> LargeMargin:
        """Find the boundary of some rows (n × 2), y in {0, 1}."""
        self.classes_ = np.array([0, 1])
        position = self.position(X)
        self.threshold_ = (position[y == 1].min() + position[y == 0].max()) / 2
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """The signed distance from the boundary found."""
        return self.position(X) - self.threshold_

    def predict(self, X: np.ndarray) -> np.ndarray:
        """1 on the far side of the boundary found, else 0."""
        return (self.decision_function(X) > 0).astype(np.int64)


class CircleLearner(LargeMargin):
    """A circle around the origin (section 5.1)."""

    boundary, axis, kernel = RADIUS, "distance from the origin", "rbf"
    line = RADIUS * np.column_stack([np.cos(TURN), np.sin(TURN)])

    @staticmethod
    def position(X: np.ndarray) -> np.ndarray:
        """The distance from the origin."""
        return np.hypot(*np.asarray(X, dtype=np.float64).T)

    @staticmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        """Away from the origin; from the origin itself to the right."""
        radius = np.hypot(*X.T)[:, None]
        return np.divide(X, radius, out=np.tile([1.0, 0.0], (len(X), 1)), where=radius > 0)


class LineLearner(LargeMargin):
    """A line x + y = const (section 5.3)."""

    axis, kernel = "signed distance from the line x + y = 0", "linear"
    line = np.array([[-2.0, 2.0], [2.0, -2.0]])

    @staticmethod
    def position(X: np.ndarray) -> np.ndarray:
        """The signed distance from x + y = 0."""
        return np.asarray(X, dtype=np.float64) @ DIAGONAL

    @staticmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        """The line's normal."""
        return np.tile(DIAGONAL, (len(X), 1))


SETS: dict[str, type[LargeMargin]] = {"circle": CircleLearner, "gaussians": LineLearner}
