"""The tasks of a cross-validation (data, label, part, method), divided over the ranks.

Which rank does a task changes nothing in it, so the numbers are the same on any number of ranks. The
fold of a row is drawn from the seed by the key of the row or its group, so it does not depend on the
order of the rows.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.crossval.methods import CvMethod
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, Loaded
from hpcml.data import stratify
from hpcml.data.scaling import scale_matrices
from hpcml.errors import ConfigError, HpcmlError
from hpcml.log import Log
from hpcml.measures import f1
from hpcml.model import learner as learners
from hpcml.partition import bounds_by_weight
from hpcml.rng import bits
from hpcml.run.driver import Driver, Job

Parts = tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]  # X and y to train on, X and y to judge on


class Task(NamedTuple):
    """One classifier to train and to judge, by numbers."""

    problem: int
    label: int  # among the problem's
    part: int  # the fold
    method: int


class TaskResult(NamedTuple):
    """The outcome of a task: the measure, the seconds of training, and a name."""

    measured: float
    seconds: float
    name: str


def folds_of(seed: int, keys: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows) of each row, by the keys of rows or groups; `has` is its class.

    Folds have even shares of each class, as far as groups allow (`hpcml.data.stratify`).
    """
    return stratify.deal(2, np.arange(has.size + 1), has, n_folds, keys, bits(seed, "fold", keys)).astype(np.int64)


def training_order(seed: int, keys: np.ndarray) -> np.ndarray:
    """Positions in `keys`, drawn: single-pass learners depend on order, files may be sorted."""
    return np.lexsort((np.arange(keys.size), bits(seed, "order", keys)))


class CvTasks(Job):
    """All tasks, ordered by data, label, fold and method; and the range of this rank."""

    doing = title = "cross-validating"

    def __init__(self, comm: mpi.Comm, problems: Sequence[CvProblem], methods: Sequence[CvMethod], options: CvOptions) -> None:
        self.comm, self.problems, self.methods = comm, problems, methods
        self.folds, self.seed, self.in_order, self.scale = options.folds, options.seed, options.in_order, options.scale
        self.shapes = [(len(problem.labels), options.folds, len(methods)) for problem in problems]
        costs = np.concatenate([self._costs(problem) for problem in problems])
        self.total = costs.size
        bounds = bounds_by_weight(np.concatenate([[0], np.cumsum(costs)]), comm.size)
        self.begin, self.end = (int(bound) for bound in bounds[comm.rank : comm.rank + 2])
        self.found: list[TaskResult] = []  # of this rank's tasks

    def _dense(self, problem: CvProblem) -> list[bool]:
        return [method.wants_dense(problem.n_rows, problem.n_features, problem.nnz) for method in self.methods]

    def _costs(self, problem: CvProblem) -> np.ndarray:
        """The rough cost of each of the problem's tasks (int64)."""
        sizes = [problem.n_rows * problem.n_features if dense else problem.nnz + problem.n_rows for dense in self._dense(problem)]
        costs = [1 + int(method.cost * size) for method, size in zip(self.methods, sizes, strict=True)]
        return np.tile(np.array(costs, dtype=np.int64), len(problem.labels) * self.folds)

    def tasks(self) -> Iterator[Task]:
        """This rank's tasks."""
        first = 0
        for number, shape in enumerate(self.shapes):
            size = math.prod(shape)
            for place in range(max(self.begin, first), min(self.end, first + size)):
                yield Task(number, *(int(part) for part in np.unravel_index(place - first, shape)))
            first += size

    @property
    def n_done(self) -> float:
        """This rank's tasks that are done."""
        return len(self.found)

    def note(self, turns: int) -> str:
        """The last of them."""
        return self.found[-1].name if self.found else ""

    def keep(self, finished: TaskResult) -> None:
        """Take what came of a task. Local."""
        self.found.append(finished)

    def solve(self) -> Generator[TaskResult, None, None]:
        """This rank's tasks, one after the other. Local; raises HpcmlError."""
        loaded = parts = order = None
        before = Task(-1, -1, -1, -1)
        for task in self.tasks():
            problem, method = self.problems[task.problem], self.methods[task.method]
            number = int(problem.numbers[task.label])
            if loaded is None or loaded.source != problem.source:
                loaded = parts = order = None  # not two files in memory
                loaded = Loaded(problem)
            if order is None:
                order = np.arange(problem.n_rows) if self.in_order else training_order(self.seed, loaded.row_keys)
            if task[:3] != before[:3]:
                parts = self._parts(loaded, number, task.part, order)
            before = task
            seed = int(bits(self.seed, "cross-validation", np.array(task.part))) >> 32
            try:
                dense = self._dense(problem)[task.method]
                found, seconds = fit_and_judge(method, parts, seed, dense)
            except HpcmlError as error:
                text = str(error).removeprefix(f"--base {method.name}: ")
                place = f"{problem.named(task.label)}, fold {task.part + 1}"
                raise ConfigError(f"{place}, {method.name}: {text}") from None
            yield TaskResult(found, seconds, f"({method.name} on {problem.path.name})")

    def _parts(self, loaded: Loaded, label: int, part: int, order: np.ndarray) -> Parts:
        """The rows of a fold, and the others in `order`, to train on."""
        y = loaded.has(label)
        judged = folds_of(self.seed, loaded.keys, y, self.folds) == part
        train = order[~judged[order]]
        X, X_judged = loaded.rows_for(label, train), loaded.rows_for(label, judged)
        if self.scale != "none":
            scale_matrices(self.scale, X, X_judged)
        return X, y[train], X_judged, y[judged]

    def run(self, log: Log) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Collective. For each problem measures and seconds (n_labels, n_parts, n_methods each)."""
        with mpi.node_first(self.comm):
            _warm_up(self.methods)
        Driver(self.comm, mpi.self_comm()).run(self.solve(), self, log)  # signals end the process
        found = np.array([each[:2] for each in self.found], dtype=np.float64).reshape(-1, 2)
        whole = np.concatenate(mpi.allgather_arrays(self.comm, found))
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        pieces = [piece.reshape(*shape, 2) for piece, shape in zip(np.split(whole, ends), self.shapes, strict=True)]
        return [piece[..., 0] for piece in pieces], [piece[..., 1] for piece in pieces]


def _warm_up(methods: Sequence[CvMethod]) -> None:
    """Let our kernels be compiled, outside of the seconds that are counted."""
    X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (8, 1)))  # a torus needs a row for each node
    for method in methods:
        if method.is_ours:
            learners.fit(method.learner, X, np.arange(32) % 2, 0)


def fit_and_judge(method: CvMethod, parts: Parts, seed: int, dense: bool) -> tuple[float, float]:
    """F1 in per cent on the test rows (0 where it is undefined: Carvalho & Cohen 2006, 4.2), and the
    seconds of training. Local; raises HpcmlError.
    """
    X, y, X_test, y_test = parts
    if dense:
        X, X_test = X.toarray(), X_test.toarray()
    begin = time.perf_counter()
    classifier = learners.fit(method.learner, X, y, seed)
    seconds = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given, true = np.asarray(classifier.predict(X_test)) == 1, y_test == 1
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            raise ConfigError(f"it cannot judge these rows: {learners.one_line(error)}") from None
    return float(np.nan_to_num(f1(100 * np.count_nonzero(given & true), np.count_nonzero(given), np.count_nonzero(true)))), seconds
