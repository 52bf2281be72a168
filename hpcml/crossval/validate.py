"""Cross-validation: check the methods and the data, do the tasks, make the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.crossval.methods import CvMethod, method_of, methods
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, read_problem
from hpcml.crossval.table import CrossValidation
from hpcml.crossval.tasks import CvTasks
from hpcml.errors import ConfigError, OptionError, repeated
from hpcml.log import Log, plural, size
from hpcml.mpi.memory import room_per_rank

SPARSE_BYTES = 48  # of memory for each value: the file's rows, those to train on, a learner's copy in double precision
DENSE_BYTES = 16  # beside it, if a learner takes dense rows
FEATURE_BYTES = 100  # for the weights of a linear classifier, voted ones having most


def cross_validate(
    comm: mpi.Comm, names: Sequence[str], data: Sequence[tuple[Path, str | None]], log: Log, options: CvOptions
) -> CrossValidation:
    """Return F1 in folds (Carvalho & Cohen 2006, 4.2). Collective over `comm`.

    `names` are methods with a name of their own, base learners, or dotted paths of scikit-learn classifiers. `data` are files and
    labels: without a label each label of the file is classified against all others, and the file's result is the mean over them.
    All methods are trained and judged on the same rows; the others are compared with the baseline, by default the first.
    """
    with mpi.agreed(comm, "preparing the methods"):
        chosen = [method_of(name) if options.bias else method_of(name).without_intercept() for name in names]
        if not names:
            raise ConfigError(f"name at least one method: {', '.join(sorted(methods()))}")
        if options.baseline not in (None, *names):
            raise OptionError("baseline", options.baseline, f"not among the methods: {', '.join(names)}")
        if not data:
            raise ConfigError("name at least one dataset file made with `hpcml convert`")
        twice = repeated(names) or repeated(str(path) if label is None else f"{path}:{label}" for path, label in data)
        if twice is not None:
            raise ConfigError(f"{twice} is named twice")
        if options.scale not in (None, "none") and (unable := [method.name for method in chosen if not method.scalable]):
            raise OptionError("scale", options.scale, f"has no effect on {unable[0]}; remove one of them")
    refusing = [method.name for method in chosen if method.non_negative]

    def read_problems() -> list[CvProblem]:
        own = options.scale is None and any(method.scalable and method.name in methods() for method in chosen)
        return [read_problem(path, label, options, refusing, log if own else None) for path, label in data]

    problems = mpi.run_on_root(comm, "reading the labels", read_problems)
    for problem in problems:
        check_room(comm, problem, chosen)
        left_out = f"; {problem.n_left_out} with too few rows of a class are left out" if problem.n_left_out else ""
        sizes = f"{problem.n_rows:,} rows × {problem.n_features:,} features, {plural(len(problem.labels), 'label')}"
        unlabelled = f"; {plural(problem.n_unlabelled, 'unlabelled row')} left out" if problem.n_unlabelled else ""
        empty = f"; {plural(problem.n_empty, 'row')} without any known feature get no labels" if problem.n_empty else ""
        log(f"{problem.path}: {sizes}{left_out}{unlabelled}{empty}")
    f1, seconds = CvTasks(comm, problems, chosen, options).run(log)
    each = np.sum([of_problem.sum(axis=(0, 1)) for of_problem in seconds], axis=0).tolist()
    times = ", ".join(f"{method} {value:.3g} s" for method, value in zip(names, each, strict=True))
    log.detail(f"training took, in all: {times}")
    return CrossValidation(problems, list(names), options.baseline or names[0], options.folds, options.seed, f1, seconds)


def check_room(comm: mpi.Comm, problem: CvProblem, methods: Sequence[CvMethod]) -> None:
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
