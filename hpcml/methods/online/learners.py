"""The table of single-pass learners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OnlineMethod:
    """A learner: its number in `kernels`, the names of its weight vectors and where they start, what it is called."""

    code: int
    weights: dict[str, float]
    options: tuple[str, ...]  # of OnlineOptions those that it uses and some other learners do not
    about: str

    @property
    def winnow(self) -> bool:
        """Whether updates are multiplicative: rows get a bias, are divided by their sum, and must not have negative values."""
        return any(self.weights.values())

    @property
    def balanced(self) -> bool:
        """Whether it has positive and negative weights, whose difference tells how much a feature matters (EFS)."""
        return len(self.weights) == 2


_WINNOW, _BALANCED = ("alpha", "beta", "theta"), ("live_features", "share")
METHODS: dict[str, OnlineMethod] = {
    "pw": OnlineMethod(0, {"w": 1.0}, _WINNOW, "Positive Winnow"),
    "bw": OnlineMethod(1, {"u": 2.0, "v": 1.0}, (*_WINNOW, *_BALANCED), "Balanced Winnow"),
    "mbw": OnlineMethod(2, {"u": 2.0, "v": 1.0}, (*_WINNOW, *_BALANCED, "margin"), "Modified Balanced Winnow"),
    "perceptron": OnlineMethod(3, {"w": 0.0}, (), "the perceptron"),
    "pa": OnlineMethod(4, {"w": 0.0}, ("epsilon", "gamma"), "Passive-Aggressive"),
    "romma": OnlineMethod(5, {"w": 0.0}, (), "the Relaxed Online Maximum Margin Algorithm (ROMMA)"),
}
USES = {name: method.options for name, method in METHODS.items()}
