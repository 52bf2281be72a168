"""The settings that are tried, and which of them each label gets from the scores of all labels.

The best of many settings on a few rows is chance, so a label's own scores say the less the rarer it is. The score of a
setting for a label with n′ positives is therefore (n′ own + τ mean) / (n′ + τ), where the mean is that over all labels. τ
was chosen on Reuters and the docstrings and evaluated on other collections (docs/notebook.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.methods.linear.settings import Axis, Setting

ROUNDS = 4  # in which a grid may grow: each trains all labels again at the further values
GAIN = 0.001  # of a score, that makes a further value worth it: a third of what another setting must gain to be taken (MARGIN)
# Held-out training rows that had no part in the choice, of nursery, w8a, covtype, spamassassin, 20newsgroups, Reuters, bibtex,
# docstrings and MeSH: F1 falls on Reuters alone, by 0.0007 with 0.001 and by 0.0003 with 0.003. MeSH gains 0.0029 instead of
# 0.0044; what the others gain stays (docs/notebook.md).
MARGIN = 0.003  # of a score, by which another setting must be better than the default
TAU = 100.0  # positives whose own score weighs as much as the mean of all labels: with fewer, rare labels choose by chance
COLUMN = {"lam": "lambda"}  # of the model, for an option whose column has another name


@dataclass
class Grid:
    """The values of each axis, ascending. Those of the axes in `fixed` are the user's."""

    axes: Sequence[Axis]
    values: list[list[float]]
    fixed: Sequence[bool]

    def settings(self) -> list[Setting]:
        """Return all settings, the last axis running fastest; they are multiples where an axis has a base."""
        names = [axis.option for axis in self.axes]
        return [dict(zip(names, values, strict=True)) for values in product(*self.values)]

    def grow(self, settings: Sequence[Setting], means: np.ndarray) -> list[Setting]:
        """Add a value where the best setting lies at an end and gains GAIN by that; return the new settings.

        `means` are the scores of the `settings` that were tried. Values of fixed axes stay.
        """
        best = settings[int(np.argmax(means))]
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
        return [setting for setting in self.settings() if tuple(setting.values()) not in mean_of]


def concrete(axes: Sequence[Axis], setting: Setting, rows: CompactRows, options: Any) -> Setting:
    """Return a setting with the options' values for some rows, where it has multiples."""
    return {axis.option: setting[axis.option] * (1.0 if axis.base is None else axis.base(rows, options)) for axis in axes}


def text_of(setting: Setting) -> str:
    """Return a setting in a few words."""
    names = {"lam": "λ ×", "l1": "λ₁ ×", "positive_weight": "weight"}
    return ", ".join(f"{names[name]} {value:.3g}" for name, value in setting.items())


def choose(
    scores: np.ndarray, n_positive: np.ndarray, one: bool, default: int | None = None, tau: float = TAU, margin: float = MARGIN
) -> tuple[np.ndarray, int]:
    """Return the setting of each label, and the best one for all labels together.

    `scores` (n_labels × n_settings) are NaN for labels that were not tried, which get the best for all; with `one` all
    labels do. Ties: lowest number first. The `default` stays unless another setting is better by the margin.
    """
    mean = np.nanmean(scores, axis=0)
    judged = np.zeros(len(scores), bool) if one else ~np.isnan(scores).any(axis=1)
    n = n_positive[judged, None].astype(np.float64)
    drawn = np.vstack([mean, (n * scores[judged] + tau * mean) / (n + tau)])
    best = drawn.argmax(axis=1)
    if default is not None:
        best[drawn.max(axis=1) < drawn[:, default] + margin] = default
    which = np.full(len(scores), best[0])
    which[judged] = best[1:]
    return which, int(best[0])
