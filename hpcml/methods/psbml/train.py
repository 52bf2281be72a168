"""Training one classifier of all classes by PSBML into a run folder: `hpcml train psbml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import Classes, read_classes, tell_unused
from hpcml.data.leaks import warn_of_class_leaks
from hpcml.errors import ConfigError
from hpcml.log import joined, plural
from hpcml.methods.method import Method
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.pocket import quality, write_pocket
from hpcml.methods.psbml.problem import RowsInMemory, TorusProblem
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.selection import VALIDATION, spread
from hpcml.methods.psbml.torus import Placement, Torus, parse_grid
from hpcml.model import learner as learners
from hpcml.model.classifier import ClassifierModel, check_savable
from hpcml.mpi.memory import check_room
from hpcml.run.folder import FINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target


@dataclass(frozen=True)
class PsbmlReport:
    """The report of a finished run."""

    model: Path
    cycle: int  # the one that the classifier is of; 0: the base learner on all rows
    validation_error: float
    validation_auc: float  # NaN for more than two classes
    base_error: float  # of cycle 0, by the same validation rows
    base_auc: float
    judge: str  # the option
    n_margin_rows: int
    seconds: float
    profile: list[dict[str, float]] = field(default_factory=list)  # seconds per phase, rank by rank; empty if not asked for

    def __str__(self) -> str:
        judged = quality(self.judge, self.validation_error, self.validation_auc)
        lines = [
            f"trained in {self.seconds:.2f} s; best: cycle {self.cycle}, validation {judged}{self._beside_base()}, "
            f"margin data: {plural(self.n_margin_rows, 'row')}; model: {self.model}"
        ]
        if self.cycle == 0:
            lines.append("no cycle is better than the base learner on all rows: the model is that one")
        for rank, seconds in enumerate(self.profile):
            lines.append(f"rank {rank}: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in seconds.items()))
        return joined(lines)

    def _beside_base(self) -> str:
        base = f"{100 * self.base_error:.2f} %" if self.judge == "error" else quality(self.judge, self.base_error, self.base_auc)
        return f" (all rows: {base})" if self.cycle > 0 else ""


def train(method: Method, session: Session, data: Path, target: Target, options: PsbmlOptions) -> PsbmlReport:
    """Collective over the session. Train one classifier of all classes into the target's folder.

    Synchronous runs give the same model on any number of ranks. Raises ConfigError, DataError;
    Interrupted after a signal or the time limit.
    """
    options.validate()
    learner = learners.parse_learner(options.base)
    if options.device == "gpu":
        learner = learner.moved_to_gpu()
    torus, comm, log = Torus(*parse_grid(options.grid), options.neighbourhood), session.comm, session.log
    if options.slow_rank is not None and options.slow_rank >= comm.size:
        raise ConfigError(f"--slow-rank {options.slow_rank}: there are ranks 0 to {comm.size - 1}")
    if learner.on_gpu:
        from hpcml.model.gpu_bayes import choose_device

        choose_device(comm)
    dataset = method.open_data(comm, data)
    with dataset:
        problem = make_problem(comm, dataset, torus, learner, options)
        tell_unused(comm, dataset, problem.split, log)
        warn_of_class_leaks(comm, dataset, problem.split, problem.classes.names, log)
        with mpi.agreed(comm, f"preparing the base learner {learner.name}"), mpi.node_first(comm):
            check_savable(learner, problem.classes.n_classes, problem.dense, save=comm.rank == 0)
        with RunFolder(comm, target.output, log) as folder:
            state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), options), target)
            if state == FINISHED:
                return _report(comm, folder, options.judge, 0.0, [])
            log(f"training {problem.about}, {'asynchronous' if options.asynchronous else 'synchronous'}, ranks: {comm.size}")
            run = TorusRun(problem, folder, session.signals)
            run.train(target.resume)
            seconds = run.driver.seconds
            _write_model(problem, folder, run)
            profiles = comm.allgather(problem.profile.seconds) if options.profile else []
            return _report(comm, folder, options.judge, seconds, profiles)


def make_problem(comm: mpi.Comm, dataset: DataFile, torus: Torus, learner: learners.Learner, options: PsbmlOptions) -> TorusProblem:
    """Collective over `comm`. Spread the rows over the torus. Raises ConfigError as `lay_out`."""
    split = options.split or default_split(dataset, "train")
    classes = read_classes(comm, dataset, split, options.label)
    start, dense = lay_out(comm, dataset, classes, torus, learner, options)
    return TorusProblem(comm, dataset, split, classes, start, Placement(torus, comm.size, comm.rank), learner, dense, options)


def lay_out(
    comm: mpi.Comm, sizes: DataFile | RowsInMemory, classes: Classes, torus: Torus, learner: learners.Learner, options: PsbmlOptions
) -> tuple[np.ndarray, bool]:
    """Collective over `comm`. Where rows begin (`spread`); whether dense. Raises ConfigError."""
    if options.judge == "auc" and classes.n_classes > 2:
        raise ConfigError(f"--judge auc: the data have {classes.n_classes} classes, but expected two; use --judge error")
    with mpi.agreed(comm, "spreading the rows"):
        start = spread(classes, torus.n_nodes, options.validation_share, options.seed)
        n_train = int(np.count_nonzero(start >= 0))
        if n_train < torus.n_nodes:
            raise ConfigError(
                f"--grid {options.grid}: {torus.n_nodes} nodes, but only {n_train} rows to train on; choose a smaller grid"
            )
        held_out = classes.of[start == VALIDATION]
        if options.judge == "auc" and np.count_nonzero(np.bincount(held_out)) == 1:
            raise ConfigError(f"--judge auc: all validation rows ({held_out.size}) are of one class; raise --validation-share")
        if n_train == start.size:
            raise ConfigError(
                f"--validation-share {options.validation_share}: no row of {start.size} is left to validate; raise it"
            )
    dense = learner.wants_dense(sizes.n_rows, sizes.n_features, sizes.nnz)
    if dense:  # copies: of a test, and those that the learner makes
        check_room(comm, learner.name, classes.rows.size, sizes.n_features, copies=4)
    return start, dense


def _write_model(problem: TorusProblem, folder: RunFolder, run: TorusRun) -> None:
    """Collective. Rank 0 gets the pocket and writes it, and drops the checkpoints."""
    comm, pocket = problem.comm, run.assessor.pocket
    with mpi.agreed(comm, "training the best classifier once more"):
        if pocket.entries is not None and pocket.classifier is None:  # the run was resumed
            pocket.classifier = run.assessor.train(pocket.cycle, pocket.entries)
    pockets = comm.gather(pocket if comm.rank == pocket.owner else None)
    with mpi.agreed(comm, f"writing {folder.model}"):
        if comm.rank == 0:
            write_pocket(folder.model, problem, pockets[pocket.owner], run.assessor.base)
            folder.drop_checkpoints()


def _report(comm: mpi.Comm, folder: RunFolder, judge: str, seconds: float, profile: list[dict[str, float]]) -> PsbmlReport:
    """Collective over `comm`. Read what the finished model says."""
    told = None
    with mpi.agreed(comm, f"reading {folder.model}"):
        if comm.rank == 0:
            model = ClassifierModel(folder.model)
            names = ("validation_error", "validation_auc", "base_error", "base_auc")
            told = model.cycle, [float(model.attrs[name]) for name in names], model.margin_rows.size
    cycle, (error, auc, base_error, base_auc), n_rows = comm.bcast(told)
    return PsbmlReport(folder.model, cycle, error, auc, base_error, base_auc, judge, n_rows, seconds, profile)
