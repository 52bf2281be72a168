"""The table of single-pass learners."""

from __future__ import annotations

from dataclasses import dataclass

from hpcml.kernels import online as kernels


@dataclass(frozen=True)
class OnlineMethod:
    """A learner: its number in the kernels, the names of its weight vectors and where they start, and one line about it."""

    code: int
    weights: dict[str, float]
    about: str

    @property
    def winnow(self) -> bool:
        """Whether updates are multiplicative: rows get a bias, are divided by their sum, and must not have negative values."""
        return any(self.weights.values())

    @property
    def balanced(self) -> bool:
        """Whether it has positive and negative weights, whose difference tells how much a feature matters (EFS)."""
        return len(self.weights) == 2


METHODS: dict[str, OnlineMethod] = {
    "pw": OnlineMethod(kernels.PW, {"w": 1.0}, "Positive Winnow"),
    "bw": OnlineMethod(kernels.BW, {"u": 2.0, "v": 1.0}, "Balanced Winnow"),
    "mbw": OnlineMethod(kernels.MBW, {"u": 2.0, "v": 1.0}, "Modified Balanced Winnow, with a margin"),
    "perceptron": OnlineMethod(kernels.PERCEPTRON, {"w": 0.0}, "Perceptron"),
    "pa": OnlineMethod(kernels.PA, {"w": 0.0}, "Passive-Aggressive"),
    "romma": OnlineMethod(kernels.ROMMA, {"w": 0.0}, "Relaxed Online Maximum Margin Algorithm"),
}
