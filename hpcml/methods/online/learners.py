"""The table of single-pass learners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OnlineLearner:
    """A learner: its number in `kernels`, the names of its weight vectors and where they start."""

    code: int
    weights: dict[str, float]

    @property
    def winnow(self) -> bool:
        """Whether updates multiply: rows have a bias and no negative values, scores a divisor."""
        return any(self.weights.values())

    @property
    def balanced(self) -> bool:
        """Whether it has weights for and against; their difference is a feature's importance."""
        return len(self.weights) == 2


LEARNERS: dict[str, OnlineLearner] = {
    "pw": OnlineLearner(0, {"w": 1.0}),
    "bw": OnlineLearner(1, {"u": 2.0, "v": 1.0}),
    "mbw": OnlineLearner(2, {"u": 2.0, "v": 1.0}),
    "perceptron": OnlineLearner(3, {"w": 0.0}),
    "pa": OnlineLearner(4, {"w": 0.0}),
    "romma": OnlineLearner(5, {"w": 0.0}),
}
