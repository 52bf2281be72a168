"""The scores of labels with several weight vectors each ("parts"): in stages, or by a vote.

A rule makes one score of the scores by each part, positive for "has the label".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Rule = Callable[[np.ndarray], np.ndarray]  # from scores (parts, n) to scores (n)
STAGED, BOOSTED = "staged", "boosted"
HALF = float(np.nextafter(0.5, 0.0))  # the largest number below one half: a share of 1/2 gives the label
MOST_PARTS = 1000  # that are read


@dataclass(frozen=True)
class Stages:
    """Rows scored above a stage's cut go on to the next one, and rank above all that stay behind.

    The rows of the last stage have the score v = Σ factor · score if that is above 0, else v / (1 −
    v), so all are above −1. Below them, each stage has an interval of its own; rows that never left
    the first one are at most 1 − (number of stages). `biases` are added to the stages' scores.
    """

    cut: float
    factors: tuple[float, ...]
    biases: np.ndarray

    def __call__(self, parts: np.ndarray) -> np.ndarray:
        """The scores (n) of rows by their scores in each stage."""
        last, parts = len(self.factors) - 1, parts + self.biases[:, None]
        value = self.factors[0] * parts[0]
        out, going = (parts[0] - self.cut) - last, parts[0] > self.cut
        for stage in range(1, last + 1):
            value = value + self.factors[stage] * parts[stage]
            if stage == last:
                placed = np.where(value > 0, value, value / (1.0 + np.abs(value)))
            else:
                placed = stage - last - 0.5 + 0.5 * (value / (1.0 + np.abs(value)))
            out = np.where(going, placed, out)
            going = going & (parts[stage] > self.cut)
        return np.asarray(out)


class Voter(NamedTuple):
    """A voter: h(s) is the value of the first bound that is not below s, or the last value."""

    vote: float
    bounds: np.ndarray
    values: np.ndarray

    def share(self, scores: np.ndarray) -> np.ndarray:
        """h of scores (n)."""
        return np.asarray(self.values[np.minimum(np.searchsorted(self.bounds, scores), self.bounds.size - 1)])


@dataclass(frozen=True)
class Votes:
    """Σ vote · h / Σ vote, less one half: positive from 1/2 on."""

    rounds: tuple[Voter, ...]

    def __call__(self, parts: np.ndarray) -> np.ndarray:
        """The scores (n) by those in each round; there may be fewer rounds than parts."""
        total, votes = np.zeros(parts.shape[1]), 0.0
        for scores, each in zip(parts, self.rounds, strict=False):
            total = total + each.vote * each.share(scores)
            votes += each.vote
        return total / votes - HALF

    @classmethod
    def of_numbers(cls, numbers: np.ndarray, n_parts: int) -> Votes:
        """The votes of which `as_numbers` made the numbers. Raises ValueError for anything else."""
        rounds, at = [], 0
        while at < numbers.size:
            n = int(numbers[at]) if 1 <= numbers[at] <= numbers.size else 0
            end = at + 2 + 2 * n
            if n == 0 or end > numbers.size:
                raise ValueError("numbers of no vote")
            rounds.append(Voter(float(numbers[at + 1]), numbers[at + 2 : at + 2 + n], numbers[at + 2 + n : end]))
            at = end
        sound = all((each.bounds[1:] > each.bounds[:-1]).all() and each.vote > 0 for each in rounds)
        if not (1 <= len(rounds) <= n_parts and sound and np.isfinite(numbers).all()):
            raise ValueError("votes that do not fit")
        return cls(tuple(rounds))


def as_numbers(rounds: Iterable[Voter]) -> np.ndarray:
    """A vote's rounds as an array: of each its bound count, vote, bounds, values; no last 0."""
    return np.concatenate([part for each in rounds for part in ([each.bounds.size, each.vote], each.bounds, each.values)])


@dataclass(frozen=True)
class Combination:
    """The parts of a model's labels: how many, their columns, and the rule for them."""

    kind: str
    n_parts: int
    width: int  # columns of a part
    cut: float = 0.0
    factors: tuple[float, ...] = ()

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Combination | None:
        """Of a model's attributes; None of single vectors. ValueError, TypeError, KeyError."""
        if "combination" not in attrs:
            return None
        kind, n_parts, width = str(attrs["combination"]), int(attrs["parts"]), int(attrs["width"])
        factors = tuple(float(factor) for factor in np.atleast_1d(attrs["factors"])) if kind == STAGED else ()
        cut = float(attrs["cut"]) if kind == STAGED else 0.0
        sound = kind in (STAGED, BOOSTED) and 1 <= n_parts <= MOST_PARTS and width >= 0 and np.isfinite([cut, *factors]).all()
        if not sound or (kind == STAGED and len(factors) != n_parts):
            raise ValueError("parts that do not fit")
        return cls(kind, n_parts, width, cut, factors)

    @property
    def about(self) -> dict[str, Any]:
        """The attributes that `of` reads."""
        about: dict[str, Any] = {"combination": self.kind, "parts": self.n_parts, "width": self.width}
        return about | ({"cut": self.cut, "factors": np.array(self.factors)} if self.kind == STAGED else {})

    def rule(self, bias: float, constant: bool, numbers: np.ndarray) -> Rule:
        """The rule of a label by its `numbers` (but last zeros); `constant`: all score `bias`."""
        if constant:
            return lambda parts: np.full(parts.shape[1], bias)
        if self.kind == BOOSTED:
            return Votes.of_numbers(numbers, self.n_parts)
        biases = np.zeros(self.n_parts)
        biases[: numbers.size] = numbers
        return Stages(self.cut, self.factors, biases)
