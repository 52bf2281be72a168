"""The grid of settings, and the choice of a setting for each label from the scores of all labels.

With few rows, the best of many settings is often chance, so the scores of a rare label are unreliable. The score of a setting for a
label with n′ positive rows is therefore (n′ · own + τ · mean) / (n′ + τ), where the mean is over all labels. τ was chosen on
Reuters and the docstrings and evaluated on other collections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.methods.linear.settings import Axis, Setting

MAX_ROUNDS = 4  # in which the grid may grow; each trains all labels at the new values
# Gain in score for which the grid grows: a third of MARGIN. On held-out training rows of nursery, w8a, covtype, spamassassin,
# 20newsgroups, Reuters, bibtex, docstrings and MeSH, F1 falls on Reuters only, by 0.0007 with 0.001 and by 0.0003 with 0.003; MeSH
# gains 0.0029 instead of 0.0044; the gains of the others are the same.
MIN_GAIN = 0.001
MARGIN = 0.003  # gain in score for which a setting replaces the default
TAU = 100.0  # number of positive rows at which a label's own score and the mean have equal weight
COLUMN = {"lam": "lambda"}  # names of columns of the model that differ from the option


@dataclass
class Grid:
    """The values of each axis, ascending. An axis in `fixed` has the user's values and does not grow."""

    axes: Sequence[Axis]
    values: list[list[float]]
    fixed: Sequence[bool]

    def settings(self) -> list[Setting]:
        """Return all settings, the last axis running fastest; values are multiples on an axis with a base."""
        names = [axis.option for axis in self.axes]
        return [dict(zip(names, values, strict=True)) for values in product(*self.values)]

    def grow(self, settings: Sequence[Setting], means: np.ndarray) -> list[Setting]:
        """Add a value to each axis whose best value lies at an end and gains MIN_GAIN; return the new settings."""
        best = settings[int(np.argmax(means))]
        mean_of = {tuple(setting.values()): float(mean) for setting, mean in zip(settings, means, strict=True)}
        for axis, values, fixed in zip(self.axes, self.values, self.fixed, strict=True):
            value = best[axis.option]
            if fixed or len(values) < 2 or value not in (values[0], values[-1]):
                continue
            last = value == values[-1]
            neighbour = best | {axis.option: values[-2] if last else values[1]}
            if mean_of[tuple(best.values())] < mean_of[tuple(neighbour.values())] + MIN_GAIN:
                continue
            further = value * axis.step if last else value / axis.step
            if further >= axis.least:
                values.insert(len(values) if last else 0, further)
        return [setting for setting in self.settings() if tuple(setting.values()) not in mean_of]


def absolute_setting(axes: Sequence[Axis], setting: Setting, rows: CompactRows, options: Any) -> Setting:
    return {axis.option: setting[axis.option] * (1.0 if axis.base is None else axis.base(rows, options)) for axis in axes}


def format_setting(setting: Setting) -> str:
    names = {"lam": "λ ×", "l1": "λ₁ ×", "positive_weight": "weight"}
    return ", ".join(f"{names[name]} {value:.3g}" for name, value in setting.items())


def choose(
    scores: np.ndarray, n_positive: np.ndarray, one: bool, default: int | None = None, tau: float = TAU, margin: float = MARGIN
) -> tuple[np.ndarray, int]:
    """Return the setting of each label, and the best common setting.

    `scores` (n_labels × n_settings) are NaN for labels without scores, which get the common setting; with `one`, all labels do.
    Ties: lowest number first. The `default` is kept unless another setting is better by the margin.
    """
    mean = np.nanmean(scores, axis=0)
    scored = np.zeros(len(scores), bool) if one else ~np.isnan(scores).any(axis=1)
    n = n_positive[scored, None].astype(np.float64)
    shrunk = np.vstack([mean, (n * scores[scored] + tau * mean) / (n + tau)])
    best = shrunk.argmax(axis=1)
    if default is not None:
        best[shrunk.max(axis=1) < shrunk[:, default] + margin] = default
    which = np.full(len(scores), best[0])
    which[scored] = best[1:]
    return which, int(best[0])
