"""The reports of `hpcml tune`: tuning.csv (settings), choice.csv (labels), lines for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml.files.report import ReportedResult
from hpcml.methods.linear.report import TrainReport
from hpcml.methods.linear.settings import Setting
from hpcml.model.linear import IN_FOLDS
from hpcml.tuning.choose import MARGIN, best_of
from hpcml.tuning.grid import column_of, default_of, text_of
from hpcml.tuning.options import TuneOptions

NAMES = {"map": "mean average precision", "f1": "mean F1 at the best thresholds", "auc": "mean AUC"}


@dataclass(frozen=True)
class TuneReport(ReportedResult):
    """The report of a finished choice and of the training after it."""

    trained: TrainReport
    chosen: list[str]

    @property
    def model(self) -> Path:
        """The model."""
        return self.trained.model

    def describe(self) -> list[str]:
        """Return the lines about the choice, and those of the training."""
        return [*self.chosen, *str(self.trained).splitlines()]


def tables(
    options: TuneOptions,
    settings: Sequence[Setting],
    scores: np.ndarray,
    which: np.ndarray,
    names: Sequence[str],
    n_positive: np.ndarray,
    columns: dict[str, np.ndarray],
) -> tuple[list[str], list[Sequence[object]], list[Sequence[object]]]:
    """Lines for the user, the rows of tuning.csv, and those of choice.csv."""
    judged, axes = ~np.isnan(scores).all(axis=1), list(settings[0])
    means, default = np.nanmean(scores, axis=0), default_of(settings)
    best = best_of(means, default)
    counts = np.bincount(which[judged], minlength=len(settings))
    summary: list[Sequence[object]] = [[*(f"{column_of(axis)}_factor" for axis in axes), options.by, "labels"]]
    for setting, mean, count in zip(settings, means, counts, strict=True):
        summary.append([*(f"{setting[axis]:.6g}" for axis in axes), f"{mean:.6g}", int(count)])
    named = [name for name in columns if not name.startswith("sigmoid") and name != IN_FOLDS]
    of_labels: list[Sequence[object]] = [["label", "positives", *named, options.by]]
    for label, name in enumerate(names):
        score = scores[label, which[label]]
        values = [f"{columns[column][label]:.6g}" for column in named]
        of_labels.append([name, int(n_positive[label]), *values, "" if np.isnan(score) else f"{score:.6g}"])
    what = NAMES[options.by]
    lines = []
    if default is not None:
        lines.append(f"{what} in the folds with the defaults: {means[default]:.4f}")
    lines.append(f"best for all labels together: {text_of(settings[best])}: {means[best]:.4f}")
    own = float(np.mean(scores[judged, which[judged]]))
    n_other = int((which[judged] != best).sum())
    if default is not None and len(settings) > 1 and (which[judged] == default).all():
        lines.append(f"no other setting is better by {MARGIN:g}: all labels keep the default")
    elif not options.one:
        lines.append(f"labels with a setting of their own: {n_other:,} of {int(judged.sum()):,}; with these: {own:.4f}")
    return lines, summary, of_labels
