"""Cross-validation: check what is asked for, do the tasks, make the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.crossval.methods import CvMethod, divide_path, method_of
from hpcml.crossval.methods import methods as known_methods
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, read_problem
from hpcml.crossval.table import CrossValidation
from hpcml.crossval.tasks import CvTasks
from hpcml.errors import ConfigError, DataError, OptionError, repeated
from hpcml.log import Log, plural, size
from hpcml.mpi.memory import room_per_rank

SPARSE_BYTES = 48  # of memory for each value: the file's rows, those to train on, a learner's copy in double precision
DENSE_BYTES = 16  # beside it, if a learner takes dense rows
FEATURE_BYTES = 100  # for the weights of a linear classifier, voted ones having most


def cross_validate(
    comm: mpi.Comm | None,
    methods: Sequence[str],
    data: Sequence[str | Path],
    log: Log | None = None,
    **options: Any,
) -> CrossValidation:
    """Collective over `comm` (None: alone). F1 in folds (Carvalho & Cohen 2006, 4.2).

    `methods` have a name of their own, are base learners, or dotted paths of scikit-learn
    classifiers. `data` are FILE or FILE:LABEL: without a label each label of the file is told from
    all others, and the file's result is the mean over them. All methods are trained and judged on
    the same rows; the others are compared with the `baseline`, by default the first. `options` are
    fields of CvOptions. Raises ConfigError or DataError for what the user can mend.
    """
    asked = CvOptions(**options)
    with mpi.duplicated(comm) as comm:
        log = log or Log(comm.rank)
        with mpi.agreed(comm, "preparing the methods"):
            asked.validate()
            chosen = [method_of(name) if asked.bias else method_of(name).without_intercept() for name in methods]
            _check(methods, data, asked.baseline)
            if asked.scale != "none" and (unable := [method.name for method in chosen if not method.scalable]):
                raise ConfigError(f"--scale {asked.scale} has no effect on {unable[0]}; leave it out, or leave {unable[0]} out")
        refusing = [method.name for method in chosen if method.non_negative]

        def read_problems() -> list[CvProblem]:
            return [read_problem(*file_and_label(name), asked, refusing) for name in data]

        problems = mpi.run_on_root(comm, "reading the labels", read_problems)
        for problem in problems:
            _check_room(comm, problem, chosen)
            left_out = f"; {problem.n_left_out} with too few rows of a class are left out" if problem.n_left_out else ""
            sizes = f"{problem.n_rows:,} rows × {problem.n_features:,} features, {len(problem.labels)} label(s)"
            unlabelled = f"; {plural(problem.n_unlabelled, 'unlabelled row')} left out" if problem.n_unlabelled else ""
            log(f"{problem.path}: {sizes}{left_out}{unlabelled}")
        f1, seconds = CvTasks(comm, problems, chosen, asked).run(log)
        each = np.sum([found.sum(axis=(0, 1)) for found in seconds], axis=0).tolist()
        times = ", ".join(f"{method} {value:.3g} s" for method, value in zip(methods, each, strict=True))
        log(f"training took, in all: {times}")
    return CrossValidation(problems, list(methods), asked.baseline or methods[0], asked.folds, asked.seed, f1, seconds)


def file_and_label(name: str | Path) -> tuple[Path, str | None]:
    """Return the file and the label of a name. Raises DataError."""
    found = divide_path(str(name))
    if found is None:
        raise DataError(f"{name}: there is no such file")
    return found


def _check(methods: Sequence[str], data: Sequence[str | Path], baseline: str | None) -> None:
    """Raise ConfigError for names that make no sense."""
    if baseline is not None and methods and baseline not in methods:
        raise OptionError("baseline", baseline, f"not among the methods: {', '.join(methods)}")
    if not methods:
        raise ConfigError(f"name at least one method: {', '.join(sorted(known_methods()))}")
    if not data:
        raise ConfigError("name at least one dataset file made with `hpcml convert`")
    twice = repeated(methods) or repeated(map(str, data))
    if twice is not None:
        raise ConfigError(f"{twice} is named twice")


def _check_room(comm: mpi.Comm, problem: CvProblem, methods: Sequence[CvMethod]) -> None:
    """Collective over `comm`. Raise ConfigError if a rank cannot hold the rows and their copies."""
    room = room_per_rank(comm)
    dense = [method.name for method in methods if method.wants_dense(problem.n_rows, problem.n_features, problem.nnz)]
    needed = SPARSE_BYTES * problem.nnz + FEATURE_BYTES * problem.n_features
    needed += DENSE_BYTES * problem.n_rows * problem.n_features * bool(dense)
    if needed > room:
        why = f" ({', '.join(dense)} need dense rows)" if dense else ""
        raise ConfigError(
            f"{problem.path}: every rank needs all its rows, about {size(needed)}{why}, but a rank has "
            f"{size(room)}; use fewer ranks on a node, or fewer rows (--split)"
        )
