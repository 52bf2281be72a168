"""Cross-validation: its tasks (data, label, fold, method) are distributed over the ranks.

A task does not depend on the rank that runs it, so the result is the same on any number of ranks. The fold of a row follows from
the seed and the key of the row or its group, so it does not depend on the order of the rows.
"""

import math
import time
import warnings
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.crossval.methods import CvMethod, find_method, methods
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, LoadedProblem, read_problem
from hpcml.crossval.table import CrossValidation
from hpcml.data import stratify
from hpcml.data.scaling import scale_matrices
from hpcml.errors import ConfigError, HpcmlError, OptionError, repeated
from hpcml.log import Log, plural, size
from hpcml.measures import f1
from hpcml.model import learner as learners
from hpcml.mpi.memory import room_per_rank
from hpcml.partition import bounds_by_weight
from hpcml.rng import bits
from hpcml.run.driver import Driver, Job

Parts = tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray, np.ndarray]  # training X and y; test X, y and empty-row mask

SPARSE_BYTES = 48  # memory per value: the file's rows, the training rows, a learner's copy in double precision
DENSE_BYTES = 16  # in addition, for a learner with dense rows
FEATURE_BYTES = 100  # for the weights of a linear classifier; voted learners have most


class Task(NamedTuple):
    problem: int
    label: int  # index among the problem's labels
    fold: int
    method: int


def assign_folds(seed: int, keys: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """Return the fold of each row from the `keys` of rows or groups, stratified by the class `has` of the rows."""
    return stratify.deal(2, np.arange(has.size + 1), has, n_folds, keys, bits(seed, "fold", keys)).astype(np.int64)


def training_order(seed: int, keys: np.ndarray) -> np.ndarray:
    """Return a random order of the rows with these keys: single-pass learners depend on the order, and files may be sorted."""
    return np.lexsort((np.arange(keys.size), bits(seed, "order", keys)))


class CvTasks(Job):
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
            tasks += [Task(number, *index) for index in np.ndindex(*shape)]
            sparse_size, dense_size = problem.nnz + problem.n_rows, problem.n_rows * problem.n_features
            sizes = [dense_size if dense else sparse_size for dense in self.dense[number]]
            method_costs = [1 + int(method.cost * size) for method, size in zip(methods, sizes, strict=True)]
            costs += method_costs * (len(problem.labels) * options.folds)
        self.total = len(tasks)
        bounds = bounds_by_weight(np.concatenate([[0], np.cumsum(costs)]), comm.size)
        self.tasks = tasks[bounds[comm.rank] : bounds[comm.rank + 1]]
        self.results: list[tuple[float, float]] = []  # F1 and training seconds of this rank's tasks

    def keep(self, finished: tuple[float, float]) -> None:
        self.results.append(finished)
        self.n_done += 1

    def solve(self) -> Generator[tuple[float, float], None, None]:
        loaded: LoadedProblem | None = None
        parts = order = before = None
        seed = self.options.seed
        for task in self.tasks:
            problem, method = self.problems[task.problem], self.methods[task.method]
            if loaded is None or loaded.source != (problem.path, problem.split):
                loaded = parts = before = None  # frees the memory of the previous file
                loaded = LoadedProblem(problem)
                order = np.arange(problem.n_rows) if self.options.in_order else training_order(seed, loaded.row_keys)
            if task[:3] != before:
                number = int(problem.numbers[task.label])
                y = loaded.target(number)
                test = assign_folds(seed, loaded.keys, y, self.options.folds) == task.fold
                train = order[~test[order]]
                X, X_test = loaded.rows_for(number, train), loaded.rows_for(number, test)
                if self.options.scale not in (None, "none"):
                    scale_matrices(self.options.scale, X, X_test)
                parts, before = (X, y[train], X_test, y[test], loaded.empty[test]), task[:3]
            task_seed = int(bits(seed, "cross-validation", np.array(task.fold))) >> 32
            try:
                result = fit_and_test(method, parts, task_seed, self.dense[task.problem][task.method])
            except HpcmlError as error:
                text = error.why if isinstance(error, OptionError) else str(error)
                where = f"{problem.path}, label {problem.labels[task.label]!r}, fold {task.fold + 1}"
                raise ConfigError(f"{where}, {method.name}: {text}") from None
            yield result

    def run(self, log: Log) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return F1 and seconds (n_labels, folds, n_methods each) for each problem. Collective."""
        X = sp.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (8, 1)))  # enough rows for the nodes of psbml's torus
        with mpi.node_first(self.comm):
            for method in self.methods:
                if method.learner.path.startswith("hpcml."):  # compile the kernels before the time is measured
                    learners.fit(method.learner, X, np.arange(32) % 2, 0)
        Driver(self.comm, mpi.self_comm()).run(self.solve(), self, log)  # signals end the process
        local = np.array(self.results, dtype=np.float64).reshape(-1, 2)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        pieces = np.split(np.concatenate(mpi.allgather_arrays(self.comm, local)), ends)
        whole = [piece.reshape(*shape, 2) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return [piece[..., 0] for piece in whole], [piece[..., 1] for piece in whole]


def fit_and_test(method: CvMethod, parts: Parts, seed: int, dense: bool) -> tuple[float, float]:
    """Return F1 in per cent on the test rows (0 if undefined), and the training seconds. Raises HpcmlError."""
    X, y, X_test, y_test, empty = parts
    if dense:
        X, X_test = X.toarray(), X_test.toarray()
    begin = time.perf_counter()
    classifier = learners.fit(method.learner, X, y, seed)
    seconds = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predicted, true = (np.asarray(classifier.predict(X_test)) == 1) & ~empty, y_test == 1
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            raise ConfigError(f"prediction failed: {learners.one_line(error)}") from None
    counts = np.count_nonzero(predicted & true), np.count_nonzero(predicted), np.count_nonzero(true)
    return float(np.nan_to_num(f1(100 * counts[0], counts[1], counts[2]))), seconds


def cross_validate(
    comm: mpi.Comm, names: Sequence[str], data: Sequence[tuple[Path, str | None]], log: Log, options: CvOptions
) -> CrossValidation:
    """Return F1 in folds (Carvalho & Cohen 2006, 4.2). Collective over `comm`.

    `names` are methods, base learners or dotted paths; `data` are files, with a label or None for the mean over all labels.
    """
    with mpi.agreed(comm, "preparing the methods"):
        chosen = [find_method(name) if options.bias else find_method(name).without_intercept() for name in names]
        if not names:
            raise ConfigError(f"no method given; expected at least one of {', '.join(sorted(methods()))}")
        if options.baseline not in (None, *names):
            raise OptionError("baseline", options.baseline, f"expected one of the methods: {', '.join(names)}")
        if not data:
            raise ConfigError("no data given; expected at least one dataset made with `hpcml convert`")
        twice = repeated(names) or repeated(str(path) if label is None else f"{path}:{label}" for path, label in data)
        if twice is not None:
            raise ConfigError(f"{twice} is given twice")
        if options.scale not in (None, "none") and (unscalable := [method.name for method in chosen if not method.scalable]):
            raise OptionError("scale", options.scale, f"has no effect on {unscalable[0]}; remove one of them")
    non_negative = [method.name for method in chosen if method.non_negative]

    def read_problems() -> list[CvProblem]:
        warn = options.scale is None and any(method.scalable and method.name in methods() for method in chosen)
        return [read_problem(path, label, options, non_negative, log if warn else None) for path, label in data]

    problems = mpi.run_on_root(comm, "reading the labels", read_problems)
    for problem in problems:
        check_memory(comm, problem, chosen)
        sizes = f"{problem.n_rows:,} rows × {problem.n_features:,} features, {plural(len(problem.labels), 'label')}"
        skipped = f"; {plural(problem.n_left_out, 'label')} with too few rows of a class skipped" if problem.n_left_out else ""
        unlabelled = f"; {plural(problem.n_unlabelled, 'unlabelled row')} skipped" if problem.n_unlabelled else ""
        empty = f"; no label is predicted for {plural(problem.n_empty, 'row')} without any known feature" if problem.n_empty else ""
        log(f"{problem.path}: {sizes}{skipped}{unlabelled}{empty}")
    scores, seconds = CvTasks(comm, problems, chosen, options).run(log)
    totals = np.sum([each.sum(axis=(0, 1)) for each in seconds], axis=0).tolist()
    log.detail("total training time: " + ", ".join(f"{name} {value:.3g} s" for name, value in zip(names, totals, strict=True)))
    return CrossValidation(problems, list(names), options.baseline or names[0], options.folds, options.seed, scores, seconds)


def check_memory(comm: mpi.Comm, problem: CvProblem, methods: Sequence[CvMethod]) -> None:
    available = room_per_rank(comm)
    dense = [method.name for method in methods if method.wants_dense(problem.n_rows, problem.n_features, problem.nnz)]
    needed = SPARSE_BYTES * problem.nnz + FEATURE_BYTES * problem.n_features
    needed += DENSE_BYTES * problem.n_rows * problem.n_features * bool(dense)
    if needed > available:
        why = f" ({', '.join(dense)} need dense rows)" if dense else ""
        raise ConfigError(
            f"{problem.path}: every rank needs all rows, about {size(needed)}{why}, but has {size(available)}; "
            "use fewer ranks per node, or fewer rows (--split)"
        )
