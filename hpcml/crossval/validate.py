"""Cross-validation: check the methods and the data, run the tasks, return the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.crossval.methods import CvMethod, find_method, methods
from hpcml.crossval.options import CvOptions
from hpcml.crossval.problems import CvProblem, read_problem
from hpcml.crossval.table import CrossValidation
from hpcml.crossval.tasks import CvTasks
from hpcml.errors import ConfigError, OptionError, repeated
from hpcml.log import Log, plural, size
from hpcml.mpi.memory import room_per_rank

SPARSE_BYTES = 48  # memory per value: the file's rows, the training rows, a learner's copy in double precision
DENSE_BYTES = 16  # in addition, for a learner with dense rows
FEATURE_BYTES = 100  # for the weights of a linear classifier; voted learners have most


def cross_validate(
    comm: mpi.Comm, names: Sequence[str], data: Sequence[tuple[Path, str | None]], log: Log, options: CvOptions
) -> CrossValidation:
    """Return F1 in folds (Carvalho & Cohen 2006, 4.2). Collective over `comm`.

    `names` are methods with a short name, base learners, or dotted paths of scikit-learn classifiers. `data` are files and labels:
    for a file without a label, each label is classified against all others, and the result is the mean over them. All methods are
    trained and tested on the same rows.
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
    f1, seconds = CvTasks(comm, problems, chosen, options).run(log)
    totals = np.sum([each.sum(axis=(0, 1)) for each in seconds], axis=0).tolist()
    log.detail("total training time: " + ", ".join(f"{name} {value:.3g} s" for name, value in zip(names, totals, strict=True)))
    return CrossValidation(problems, list(names), options.baseline or names[0], options.folds, options.seed, f1, seconds)


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
