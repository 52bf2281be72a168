"""Precision in the first ranks, bootstrap shift test; for people and as CSV (Wilbur 2000)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcml.crossval.problems import CvProblem
from hpcml.crossval.protocols import negatives_held_out
from hpcml.crossval.table import file_names, left_out
from hpcml.files import table as tables
from hpcml.log import joined, named
from hpcml.rng import bits

RESAMPLES = 10_000
BLOCK = 1000  # resamples that are in memory at a time
LEVEL = 0.01  # largest p that has a mark
FEW = 50  # splits; of normal differences about 0 the test marks 1.4 % with 50 splits, 2.3 % with 20, 3.5 % with 10, 13 % with 4
ROUNDING = 1e-9  # sums that differ by less are the same


@dataclass(frozen=True)
class TopLine:
    """A label, its place among the problem's, and what the methods have reached on it."""

    problem: CvProblem
    place: int
    name: str
    precision: np.ndarray  # (splits, n_methods), per cent
    p: list[float]  # of each method beside the one before it; NaN where there is nothing to test

    @property
    def means(self) -> list[float]:
        """Mean precision of each method over the splits."""
        means: list[float] = self.precision.mean(axis=0).tolist()
        return means

    @property
    def differences(self) -> np.ndarray:
        """Precision of each method minus the one before it's (splits, n_methods − 1)."""
        return np.diff(self.precision, axis=1)

    @property
    def marks(self) -> list[str]:
        """* for a method whose difference to the one before it is significant."""
        return ["*" if p <= LEVEL else "" for p in self.p]


@dataclass(frozen=True)
class TopPrecision:
    """Precision in the first `top` ranks of methods on labels; str() is the table."""

    problems: list[CvProblem]
    methods: list[str]
    top: int
    splits: int
    seed: int
    precision: list[np.ndarray]  # for each problem (n_labels, splits, n_methods), per cent
    seconds: list[np.ndarray]  # of training, the same shape

    @cached_property
    def lines(self) -> list[TopLine]:
        """A line for each label of each problem."""
        whole = np.concatenate(self.precision)  # (all labels, splits, n_methods)
        differences = np.diff(whole, axis=2).transpose(0, 2, 1)
        p = shift_test(differences.reshape(-1, self.splits), self.seed).reshape(differences.shape[:2])
        files = file_names(self.problems)
        found = (
            (problem, file, place)
            for problem, file in zip(self.problems, files, strict=True)
            for place in range(len(problem.labels))
        )
        return [
            TopLine(problem, place, f"{file}:{problem.labels[place]}", precision, [math.nan, *tests])
            for (problem, file, place), precision, tests in zip(found, whole, p.tolist(), strict=True)
        ]

    def __str__(self) -> str:
        rows = [[f"precision in the first {self.top} ranks (%)", *self.methods]]
        for line in self.lines:
            rows.append([line.name, *(f"{mean:.1f}{mark:1}" for mean, mark in zip(line.means, line.marks, strict=True))])
        if len(self.lines) > 1:
            rows.append(["mean", *(f"{mean:.1f} " for mean in np.mean([line.means for line in self.lines], axis=0))])
        return joined([*self._legend(), "", *tables.table(rows)])

    def _legend(self) -> list[str]:
        """The meaning of the cells."""
        held_out = f"{self.top} rows of the label and the same share of the others"
        legend = [f"mean of {self.splits} splits (seed {self.seed}); each ranks {held_out}"]
        if len(self.methods) > 1:
            test = f"bootstrap shift test over the splits, {RESAMPLES:,} resamples"
            legend.append(f"* p ≤ {LEVEL}: differs from the method to its left ({test})")
            if self.splits < FEW:
                legend.append(f"with fewer than {FEW} splits the test finds differences too often: judge by more --splits")
        for file, problem in zip(file_names(self.problems), self.problems, strict=True):
            if problem.n_left_out:
                legend.append(f"{named(file)}: {len(problem.labels)} label(s){left_out(problem)}")
        return legend


def shift_test(differences: np.ndarray, seed: int) -> np.ndarray:
    """p of the two-tailed bootstrap shift test (Noreen 1989) of rows of differences (n_tests, n).

    The differences are shifted to the mean 0, and resampled with replacement: p is the share of
    resamples whose mean is as far from 0 as that of the differences, which counts as one resample
    itself. All tests have the same resamples. NaN where all differences are 0.
    """
    n_tests, n = differences.shape
    total = differences.sum(axis=1)
    shifted = differences - total[:, None] / n
    extreme = np.ones(n_tests, dtype=np.int64)
    for begin in range(0, RESAMPLES, BLOCK):
        draws = np.arange(begin * n, (begin + BLOCK) * n).reshape(BLOCK, n)
        drawn = (bits(seed, "bootstrap", draws) % np.uint64(n)).astype(np.int64)
        times = np.bincount((drawn + n * np.arange(BLOCK)[:, None]).ravel(), minlength=BLOCK * n).reshape(BLOCK, n)
        sums = shifted @ times.T.astype(np.float64)
        extreme += np.count_nonzero(np.abs(sums) >= np.abs(total)[:, None] - ROUNDING, axis=1)
    nothing = (np.abs(differences) < ROUNDING).all(axis=1)
    return np.where(nothing, math.nan, extreme / (RESAMPLES + 1))


def top_csv_text(result: TopPrecision) -> str:
    """A line for each label and method; what is not defined is an empty cell."""
    sizes = ["data", "label", "n_rows", "n_features", "n_positive", "held_out_positive", "held_out_negative"]
    values = ["method", "precision", "standard_deviation", "compared_with", "difference", "p", "mark"]
    rows: list[list[object]] = [[*sizes, *values, *(f"precision_{split + 1}" for split in range(result.splits))]]
    return tables.csv_text([*rows, *_csv_rows(result)])


def _csv_rows(result: TopPrecision) -> Iterator[list[object]]:
    for line in result.lines:
        problem, n_positive = line.problem, int(line.problem.n_positive[line.place])
        about = [problem.path, problem.labels[line.place], problem.n_rows, problem.n_features, n_positive, result.top]
        about.append(int(negatives_held_out(n_positive, problem.n_rows - n_positive, result.top)))
        for number, method in enumerate(result.methods):
            mine = line.precision[:, number]
            found = [method, line.means[number], float(mine.std(ddof=1))]
            p = line.p[number]
            tested = [result.methods[number - 1], float(line.differences[:, number - 1].mean())] if number else ["", ""]
            yield [*about, *found, *tested, "" if math.isnan(p) else p, line.marks[number], *mine.tolist()]
