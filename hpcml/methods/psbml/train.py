"""Training one classifier of all classes into a run folder: PSBML, and for comparison AdaBoostM1 (Freund & Schapire 1996)."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi, rng
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.labels import Classes, read_classes, warn_about_unused_rows
from hpcml.data.leaks import warn_about_class_leaks
from hpcml.data.shard import read_rows
from hpcml.errors import OptionError
from hpcml.log import joined, plural, visible
from hpcml.methods.method import Method
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.methods.psbml.problem import RowsInMemory, TorusProblem, unique_sorted
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.selection import VALIDATION, assign_nodes
from hpcml.methods.psbml.snapshot import format_quality
from hpcml.methods.psbml.torus import Torus, parse_grid
from hpcml.model import learner as learners
from hpcml.model.classifier import ClassifierModel, FoundThreshold, MarginData, Origin, check_savable, write_classifier
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import training_keys
from hpcml.mpi.memory import check_room
from hpcml.run.folder import FINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target

ADABOOST = "sklearn.ensemble.AdaBoostClassifier"


@dataclass(frozen=True)
class PsbmlReport:
    model: Path
    cycle: int  # the cycle of the classifier; 0: the base learner on all rows
    validation_error: float
    validation_auc: float  # NaN for more than two classes
    base_error: float  # of cycle 0, on the same validation rows
    base_auc: float
    judge: str  # the option
    n_margin_rows: int
    seconds: float
    profile: list[dict[str, float]] = field(default_factory=list)  # seconds per phase of each rank; empty without --profile

    def __str__(self) -> str:
        quality = format_quality(self.judge, self.validation_error, self.validation_auc)
        base = format_quality(self.judge, self.base_error, self.base_auc).removeprefix("error ")
        all_rows = f" (all rows: {base})" if self.cycle > 0 else ""
        lines = [
            f"trained in {self.seconds:.2f} s; best: cycle {self.cycle}, validation {quality}{all_rows}, "
            f"margin data: {plural(self.n_margin_rows, 'row')}; model: {self.model}"
        ]
        if self.cycle == 0:
            lines.append("no cycle improved on the base learner trained on all rows; the base learner was saved")
        for rank, seconds in enumerate(self.profile):
            lines.append(f"rank {rank}: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in seconds.items()))
        return joined(lines)


def train(method: Method, session: Session, data: Path, target: Target, options: PsbmlOptions) -> PsbmlReport:
    """Train one classifier of all classes. Raises ConfigError, DataError; Interrupted (signal or time limit). Collective."""
    options.validate()
    learner, comm, log = parse_base(options), session.comm, session.log
    if options.slow_rank is not None and options.slow_rank >= comm.size:
        raise OptionError("slow_rank", options.slow_rank, f"expected a rank from 0 to {comm.size - 1}")
    dataset = method.open_data(comm, data)
    with dataset:
        problem = make_problem(comm, dataset, learner, options)
        warn_about_unused_rows(comm, dataset, problem.split, log)
        warn_about_class_leaks(comm, dataset, problem.split, problem.classes.names, log)
        with mpi.agreed(comm, f"preparing the base learner {learner.name}"), mpi.node_first(comm):
            check_savable(learner, problem.classes.n_classes, problem.dense, save=comm.rank == 0)
        with RunFolder(comm, target.output, log) as folder:
            state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), options), target)
            if state == FINISHED:
                return _report(comm, folder, options.judge, 0.0, [])
            n_validation = int(np.count_nonzero(problem.start == VALIDATION))
            log(
                f"training {learner} on {plural(problem.start.size - n_validation, 'row')} "
                f"× {plural(dataset.n_features, 'feature')}, {plural(n_validation, 'validation row')}"
            )
            log.detail(
                f"{'dense' if problem.dense else 'sparse'} rows, torus {options.grid}, {options.neighbourhood}, "
                f"{'asynchronous' if options.asynchronous else 'synchronous'}, {plural(comm.size, 'rank')}"
            )
            run = TorusRun(problem, folder, session.signals)
            run.train(target.resume)
            seconds = run.driver.seconds
            _write_model(problem, folder, run)
            profiles = comm.allgather(problem.profile.read()) if options.profile else []
            return _report(comm, folder, options.judge, seconds, profiles)


def parse_base(options: PsbmlOptions) -> learners.Learner:
    learner = learners.parse_learner(options.base)
    return learner.with_gpu_scoring() if options.device == "gpu" else learner


def make_problem(
    comm: mpi.Comm,
    dataset: DataFile | RowsInMemory,
    learner: learners.Learner,
    options: PsbmlOptions,
    classes: Classes | None = None,
) -> TorusProblem:
    """Distribute the rows over the torus; rows in memory need `classes`. Raises ConfigError, DataError. Collective."""
    split, (width, height) = "", parse_grid(options.grid)
    if isinstance(dataset, DataFile):
        split = options.split or split_or_all(dataset, "train")
        classes = read_classes(comm, dataset, split, options.label)
    if options.judge == "auc" and classes.n_classes > 2:
        raise OptionError("judge", "auc", f"the data have {classes.n_classes} classes, but expected two; use error")
    with mpi.agreed(comm, "distributing the rows"):
        start = assign_nodes(classes, width * height, options.validation_share, options.seed)
        n_train = int(np.count_nonzero(start >= 0))
        if n_train < width * height:
            raise OptionError(
                "grid", options.grid, f"{width * height} nodes, but only {n_train} training rows; choose a smaller grid"
            )
        held_out = classes.of[start == VALIDATION]
        if options.judge == "auc" and np.count_nonzero(np.bincount(held_out)) == 1:
            why = f"all validation rows ({held_out.size}) have one class; choose a larger --validation-share"
            raise OptionError("judge", "auc", why)
        if n_train == start.size:
            why = f"leaves no validation row of {start.size} rows; choose a larger share"
            raise OptionError("validation_share", options.validation_share, why)
    dense = learner.wants_dense(dataset.n_rows, dataset.n_features, dataset.nnz)
    if dense:  # copies: the rows to test, and those made by the learner
        check_room(comm, learner.name, classes.rows.size, dataset.n_features, copies=4)
    if learner.on_gpu:
        from hpcml.model.gpu_bayes import choose_device

        choose_device(comm)
    torus = Torus(width, height, options.neighbourhood, comm.size, comm.rank)
    return TorusProblem(comm, dataset, split, classes, start, torus, learner, dense, options)


def _write_model(problem: TorusProblem, folder: RunFolder, run: TorusRun) -> None:
    """Write the classifier of the best cycle on rank 0 and remove the checkpoints. Collective."""
    comm, best = problem.comm, run.best
    with mpi.agreed(comm, "retraining the best classifier"):
        if best.entries is not None and best.classifier is None:  # after a resumed run
            positions = unique_sorted([best.entries["position"]])
            best.classifier = problem.train(problem.read(positions), positions, "assess", best.cycle)
    best_cycles = comm.gather(best if comm.rank == best.owner else None)
    with mpi.agreed(comm, f"writing {folder.model}"):
        if comm.rank > 0:
            return
        best, dataset, options = best_cycles[best.owner], problem.dataset, problem.options
        positions, greatest = best.margin_data()
        counts = np.bincount(best.entries["node"], minlength=problem.torus.n_nodes)
        weights = np.bincount(best.entries["node"], best.entries["weight"], minlength=problem.torus.n_nodes)
        _, base_error, base_auc, *_ = run.history[0]
        about = {
            **{"validation_error": best.error, "validation_auc": best.auc, "base_error": base_error, "base_auc": base_auc},
            **{"grid": options.grid, "neighbourhood": options.neighbourhood, "data_sizes": np.array(dataset.sizes)},
            **{"node_rows": counts, "node_weights": weights / np.maximum(counts, 1)},
        }
        facts = (problem.classes.names, dataset.n_features, dataset.vocabulary, problem.dense)
        keys = None if options.no_id_hashes else training_keys(dataset, problem.split)
        origin = Origin("psbml", problem.learner, problem.split, *facts, about, keys, RawInput.of_dataset(dataset))
        margin = MarginData(problem.classes.rows[positions], greatest, best.cycle)
        threshold = FoundThreshold(best.threshold, "error", "validation", problem.split) if options.judge == "auc" else None
        write_classifier(folder.model, best.classifier, origin, margin, threshold)
        folder.remove_checkpoints()


def _report(comm: mpi.Comm, folder: RunFolder, judge: str, seconds: float, profile: list[dict[str, float]]) -> PsbmlReport:
    def read() -> tuple[int, list[float], int]:
        model, names = ClassifierModel(folder.model), ("validation_error", "validation_auc", "base_error", "base_auc")
        return model.cycle, [float(model.attrs[name]) for name in names], model.margin_rows.size

    cycle, (error, auc, base_error, base_auc), n_rows = mpi.run_on_root(comm, f"reading {folder.model}", read)
    return PsbmlReport(folder.model, cycle, error, auc, base_error, base_auc, judge, n_rows, seconds, profile)


@dataclass(frozen=True)
class AdaboostReport:
    model: Path
    n_rounds: int
    learner: str
    seconds: float

    def __str__(self) -> str:
        return visible(f"trained {self.n_rounds} rounds of {self.learner} in {self.seconds:.2f} s; model: {self.model}")


def boosted(learner: learners.Learner, n_rounds: int) -> learners.Learner:
    boosting = (("estimator", learner.make(0)), ("n_estimators", n_rounds))
    return learners.Learner(learner.name, ADABOOST, boosting, learner.prefers_dense)


def train_adaboost(method: Method, session: Session, data: Path, target: Target, options: AdaboostOptions) -> AdaboostReport:
    """Train one classifier of all classes on rank 0, without checkpoints. Raises ConfigError, DataError. Collective."""
    options.validate()
    learner = learners.parse_learner(options.base)
    comm, log = session.comm, session.log
    dataset = method.open_data(comm, data)
    with dataset, RunFolder(comm, target.output, log) as folder:
        split, booster = options.split or split_or_all(dataset, "train"), boosted(learner, options.rounds)
        warn_about_unused_rows(comm, dataset, split, log)
        classes = read_classes(comm, dataset, split, options.label)
        warn_about_class_leaks(comm, dataset, split, classes.names, log)
        dense = booster.wants_dense(dataset.n_rows, dataset.n_features, dataset.nnz)
        if dense:
            check_room(comm, booster.name, classes.rows.size, dataset.n_features, copies=4)
        doing = f"preparing the base learner {booster.name}"
        mpi.run_on_root(comm, doing, lambda: check_savable(booster, classes.n_classes, dense))
        if folder.prepare(RunConfig(method.name, dataset.path.resolve(), options), target) == FINISHED:
            n_rounds = mpi.run_on_root(comm, f"reading {folder.model}", lambda: int(ClassifierModel(folder.model).attrs["rounds"]))
            return AdaboostReport(folder.model, n_rounds, learner.name, 0.0)
        size = f"{plural(classes.rows.size, 'row')} × {plural(dataset.n_features, 'feature')}"
        log(f"training {plural(options.rounds, 'round')} of {learner} on {size}")
        begin = time.monotonic()
        with folder.discard_on_error(), mpi.agreed(comm, "training"):
            if comm.rank == 0:
                seed = int(rng.bits(options.seed, "adaboost", np.array(0))) >> 32
                classifier = learners.fit(booster, read_rows(dataset, classes.rows, dense), classes.of, seed)
        n_rounds = comm.bcast(len(classifier.estimators_) if comm.rank == 0 else 0)
        seconds = time.monotonic() - begin
        with mpi.agreed(comm, f"writing {folder.model}"):
            if comm.rank == 0:
                facts = (classes.names, dataset.n_features, dataset.vocabulary, dense)
                keys = None if options.no_id_hashes else training_keys(dataset, split)
                about = {"rounds": n_rounds}
                origin = Origin("adaboost", learner, split, *facts, about, keys, RawInput.of_dataset(dataset))
                write_classifier(folder.model, classifier, origin, MarginData())
                folder.remove_checkpoints()
    return AdaboostReport(folder.model, n_rounds, learner.name, seconds)
