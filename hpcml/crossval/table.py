"""Means, standard errors, significance and ranks of a cross-validation: for people, and as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml.crossval.problems import CvProblem
from hpcml.files import table as tables
from hpcml.files.report import ReportedResult, or_none
from hpcml.log import named, plural

LEVELS = {0.01: "**", 0.05: "*"}  # largest p of each mark


@dataclass(frozen=True)
class Score:
    """A method on a problem: mean F1 in per cent, standard error over folds, comparison."""

    f1: float
    error: float
    p: float  # of the corrected t-test against the baseline; NaN where there is none
    rank: float  # among the methods, 1 the best; equals share the mean of their ranks

    @property
    def mark(self) -> str:
        """** or * if the difference to the baseline is significant."""
        return next((mark for level, mark in LEVELS.items() if self.p <= level), "")

    def __str__(self) -> str:
        return f"{self.f1:.1f}±{self.error:.1f}{self.mark:2}"


def score_methods(by_fold: np.ndarray, baseline: int) -> list[Score]:
    """The score of each method from its F1 in each fold (n_methods, folds)."""
    means, errors = by_fold.mean(axis=1), by_fold.std(axis=1, ddof=1) / math.sqrt(by_fold.shape[1])
    ranks = average_ranks(means)
    p = [corrected_test(row - by_fold[baseline], 1 / (by_fold.shape[1] - 1)) for row in by_fold]
    return [Score(*(float(value) for value in values)) for values in zip(means, errors, p, ranks, strict=True)]


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, 1 for the largest; equal values (to 9 decimals) share the mean of their ranks."""
    from scipy.stats import rankdata

    return rankdata(-np.round(values, 9))


def corrected_test(differences: np.ndarray, test_share: float) -> float:
    """Return the two-sided p of the differences (n,) of two methods in n ≥ 2 folds.

    The corrected resampled t-test (Nadeau & Bengio 2003), for models that share training rows. `test_share` is the number of test
    rows divided by that of training rows: 1/(K − 1) for K folds. The statistic is mean / √((1/n + test_share) · variance), with n −
    1 degrees of freedom. NaN if all differences are 0 or one is NaN.
    """
    from scipy.stats import t

    if not np.any(differences) or np.isnan(differences).any():
        return math.nan
    deviation = float(differences.std(ddof=1)) * math.sqrt(1 / differences.size + test_share)
    return 0.0 if deviation == 0 else float(2 * t.sf(abs(float(differences.mean())) / deviation, differences.size - 1))


@dataclass(frozen=True)
class CrossValidation(ReportedResult):
    """F1 of methods on problems; str() is the table."""

    problems: list[CvProblem]
    methods: list[str]
    baseline: str
    folds: int
    seed: int
    f1: list[np.ndarray]  # for each problem (n_labels, folds, n_methods), per cent
    seconds: list[np.ndarray]  # of training, the same shape

    def by_fold(self, problem: int) -> np.ndarray:
        """F1 of each method in each fold (n_methods, folds): the mean over the problem's labels."""
        return np.ascontiguousarray(self.f1[problem].mean(axis=0).T)

    def scores(self) -> list[list[Score]]:
        """For each problem the score of each method."""
        baseline = self.methods.index(self.baseline)
        return [score_methods(self.by_fold(problem), baseline) for problem in range(len(self.problems))]

    def names(self) -> list[str]:
        """A short name for each problem: the file's, and the label that was asked for."""
        names = []
        for problem in self.problems:
            same = {other.path for other in self.problems if other.path.stem == problem.path.stem}
            file = problem.path.stem if len(same) == 1 else str(problem.path)
            names.append(file if problem.label is None else f"{file}:{problem.label}")
        return names

    def describe(self) -> Iterator[str]:
        """Return the table, below what is in it."""
        yield f"F1 in per cent, mean ± standard error of {self.folds} folds (seed {self.seed})"
        if len(self.methods) > 1:
            yield f"* p ≤ 0.05, ** p ≤ 0.01: differs from {self.baseline} (corrected t-test over the folds)"
        for name, problem in zip(self.names(), self.problems, strict=True):
            if len(problem.labels) > 1 or problem.n_left_out:
                left_out = f" ({problem.n_left_out} with too few rows left out)" if problem.n_left_out else ""
                yield f"{named(name)}: mean over {plural(len(problem.labels), 'label')}{left_out}"
        yield from ["", *format_table(self.names(), self.methods, self.scores())]

    def write_csv(self, path: Path | str) -> None:
        """Write a line for each problem and method; what is not defined is an empty cell."""
        sizes = ["data", "label", "n_labels", "n_rows", "n_features", "n_positive"]
        values = ["method", "f1", "standard_error", "p", "mark", "rank", "seconds"]
        rows: list[list[object]] = [[*sizes, *values, *(f"f1_{fold + 1}" for fold in range(self.folds))]]
        for number, (problem, scores) in enumerate(zip(self.problems, self.scores(), strict=True)):
            about = [problem.path, problem.label or "", len(problem.labels), problem.n_rows, problem.n_features]
            about.append(problem.n_positive.sum())
            seconds = self.seconds[number].sum(axis=(0, 1)).tolist()
            for place, (method, score) in enumerate(zip(self.methods, scores, strict=True)):
                found = [method, score.f1, score.error, or_none(score.p), score.mark, score.rank, round(seconds[place], 4)]
                rows.append([*about, *found, *self.by_fold(number)[place].tolist()])
        tables.write_table(path, rows)


def format_table(names: Sequence[str], methods: Sequence[str], scores: Sequence[Sequence[Score]]) -> list[str]:
    """A row a problem, a column a method; below them median F1 and average rank."""
    columns = list(zip(*scores, strict=True))
    medians = [f"{np.median([score.f1 for score in column]):.1f}  " for column in columns]
    ranks = [f"{np.mean([score.rank for score in column]):.2f}  " for column in columns]
    rows = [[name, *map(str, row)] for name, row in zip(names, scores, strict=True)]
    lines = [line.rstrip() for line in tables.table([["", *methods], *rows, ["median F1", *medians], ["average rank", *ranks]])]
    return [*lines[:-2], "", *lines[-2:]]
