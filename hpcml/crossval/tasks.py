"""The tasks of a cross-validation (data, label, fold, method), divided over the ranks; every rank reads the rows that it needs.

Which rank does a task changes nothing in it, so the numbers are the same on any number of ranks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.crossval.methods import CvMethod, divide_path, method_of
from hpcml.crossval.methods import methods as known_methods
from hpcml.crossval.problems import CvProblem, Loaded, folds_of, read_problem, training_order
from hpcml.crossval.table import CrossValidation
from hpcml.errors import ConfigError, DataError, HpcmlError
from hpcml.log import Log, Progress
from hpcml.model import learner as learners
from hpcml.mpi.memory import room_per_rank
from hpcml.partition import bounds_by_weight
from hpcml.rng import bits

IDLE_SECONDS = 0.005  # a rank that is done asks so often whether the others are
SPARSE_BYTES = 48  # of memory for each value: the file's rows, those to train on, a learner's copy in double precision
DENSE_BYTES = 16  # beside it, if a learner takes dense rows
FEATURE_BYTES = 100  # for the weights of a linear classifier, voted ones having most

Parts = tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]  # X and y to train on, X and y to judge on


class Task(NamedTuple):
    """One classifier to train and to judge, by numbers."""

    problem: int
    label: int  # among the problem's
    fold: int
    method: int


@mpi.collective
def cross_validate(
    comm: mpi.Comm | None,
    methods: Sequence[str],
    data: Sequence[str | Path],
    folds: int = 5,
    label: Sequence[str] = (),
    split: str = "all",
    seed: int = 0,
    baseline: str | None = None,
    in_order: bool = False,
    bias: bool = True,
    log: Log | None = None,
) -> CrossValidation:
    """Collective over `comm` (None: this process alone). F1 of every method on every file, in folds (Carvalho & Cohen 2006, 4.2).

    Parameters
    ----------
    methods : names
        Of those with a name of their own, of base learners, or dotted paths of scikit-learn classifiers.
    data : FILE or FILE:LABEL
        Dataset files. Without a label every label of the file (or each of `label`) is told from all others; the file's result is
        the mean over them.
    folds : int
        How many; all methods are trained and judged on the same rows.
    split : str
        Which rows of the files take part.
    seed : int
        Draws the folds, the order of the training rows and the classifiers' own random numbers.
    baseline : name
        The method that the others are compared with; by default the first.
    in_order : bool
        Train on rows in the order of the file.
    bias : bool
        False: probe, dual, perceptron, pa, romma, their voted forms and svm have no intercept.

    Raises
    ------
    ConfigError, DataError
        For what the user can mend.
    """
    with mpi.duplicated(comm) as comm:
        log = log or Log(comm.rank)
        with mpi.agreed(comm, "preparing the methods"):
            chosen = [method_of(name) if bias else method_of(name).without_intercept() for name in methods]
            _check(methods, data, folds, baseline)
        problems = None
        with mpi.agreed(comm, "reading the labels"):
            if comm.rank == 0:
                refusing = [method.name for method in chosen if method.non_negative]
                problems = [read_problem(*_path(name), label, split, folds, refusing) for name in data]
        problems = comm.bcast(problems)
        for problem in problems:
            _check_room(comm, problem, chosen)
            left_out = f"; {problem.n_left_out} with too few rows of a class are left out" if problem.n_left_out else ""
            sizes = f"{problem.n_rows:,} rows × {problem.n_features:,} features, {len(problem.labels)} label(s)"
            log(f"{problem.path}: {sizes}{left_out}")
        f1, seconds = Work(comm, problems, chosen, folds, seed, in_order).run(log)
    return CrossValidation(problems, list(methods), baseline or methods[0], folds, seed, f1, seconds)


def _path(name: str | Path) -> tuple[Path, str | None]:
    """The file and label of a name. Raises DataError."""
    found = divide_path(str(name))
    if found is None:
        raise DataError(f"{name}: there is no such file")
    return found


def _check(methods: Sequence[str], data: Sequence[str | Path], folds: int, baseline: str | None) -> None:
    """Raise ConfigError for options that make no sense."""
    if not methods:
        raise ConfigError(f"name at least one method: {', '.join(sorted(known_methods()))}")
    if not data:
        raise ConfigError("name at least one dataset file made with `hpcml convert`")
    for names in (list(methods), [str(name) for name in data]):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"{twice} is named twice")
    if folds < 2:
        raise ConfigError(f"--folds {folds}: expected at least 2")
    if baseline is not None and baseline not in methods:
        raise ConfigError(f"--baseline {baseline}: not among the methods: {', '.join(methods)}")


@mpi.collective
def _check_room(comm: mpi.Comm, problem: CvProblem, methods: Sequence[CvMethod]) -> None:
    """Collective over `comm`. Raise ConfigError if a rank cannot hold the rows and what the methods make of them."""
    room = room_per_rank(comm)
    dense = [method.name for method in methods if method.wants_dense(problem.n_rows, problem.n_features, problem.nnz)]
    needed = SPARSE_BYTES * problem.nnz + FEATURE_BYTES * problem.n_features
    needed += DENSE_BYTES * problem.n_rows * problem.n_features * bool(dense)
    if needed > room:
        why = f" ({', '.join(dense)} need dense rows)" if dense else ""
        raise ConfigError(
            f"{problem.path}: every rank needs all its rows, about {needed / 2**30:.1f} GiB{why}, but a rank has "
            f"{room / 2**30:.1f} GiB; use fewer ranks on a node, or fewer rows (--split)"
        )


class Work:
    """All tasks, ordered by data, label, fold and method, and the range of them that is this rank's."""

    def __init__(
        self, comm: mpi.Comm, problems: Sequence[CvProblem], methods: Sequence[CvMethod], folds: int, seed: int, in_order: bool
    ) -> None:
        self.comm, self.problems, self.methods = comm, problems, methods
        self.folds, self.seed, self.in_order = folds, seed, in_order
        costs = np.concatenate([self._costs(problem) for problem in problems])
        self.n_tasks = costs.size
        bounds = bounds_by_weight(np.concatenate([[0], np.cumsum(costs)]), comm.size)
        self.begin, self.end = (int(bound) for bound in bounds[comm.rank : comm.rank + 2])

    def _dense(self, problem: CvProblem) -> list[bool]:
        """Which methods take dense rows."""
        return [method.wants_dense(problem.n_rows, problem.n_features, problem.nnz) for method in self.methods]

    def _costs(self, problem: CvProblem) -> np.ndarray:
        """What each of the problem's tasks costs, roughly (int64)."""
        sizes = [problem.n_rows * problem.n_features if dense else problem.nnz + problem.n_rows for dense in self._dense(problem)]
        costs = [1 + int(method.cost * size) for method, size in zip(self.methods, sizes, strict=True)]
        return np.tile(np.array(costs, dtype=np.int64), len(problem.labels) * self.folds)

    def tasks(self) -> Iterator[Task]:
        """This rank's tasks."""
        first = 0
        for number, problem in enumerate(self.problems):
            shape = (len(problem.labels), self.folds, len(self.methods))
            size = int(np.prod(shape))
            for place in range(max(self.begin, first), min(self.end, first + size)):
                yield Task(number, *(int(part) for part in np.unravel_index(place - first, shape)))
            first += size

    def results(self) -> Iterator[tuple[float, float, str]]:
        """F1 in per cent, seconds of training and a name, of each of this rank's tasks. Local; raises HpcmlError."""
        loaded = parts = None
        before = Task(-1, -1, -1, -1)
        for task in self.tasks():
            problem, method = self.problems[task.problem], self.methods[task.method]
            if loaded is None or loaded.source != problem.source:
                loaded = parts = None  # not two files in memory
                loaded = Loaded(problem)
                order = np.arange(problem.n_rows) if self.in_order else training_order(self.seed, loaded.rows)
            if task[:3] != before[:3]:
                parts = self._parts(loaded, int(problem.numbers[task.label]), task.fold, order)
            before = task
            try:
                f1, seconds = fit_and_judge(method, *parts, self._seed(task), self._dense(problem)[task.method])
            except HpcmlError as error:
                text = str(error).removeprefix(f"--base {method.name}: ")
                raise ConfigError(f"{problem.named(task.label)}, fold {task.fold + 1}, {method.name}: {text}") from None
            yield f1, seconds, f"({method.name} on {problem.path.name})"

    def _parts(self, loaded: Loaded, label: int, fold: int, order: np.ndarray) -> Parts:
        """The rows of a fold, and the others in `order`, to train on."""
        y = loaded.has(label)
        judged = folds_of(self.seed, loaded.rows, y, self.folds) == fold
        train = order[~judged[order]]
        return loaded.rows_for(label, train), y[train], loaded.rows_for(label, judged), y[judged]

    def _seed(self, task: Task) -> int:
        """The random numbers of a classifier depend on the fold only."""
        return int(bits(self.seed, "cross-validation", np.array(task.fold))) >> 32

    @mpi.collective
    def run(self, log: Log) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Collective. For each problem F1 in per cent (n_labels, folds, n_methods) and the seconds of training (same shape)."""
        with mpi.node_first(self.comm):
            _warm_up(self.methods)
        found = np.zeros((self.end - self.begin, 2))
        progress = Progress(log, "cross-validating", self.n_tasks)
        try:
            error = self._work(found, progress)
        finally:
            progress.close()
        with mpi.agreed(self.comm, "cross-validating"):
            if error is not None:
                raise error
        whole = np.concatenate(mpi.allgather_arrays(self.comm, found))
        shapes = [(len(problem.labels), self.folds, len(self.methods)) for problem in self.problems]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        pieces = [piece.reshape(*shape, 2) for piece, shape in zip(np.split(whole, ends[:-1]), shapes, strict=True)]
        return [piece[..., 0] for piece in pieces], [piece[..., 1] for piece in pieces]

    @mpi.collective
    def _work(self, found: np.ndarray, progress: Progress) -> Exception | None:
        """Collective. Do this rank's tasks until all ranks have done theirs, or one has failed; this rank's failure."""
        pulse = mpi.RepeatedSum(self.comm, mpi.self_comm(), 2)
        results, done, note, error = self.results(), 0, "", None
        while True:
            if error is None and done < found.shape[0]:
                try:
                    *found[done], note = next(results)
                    done += 1
                except Exception as failure:  # noqa: BLE001 - the others learn of it by the pulse, and all raise it
                    error = failure
            elif self.comm.size > 1:
                time.sleep(IDLE_SECONDS)
            seen = pulse.poll((done, error is not None))
            if seen is None:
                continue
            progress.update(int(seen[0]), note)
            if seen[1] or seen[0] == self.n_tasks:
                return error


def _warm_up(methods: Sequence[CvMethod]) -> None:
    """Let our kernels be compiled, outside of the seconds that are counted."""
    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (8, 1)))  # a torus needs a row for each node
    for method in methods:
        if method.is_ours:
            learners.fit(method.learner, X, np.arange(32) % 2, 0)


def fit_and_judge(
    method: CvMethod, X: sp.csr_matrix, y: np.ndarray, X_test: sp.csr_matrix, y_test: np.ndarray, seed: int, dense: bool
) -> tuple[float, float]:
    """F1 of class 1 on the test rows, in per cent, and the seconds that training took. Local; raises ConfigError."""
    if dense:
        X, X_test = X.toarray(), X_test.toarray()
    begin = time.perf_counter()
    classifier = learners.fit(method.learner, X, y, seed)
    seconds = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f1_score(np.asarray(classifier.predict(X_test)) == 1, y_test == 1), seconds
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            raise ConfigError(f"it cannot judge these rows: {learners.one_line(error)}") from None


def f1_score(predicted: np.ndarray, true: np.ndarray) -> float:
    """2 · precision · recall / (precision + recall) in per cent; 0 where that is not defined (Carvalho & Cohen 2006, 4.2)."""
    hits = np.count_nonzero(predicted & true)
    return 200.0 * hits / (np.count_nonzero(predicted) + np.count_nonzero(true)) if hits else 0.0
