"""Rules that combine the scores of a label's weight vectors ("parts") into one score: in stages, or by a weighted vote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Rule = Callable[[np.ndarray], np.ndarray]  # maps scores (n_parts, n) to scores (n,)
STAGED, BOOSTED = "staged", "boosted"
# The largest number below one half, so that a share of exactly 1/2 gives a positive score.
HALF = float(np.nextafter(0.5, 0.0))
# Files that claim more parts are damaged.
MOST_PARTS = 1000


@dataclass(frozen=True)
class Stages:
    """A cascade: rows with a score above `cut` enter the next stage and rank above all rows that do not.

    Rows of the last stage have the score v = Σ factor · score if v > 0, else v / (1 − v) > −1. Each earlier stage has its own
    interval below. Rows that never leave the first stage score at most 1 − (number of stages). `biases` are added to the stage
    scores.
    """

    cut: float
    factors: tuple[float, ...]
    biases: np.ndarray

    def __call__(self, parts: np.ndarray) -> np.ndarray:
        last, parts = len(self.factors) - 1, parts + self.biases[:, None]
        value = self.factors[0] * parts[0]
        out, continues = (parts[0] - self.cut) - last, parts[0] > self.cut
        for stage in range(1, last + 1):
            value = value + self.factors[stage] * parts[stage]
            if stage == last:
                score = np.where(value > 0, value, value / (1.0 + np.abs(value)))
            else:
                score = stage - last - 0.5 + 0.5 * (value / (1.0 + np.abs(value)))
            out = np.where(continues, score, out)
            continues = continues & (parts[stage] > self.cut)
        return np.asarray(out)


class Voter(NamedTuple):
    """A weighted step function h(s): the value of the first bound that is at least s, else the last value."""

    vote: float
    bounds: np.ndarray
    values: np.ndarray

    def share(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(self.values[np.minimum(np.searchsorted(self.bounds, scores), self.bounds.size - 1)])


@dataclass(frozen=True)
class Votes:
    """A weighted vote: Σ vote · h / Σ vote − 1/2, positive from a share of 1/2."""

    rounds: tuple[Voter, ...]

    def __call__(self, parts: np.ndarray) -> np.ndarray:
        total, votes = np.zeros(parts.shape[1]), 0.0
        for scores, each in zip(parts, self.rounds, strict=False):  # a label may have fewer rounds than the model has parts
            total = total + each.vote * each.share(scores)
            votes += each.vote
        return total / votes - HALF

    @classmethod
    def decode(cls, numbers: np.ndarray, n_parts: int) -> Votes:
        """Invert `encode_votes`. Raises ValueError if the numbers are damaged."""
        rounds, begin = [], 0
        while begin < numbers.size:
            n = int(numbers[begin]) if 1 <= numbers[begin] <= numbers.size else 0
            end = begin + 2 + 2 * n
            if n == 0 or end > numbers.size:
                raise ValueError("invalid votes")
            rounds.append(Voter(float(numbers[begin + 1]), numbers[begin + 2 : begin + 2 + n], numbers[begin + 2 + n : end]))
            begin = end
        sound = all((each.bounds[1:] > each.bounds[:-1]).all() and each.vote > 0 for each in rounds)
        if not (1 <= len(rounds) <= n_parts and sound and np.isfinite(numbers).all()):
            raise ValueError("invalid votes")
        return cls(tuple(rounds))


def encode_votes(rounds: Iterable[Voter]) -> np.ndarray:
    """Return the rounds as one array: for each round the number of bounds, the vote, bounds and values."""
    return np.concatenate([part for each in rounds for part in ([each.bounds.size, each.vote], each.bounds, each.values)])


@dataclass(frozen=True)
class Combination:
    kind: str
    n_parts: int
    width: int  # columns per part
    cut: float = 0.0
    factors: tuple[float, ...] = ()

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Combination | None:
        """Read the combination from a model's attributes; None if there is none. Raises ValueError, TypeError, KeyError."""
        if "combination" not in attrs:
            return None
        kind, n_parts, width = str(attrs["combination"]), int(attrs["parts"]), int(attrs["width"])
        factors = tuple(float(factor) for factor in np.atleast_1d(attrs["factors"])) if kind == STAGED else ()
        cut = float(attrs["cut"]) if kind == STAGED else 0.0
        sound = kind in (STAGED, BOOSTED) and 1 <= n_parts <= MOST_PARTS and width >= 0 and np.isfinite([cut, *factors]).all()
        if not sound or (kind == STAGED and len(factors) != n_parts):
            raise ValueError("invalid combination")
        return cls(kind, n_parts, width, cut, factors)

    @property
    def about(self) -> dict[str, Any]:
        about: dict[str, Any] = {"combination": self.kind, "parts": self.n_parts, "width": self.width}
        return about | ({"cut": self.cut, "factors": np.array(self.factors)} if self.kind == STAGED else {})

    def rule(self, bias: float, constant: bool, numbers: np.ndarray) -> Rule:
        """Return the rule of a label from its `numbers` (without trailing zeros); a `constant` label scores `bias`."""
        if constant:
            return lambda parts: np.full(parts.shape[1], bias)
        if self.kind == BOOSTED:
            return Votes.decode(numbers, self.n_parts)
        biases = np.zeros(self.n_parts)
        biases[: numbers.size] = numbers
        return Stages(self.cut, self.factors, biases)
