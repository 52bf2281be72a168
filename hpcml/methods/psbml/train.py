"""Training one classifier of all classes by PSBML into a run folder: `hpcml train psbml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import Classes, read_classes, tell_unused
from hpcml.data.leaks import warn_of_class_leaks
from hpcml.errors import OptionError
from hpcml.log import joined, plural
from hpcml.methods.method import Method
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.problem import RowsInMemory, TorusProblem, distinct
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.selection import VALIDATION, spread
from hpcml.methods.psbml.snapshot import quality
from hpcml.methods.psbml.torus import Torus, parse_grid
from hpcml.model import learner as learners
from hpcml.model.classifier import ClassifierModel, FoundThreshold, MarginData, Origin, check_savable, write_classifier
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import training_keys
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
        base = f"{100 * self.base_error:.2f} %" if self.judge == "error" else quality(self.judge, self.base_error, self.base_auc)
        beside = f" (all rows: {base})" if self.cycle > 0 else ""
        lines = [
            f"trained in {self.seconds:.2f} s; best: cycle {self.cycle}, validation {judged}{beside}, "
            f"margin data: {plural(self.n_margin_rows, 'row')}; model: {self.model}"
        ]
        if self.cycle == 0:
            lines.append("no cycle is better than the base learner on all rows: the model is that one")
        for rank, seconds in enumerate(self.profile):
            lines.append(f"rank {rank}: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in seconds.items()))
        return joined(lines)


def train(method: Method, session: Session, data: Path, target: Target, options: PsbmlOptions) -> PsbmlReport:
    """Collective over the session. Train one classifier of all classes into the target's folder.

    Synchronous runs give the same model on any number of ranks. Raises ConfigError, DataError;
    Interrupted after a signal or the time limit.
    """
    options.validate()
    learner, comm, log = learner_of(options), session.comm, session.log
    if options.slow_rank is not None and options.slow_rank >= comm.size:
        raise OptionError("slow_rank", options.slow_rank, f"there are ranks 0 to {comm.size - 1}")
    dataset = method.open_data(comm, data)
    with dataset:
        problem = make_problem(comm, dataset, learner, options)
        tell_unused(comm, dataset, problem.split, log)
        warn_of_class_leaks(comm, dataset, problem.split, problem.classes.names, log)
        with mpi.agreed(comm, f"preparing the base learner {learner.name}"), mpi.node_first(comm):
            check_savable(learner, problem.classes.n_classes, problem.dense, save=comm.rank == 0)
        with RunFolder(comm, target.output, log) as folder:
            state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), options), target)
            if state == FINISHED:
                return _report(comm, folder, options.judge, 0.0, [])
            n_validation = int(np.count_nonzero(problem.start == VALIDATION))
            log(
                f"training {learner} on {plural(problem.start.size - n_validation, 'row')} "
                f"× {plural(dataset.n_features, 'feature')}, {plural(n_validation, 'row')} to validate"
            )
            log.detail(
                f"{'dense' if problem.dense else 'sparse'} rows, torus {options.grid}, {options.neighbourhood}, "
                f"{'asynchronous' if options.asynchronous else 'synchronous'}, {plural(comm.size, 'rank')}"
            )
            run = TorusRun(problem, folder, session.signals)
            run.train(target.resume)
            seconds = run.driver.seconds
            _write_model(problem, folder, run)
            profiles = comm.allgather(problem.profile.seconds) if options.profile else []
            return _report(comm, folder, options.judge, seconds, profiles)


def learner_of(options: PsbmlOptions) -> learners.Learner:
    """The base learner as it is trained. Raises ConfigError if there is none, or none for a GPU."""
    learner = learners.parse_learner(options.base)
    return learner.moved_to_gpu() if options.device == "gpu" else learner


def make_problem(
    comm: mpi.Comm,
    dataset: DataFile | RowsInMemory,
    learner: learners.Learner,
    options: PsbmlOptions,
    classes: Classes | None = None,
) -> TorusProblem:
    """Collective over `comm`. Spread the rows over the torus. Raises ConfigError, DataError.

    `classes` are given with rows in memory.
    """
    split, (width, height) = "", parse_grid(options.grid)
    if isinstance(dataset, DataFile):
        split = options.split or default_split(dataset, "train")
        classes = read_classes(comm, dataset, split, options.label)
    assert classes is not None
    if options.judge == "auc" and classes.n_classes > 2:
        raise OptionError("judge", "auc", f"the data have {classes.n_classes} classes, but expected two; use error")
    with mpi.agreed(comm, "spreading the rows"):
        start = spread(classes, width * height, options.validation_share, options.seed)
        n_train = int(np.count_nonzero(start >= 0))
        if n_train < width * height:
            few = f"{width * height} nodes, but only {n_train} rows to train on; choose a smaller grid"
            raise OptionError("grid", options.grid, few)
        held_out = classes.of[start == VALIDATION]
        if options.judge == "auc" and np.count_nonzero(np.bincount(held_out)) == 1:
            one = f"all validation rows ({held_out.size}) are of one class; raise the validation share"
            raise OptionError("judge", "auc", one)
        if n_train == start.size:
            none = f"no row of {start.size} is left to validate; raise it"
            raise OptionError("validation_share", options.validation_share, none)
    dense = learner.wants_dense(dataset.n_rows, dataset.n_features, dataset.nnz)
    if dense:  # copies: of a test, and those that the learner makes
        check_room(comm, learner.name, classes.rows.size, dataset.n_features, copies=4)
    if learner.on_gpu:
        from hpcml.model.gpu_bayes import choose_device

        choose_device(comm)
    torus = Torus(width, height, options.neighbourhood, comm.size, comm.rank)
    return TorusProblem(comm, dataset, split, classes, start, torus, learner, dense, options)


def _write_model(problem: TorusProblem, folder: RunFolder, run: TorusRun) -> None:
    """Collective. Rank 0 gets the best cycle and writes its classifier, and drops the checkpoints."""
    comm, pocket = problem.comm, run.pocket
    with mpi.agreed(comm, "training the best classifier once more"):
        if pocket.entries is not None and pocket.classifier is None:  # the run was resumed
            places = distinct([pocket.entries["place"]])
            pocket.classifier = problem.train(problem.read(places), places, "assess", pocket.cycle)
    pockets = comm.gather(pocket if comm.rank == pocket.owner else None)
    with mpi.agreed(comm, f"writing {folder.model}"):
        if comm.rank > 0:
            return
        pocket, dataset, options = pockets[pocket.owner], problem.dataset, problem.options
        places, greatest = pocket.margin_data()
        counts = np.bincount(pocket.entries["node"], minlength=problem.torus.n_nodes)
        weights = np.bincount(pocket.entries["node"], pocket.entries["weight"], minlength=problem.torus.n_nodes)
        _, base_error, base_auc, *_ = run.history[0]
        about = {
            **{"validation_error": pocket.error, "validation_auc": pocket.auc, "base_error": base_error, "base_auc": base_auc},
            **{"grid": options.grid, "neighbourhood": options.neighbourhood, "data_sizes": np.array(dataset.sizes)},
            **{"node_rows": counts, "node_weights": weights / np.maximum(counts, 1)},
        }
        facts = (problem.classes.names, dataset.n_features, dataset.vocabulary, problem.dense)
        keys = None if options.no_id_hashes else training_keys(dataset, problem.split)
        origin = Origin("psbml", problem.learner, problem.split, *facts, about, keys, RawInput.of_dataset(dataset))
        margin = MarginData(problem.classes.rows[places], greatest, pocket.cycle)
        threshold = FoundThreshold(pocket.threshold, "error", "validation", problem.split) if options.judge == "auc" else None
        write_classifier(folder.model, pocket.classifier, origin, margin, threshold)
        folder.drop_checkpoints()


def _report(comm: mpi.Comm, folder: RunFolder, judge: str, seconds: float, profile: list[dict[str, float]]) -> PsbmlReport:
    """Collective over `comm`. Return the report of a finished run, from the attributes of its model."""

    def read() -> tuple[int, list[float], int]:
        model, names = ClassifierModel(folder.model), ("validation_error", "validation_auc", "base_error", "base_auc")
        return model.cycle, [float(model.attrs[name]) for name in names], model.margin_rows.size

    cycle, (error, auc, base_error, base_auc), n_rows = mpi.run_on_root(comm, f"reading {folder.model}", read)
    return PsbmlReport(folder.model, cycle, error, auc, base_error, base_auc, judge, n_rows, seconds, profile)
