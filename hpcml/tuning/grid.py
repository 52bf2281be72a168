"""The settings that are tried: values of each axis, more of them where the best lies at an end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.methods.linear.settings import Axis, Setting

ROUNDS = 4  # in which a grid may grow: each trains all labels again at the further values
GAIN = 0.001  # of a score, that makes a further value worth it: a third of what another setting must gain to be taken (`choose`)


class Grid:
    """Values of each axis (ascending), and the settings that they make. Fixed axes do not grow."""

    def __init__(self, axes: Sequence[Axis], given: Sequence[Sequence[float]]) -> None:
        """`given`: of each axis the user's values; none: the axis' own, which may grow."""
        self.axes, self.fixed = list(axes), [bool(values) for values in given]
        self.values = [sorted(values or axis.values) for axis, values in zip(axes, given, strict=True)]

    def settings(self) -> list[Setting]:
        """All settings, the last axis running fastest; multiples where an axis has a base."""
        names = [axis.option for axis in self.axes]
        return [dict(zip(names, values, strict=True)) for values in product(*self.values)]

    def grow(self, settings: Sequence[Setting], means: np.ndarray) -> list[Setting]:
        """New settings: further values where the best (`means`) is at an end, by GAIN."""
        before, best = self.settings(), settings[int(np.argmax(means))]
        mean_of = {tuple(setting.values()): float(mean) for setting, mean in zip(settings, means, strict=True)}
        for axis, values, fixed in zip(self.axes, self.values, self.fixed, strict=True):
            value = best[axis.option]
            if fixed or len(values) < 2 or value not in (values[0], values[-1]):
                continue
            last = value == values[-1]
            neighbour = best | {axis.option: values[-2] if last else values[1]}
            if mean_of[tuple(best.values())] < mean_of[tuple(neighbour.values())] + GAIN:
                continue
            further = value * axis.step if last else value / axis.step
            if further >= axis.least:
                values.insert(len(values) if last else 0, further)
        return [setting for setting in self.settings() if setting not in before]


def concrete(axes: Sequence[Axis], setting: Setting, rows: CompactRows, options: Any) -> Setting:
    """A setting with the options' values for some rows, where it has multiples."""
    return {axis.option: setting[axis.option] * (1.0 if axis.base is None else axis.base(rows, options)) for axis in axes}


def text_of(setting: Setting) -> str:
    """A setting in a few words."""
    names = {"lam": "λ ×", "l1": "λ₁ ×", "positive_weight": "weight"}
    return ", ".join(f"{names[name]} {value:.3g}" for name, value in setting.items())


def column_of(option: str) -> str:
    """The name of an option in the model."""
    return "lambda" if option == "lam" else option


def default_of(settings: Sequence[Setting]) -> int | None:
    """The number of the setting whose every value is 1, as by default; None if it was not tried."""
    return next((number for number, each in enumerate(settings) if all(value == 1.0 for value in each.values())), None)
