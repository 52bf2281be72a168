"""Large margin classifiers of two sets whose boundary is known (Kamath et al. 2018, section 5), and mean shift.

Mean shift on a Gaussian mixture climbs to its modes (Carreira-Perpiñán & Williams 2003).

The density is p(x) = W(x) Σ π_m N(x; μ_m, Σ_m). W is 1, or exp(−d²/(2 s²)) with the distance d of x from a boundary (weighting of
Kamath et al. 2018, section 4.1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

RADIUS = 0.4  # of the circle that `hpcml convert synthetic circle` makes

TOLERANCE = 1e-6  # of a step that is the last
MAX_STEPS = 1000
SAME = 0.01  # modes that are this near to one another are one
Projection = Callable[[np.ndarray], np.ndarray]

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
        """Return the coordinate that separates the classes."""

    @staticmethod
    @abstractmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        """Return the unit vectors along which the position grows."""

    @classmethod
    def project(cls, X: np.ndarray) -> np.ndarray:
        return X - (cls.position(X) - cls.boundary)[:, None] * cls.upwards(X)

    def fit(self, X: np.ndarray, y: np.ndarray) -> LargeMargin:
        self.classes_ = np.array([0, 1])
        position = self.position(X)
        self.threshold_ = (position[y == 1].min() + position[y == 0].max()) / 2
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.position(X) - self.threshold_

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (self.decision_function(X) > 0).astype(np.int64)


class CircleLearner(LargeMargin):
    """A circle around the origin (section 5.1)."""

    boundary, axis, kernel = RADIUS, "distance from the origin", "rbf"
    line = RADIUS * np.column_stack([np.cos(TURN), np.sin(TURN)])

    @staticmethod
    def position(X: np.ndarray) -> np.ndarray:
        return np.hypot(*np.asarray(X, dtype=np.float64).T)

    @staticmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        radius = np.hypot(*X.T)[:, None]
        return np.divide(X, radius, out=np.tile([1.0, 0.0], (len(X), 1)), where=radius > 0)


class LineLearner(LargeMargin):
    """A line x + y = const (section 5.3)."""

    axis, kernel = "signed distance from the line x + y = 0", "linear"
    line = np.array([[-2.0, 2.0], [2.0, -2.0]])

    @staticmethod
    def position(X: np.ndarray) -> np.ndarray:
        return np.asarray(X, dtype=np.float64) @ DIAGONAL

    @staticmethod
    def upwards(X: np.ndarray) -> np.ndarray:
        return np.tile(DIAGONAL, (len(X), 1))


SETS: dict[str, type[LargeMargin]] = {"circle": CircleLearner, "gaussians": LineLearner}


class Mixture(NamedTuple):
    """M Gaussians in d dimensions: shares π (M), means μ (M × d), Σ⁻¹ (M × d × d)."""

    shares: np.ndarray
    means: np.ndarray
    precisions: np.ndarray

    def log_parts(self, x: np.ndarray) -> np.ndarray:
        """Return log π_m N(x; μ_m, Σ_m) of points x (n × d) up to a constant: n × M."""
        away = x[:, None, :] - self.means
        squares = (np.matmul(away[:, :, None, :], self.precisions)[:, :, 0, :] * away).sum(axis=2)
        return np.log(self.shares) + (np.linalg.slogdet(self.precisions)[1] - squares) / 2


class Weighting(NamedTuple):
    """W: a Gaussian of deviation `s` around the boundary; `project` returns the nearest points of the boundary."""

    project: Projection
    s: float

    def log(self, x: np.ndarray) -> np.ndarray:
        return -np.square(x - self.project(x)).sum(axis=1) / (2 * self.s**2)


def log_density(mixture: Mixture, weighting: Weighting | None, x: np.ndarray) -> np.ndarray:
    """Return log p of points x (n × d) up to a constant."""
    return np.logaddexp.reduce(mixture.log_parts(x), axis=1) + (0.0 if weighting is None else weighting.log(x))


def climb(mixture: Mixture, weighting: Weighting | None, x: np.ndarray) -> np.ndarray:
    """Where mean shift from each of some points (n × d) ends, n × d.

    x ← (Σ p(m|x) Σ_m⁻¹ + I/s²)⁻¹ (Σ p(m|x) Σ_m⁻¹ μ_m + x_b/s²), equation 4 of Kamath et al.; x_b is
    the boundary's point nearest to x. Without W the terms with s are missing: equation 1. No step
    lowers p: it is a step of EM, and −|x − x_b|² with the old x_b bounds log W from below.
    """
    pulls = np.einsum("mij,mj->mi", mixture.precisions, mixture.means)
    for _ in range(MAX_STEPS):
        parts = mixture.log_parts(x)
        of = np.exp(parts - np.logaddexp.reduce(parts, axis=1)[:, None])  # p(m|x)
        matrix, right = np.tensordot(of, mixture.precisions, 1), of @ pulls
        if weighting is not None:
            matrix = matrix + np.eye(x.shape[1]) / weighting.s**2
            right = right + weighting.project(x) / weighting.s**2
        before, x = x, np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        if np.abs(x - before).max() < TOLERANCE:
            break
    return x


def modes(mixture: Mixture, weighting: Weighting | None = None) -> np.ndarray:
    """Return the modes (k × d) that mean shift reaches from the means of the components, the highest first."""
    ends = climb(mixture, weighting, mixture.means)
    modes: list[np.ndarray] = []
    for end in ends[np.argsort(-log_density(mixture, weighting, ends), kind="stable")]:
        if all(np.linalg.norm(end - other) > SAME for other in modes):
            modes.append(end)
    return np.array(modes)
