"""The tasks of a cross-validation (data, label, part, method), divided over the ranks.

Which rank does a task changes nothing in it, so the numbers are the same on any number of ranks. The fold of a row is drawn from
the seed by the key of the row or its group, so it does not depend on the order of the rows.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.crossval.methods import CvMethod
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, Loaded
from hpcml.data import stratify
from hpcml.data.scaling import scale_matrices
from hpcml.errors import ConfigError, HpcmlError, OptionError
from hpcml.log import Log
from hpcml.measures import f1
from hpcml.model import learner as learners
from hpcml.partition import bounds_by_weight
from hpcml.rng import bits
from hpcml.run.driver import Driver, Job

Parts = tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray, np.ndarray]  # X and y to train on, X, y and `empty` to judge on


class Task(NamedTuple):
    """One classifier to train and to judge, by numbers."""

    problem: int
    label: int  # among the problem's
    part: int  # the fold
    method: int


def folds_of(seed: int, keys: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows) of each row, by the keys of rows or groups; `has` is its class.

    Folds have even shares of each class, as far as groups allow (`hpcml.data.stratify`).
    """
    return stratify.deal(2, np.arange(has.size + 1), has, n_folds, keys, bits(seed, "fold", keys)).astype(np.int64)


def training_order(seed: int, keys: np.ndarray) -> np.ndarray:
    """Positions in `keys`, drawn: single-pass learners depend on order, files may be sorted."""
    return np.lexsort((np.arange(keys.size), bits(seed, "order", keys)))


class CvTasks(Job):
    """All tasks, ordered by data, label, fold and method; and those of this rank."""

    doing = title = "cross-validating"
    n_done = 0.0

    def __init__(self, comm: mpi.Comm, problems: Sequence[CvProblem], methods: Sequence[CvMethod], options: CvOptions) -> None:
        self.comm, self.problems, self.methods, self.options = comm, problems, methods, options
        self.shapes = [(len(problem.labels), options.folds, len(methods)) for problem in problems]
        self.dense = [
            [each.wants_dense(problem.n_rows, problem.n_features, problem.nnz) for each in methods] for problem in problems
        ]
        tasks, costs = list[Task](), list[int]()
        for number, (problem, shape) in enumerate(zip(problems, self.shapes, strict=True)):
            tasks += [Task(number, *place) for place in np.ndindex(*shape)]
            sparse_size, dense_size = problem.nnz + problem.n_rows, problem.n_rows * problem.n_features
            sizes = [dense_size if dense else sparse_size for dense in self.dense[number]]
            of_methods = [1 + int(method.cost * size) for method, size in zip(methods, sizes, strict=True)]
            costs += of_methods * (len(problem.labels) * options.folds)
        self.total = len(tasks)
        bounds = bounds_by_weight(np.concatenate([[0], np.cumsum(costs)]), comm.size)
        self.tasks = tasks[bounds[comm.rank] : bounds[comm.rank + 1]]
        self.results: list[tuple[float, float]] = []  # of this rank's tasks: the measure, and the seconds of training

    def keep(self, finished: tuple[float, float]) -> None:
        """Take the result of a task. Local."""
        self.results.append(finished)
        self.n_done += 1

    def solve(self) -> Generator[tuple[float, float], None, None]:
        """Yield the results of this rank's tasks, one after the other. Local; raises HpcmlError."""
        loaded: Loaded | None = None
        parts = order = before = None
        seed = self.options.seed
        for task in self.tasks:
            problem, method = self.problems[task.problem], self.methods[task.method]
            if loaded is None or loaded.source != (problem.path, problem.split):
                loaded = parts = before = None  # not two files in memory
                loaded = Loaded(problem)
                order = np.arange(problem.n_rows) if self.options.in_order else training_order(seed, loaded.row_keys)
            if task[:3] != before:
                number = int(problem.numbers[task.label])
                y = loaded.has(number)
                judged = folds_of(seed, loaded.keys, y, self.options.folds) == task.part
                train = order[~judged[order]]
                X, X_judged = loaded.rows_for(number, train), loaded.rows_for(number, judged)
                if self.options.scale not in (None, "none"):
                    scale_matrices(self.options.scale, X, X_judged)
                parts, before = (X, y[train], X_judged, y[judged], loaded.empty[judged]), task[:3]
            seed_of_task = int(bits(seed, "cross-validation", np.array(task.part))) >> 32
            try:
                result = fit_and_judge(method, parts, seed_of_task, self.dense[task.problem][task.method])
            except HpcmlError as error:
                text = error.why if isinstance(error, OptionError) else str(error)
                place = f"{problem.path}, label {problem.labels[task.label]!r}, fold {task.part + 1}"
                raise ConfigError(f"{place}, {method.name}: {text}") from None
            yield result

    def run(self, log: Log) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Collective. For each problem measures and seconds (n_labels, n_parts, n_methods each)."""
        X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (8, 1)))  # a torus needs a row for each node
        with mpi.node_first(self.comm):
            for method in self.methods:
                if method.learner.path.startswith("hpcml."):  # compile our kernels, outside of the seconds that are counted
                    learners.fit(method.learner, X, np.arange(32) % 2, 0)
        Driver(self.comm, mpi.self_comm()).run(self.solve(), self, log)  # signals end the process
        own = np.array(self.results, dtype=np.float64).reshape(-1, 2)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        pieces = np.split(np.concatenate(mpi.allgather_arrays(self.comm, own)), ends)
        whole = [piece.reshape(*shape, 2) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return [piece[..., 0] for piece in whole], [piece[..., 1] for piece in whole]


def fit_and_judge(method: CvMethod, parts: Parts, seed: int, dense: bool) -> tuple[float, float]:
    """F1 in per cent on the test rows (0 where it is undefined: Carvalho & Cohen 2006, 4.2), and the
    seconds of training. Local; raises HpcmlError.
    """
    X, y, X_test, y_test, empty = parts
    if dense:
        X, X_test = X.toarray(), X_test.toarray()
    begin = time.perf_counter()
    classifier = learners.fit(method.learner, X, y, seed)
    seconds = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given, true = (np.asarray(classifier.predict(X_test)) == 1) & ~empty, y_test == 1
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            raise ConfigError(f"it cannot judge these rows: {learners.one_line(error)}") from None
    return float(np.nan_to_num(f1(100 * np.count_nonzero(given & true), np.count_nonzero(given), np.count_nonzero(true)))), seconds
