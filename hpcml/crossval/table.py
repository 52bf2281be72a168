"""The result of a cross-validation: means, standard errors, significance and ranks, printed and as CSV."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml.crossval.problems import CvProblem
from hpcml.files import table as tables
from hpcml.files.report import ReportedResult, nan_to_none
from hpcml.log import named, plural

LEVELS = {0.01: "**", 0.05: "*"}  # maximum p of each mark
METHODS_WIDTH = 76  # columns of a printed table without its first column: 100 in all, for names of up to 24 letters


@dataclass(frozen=True)
class Score:
    f1: float  # mean over the folds, per cent
    error: float  # standard error of the mean
    p: float  # of the corrected t-test against the baseline; NaN if undefined
    rank: float  # among the methods, 1 is best; ties share their mean rank

    @property
    def mark(self) -> str:
        return next((mark for level, mark in LEVELS.items() if self.p <= level), "")

    def __str__(self) -> str:
        return f"{self.f1:.1f}±{self.error:.1f}{self.mark:2}"


def score_methods(by_fold: np.ndarray, baseline: int) -> list[Score]:
    means, errors = by_fold.mean(axis=1), by_fold.std(axis=1, ddof=1) / math.sqrt(by_fold.shape[1])
    ranks = average_ranks(means)
    p = [corrected_test(row - by_fold[baseline], 1 / (by_fold.shape[1] - 1)) for row in by_fold]
    return [Score(*(float(value) for value in values)) for values in zip(means, errors, p, ranks, strict=True)]


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks, 1 for the largest value; ties (to 9 decimals) share their mean rank."""
    from scipy.stats import rankdata

    return rankdata(-np.round(values, 9))


def corrected_test(differences: np.ndarray, test_share: float) -> float:
    """Return the two-sided p-value of the differences (n,) between two methods in n ≥ 2 folds.

    The corrected resampled t-test (Nadeau & Bengio 2003), for models that share training rows: t = mean / √((1/n + test_share) ·
    variance) with n − 1 degrees of freedom. `test_share` is the number of test rows divided by the number of training rows, 1/(K −
    1) for K folds. NaN if all differences are 0 or one is NaN.
    """
    from scipy.stats import t

    if not np.any(differences) or np.isnan(differences).any():
        return math.nan
    deviation = float(differences.std(ddof=1)) * math.sqrt(1 / differences.size + test_share)
    return 0.0 if deviation == 0 else float(2 * t.sf(abs(float(differences.mean())) / deviation, differences.size - 1))


@dataclass(frozen=True)
class CrossValidation(ReportedResult):
    """F1 of methods on problems in stratified folds, as returned by `hpcml.cross_validate`; str() is the printed table.

    Parameters
    ----------
    problems : list
        The problems: each has `path`, `label` (None for all labels of the file), `labels`, `n_positive`, `n_rows` and `n_features`.
    methods : list of str
        The names of the methods.
    baseline : str
        The method that the others are compared with.
    folds : int
        Number of folds.
    seed : int
        Random seed of the folds.
    f1 : list of ndarray (n_labels, folds, n_methods), float64
        For each problem, F1 in per cent; 0 if undefined (Carvalho & Cohen 2006, section 4.2).
    seconds : list of ndarray (n_labels, folds, n_methods), float64
        For each problem, the training time in seconds.

    Examples
    --------
    >>> result = hpcml.cross_validate(["dual", "mbw"], ["docs.h5"], folds=5)
    >>> result.by_fold(0).mean(axis=1)  # mean F1 of each method
    array([100., 100.])
    >>> print(result)
    F1 (%): mean ± standard error over 5 folds (seed 0)
    ...
    """

    problems: list[CvProblem]
    methods: list[str]
    baseline: str
    folds: int
    seed: int
    f1: list[np.ndarray]
    seconds: list[np.ndarray]

    def by_fold(self, problem: int) -> np.ndarray:
        """Return F1 of each method in each fold of a problem, the mean over its labels.

        Parameters
        ----------
        problem : int
            Index in `problems`.

        Returns
        -------
        ndarray (n_methods, folds), float64
            F1 in per cent.

        Examples
        --------
        >>> result.by_fold(0).shape
        (2, 5)
        """
        return np.ascontiguousarray(self.f1[problem].mean(axis=0).T)

    def scores(self) -> list[list[Score]]:
        """Return the score of each method for each problem.

        Returns
        -------
        list of list of Score
            Scores with `f1` (mean, per cent), `error` (standard error), `p` (corrected t-test), `rank` and `mark`.

        Examples
        --------
        >>> [score.f1 for score in result.scores()[0]]
        [100.0, 100.0]
        """
        baseline = self.methods.index(self.baseline)
        return [score_methods(self.by_fold(problem), baseline) for problem in range(len(self.problems))]

    def names(self) -> list[str]:
        """Return a short unique name for each problem: its file and, if given, its label.

        Returns
        -------
        list of str
            The names, in the order of `problems`.

        Examples
        --------
        >>> result.names()
        ['docs']
        """
        names = []
        for problem in self.problems:
            same = {other.path for other in self.problems if other.path.stem == problem.path.stem}
            file = problem.path.stem if len(same) == 1 else str(problem.path)
            names.append(file if problem.label is None else f"{file}:{problem.label}")
        return names

    def describe(self) -> Iterator[str]:
        """Yield the lines of the printed text.

        Yields
        ------
        str
            The table, then the notes on it.

        Examples
        --------
        >>> print(*result.describe(), sep="\\n")
        F1 (%): mean ± standard error over 5 folds (seed 0)
        ...
        """
        yield f"F1 (%): mean ± standard error over {self.folds} folds (seed {self.seed})"
        yield from ["", *format_table(self.names(), self.methods, self.scores()), ""]
        if len(self.methods) > 1:
            yield f"* p ≤ 0.05, ** p ≤ 0.01: differs from {self.baseline} (corrected resampled t-test)"
        for name, problem in zip(self.names(), self.problems, strict=True):
            if len(problem.labels) > 1 or problem.n_left_out:
                skipped = f" ({problem.n_left_out} with too few rows skipped)" if problem.n_left_out else ""
                yield f"{named(name)}: mean over {plural(len(problem.labels), 'label')}{skipped}"

    def write_csv(self, path: Path | str) -> None:
        """Write a CSV file with a line for each problem and method; undefined values are empty cells.

        Parameters
        ----------
        path : Path or str
            The file; an existing one is replaced.

        Raises
        ------
        DataError
            If the file cannot be written.

        Examples
        --------
        >>> result.write_csv("cv.csv")
        """
        sizes = ["data", "label", "n_labels", "n_rows", "n_features", "n_positive"]
        values = ["method", "f1", "standard_error", "p", "mark", "rank", "seconds"]
        rows: list[list[object]] = [[*sizes, *values, *(f"f1_{fold + 1}" for fold in range(self.folds))]]
        for number, (problem, scores) in enumerate(zip(self.problems, self.scores(), strict=True)):
            about = [problem.path, problem.label or "", len(problem.labels), problem.n_rows, problem.n_features]
            about.append(problem.n_positive.sum())
            seconds = self.seconds[number].sum(axis=(0, 1)).tolist()
            for index, (method, score) in enumerate(zip(self.methods, scores, strict=True)):
                result = [method, score.f1, score.error, nan_to_none(score.p), score.mark, score.rank, round(seconds[index], 4)]
                rows.append([*about, *result, *self.by_fold(number)[index].tolist()])
        tables.write_table(path, rows)


def format_table(names: Sequence[str], methods: Sequence[str], scores: Sequence[Sequence[Score]]) -> list[str]:
    """Return a table with a row per problem and a column per method; wide tables are split by methods."""
    columns = list(zip(*scores, strict=True))
    first = ["", *names, "median F1", "mean rank"]
    cells = [
        [
            method,
            *map(str, column),
            f"{np.median([score.f1 for score in column]):.1f}  ",
            f"{np.mean([score.rank for score in column]):.2f}  ",
        ]
        for method, column in zip(methods, columns, strict=True)
    ]
    lines: list[str] = []
    while cells:
        widths = np.cumsum([2 + max(map(len, column)) for column in cells])
        n = max(1, int(np.searchsorted(widths, METHODS_WIDTH, "right")))
        block = [line.rstrip() for line in tables.table([list(row) for row in zip(first, *cells[:n], strict=True)])]
        lines += [*([""] if lines else []), *block[:-2], "", *block[-2:]]
        cells = cells[n:]
    return lines
