"""`hpcml bench ovr`: our methods and other trainers on the same rows and cores, in one run."""

from __future__ import annotations

import math
import os
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.bench.compare import TrainedMethod, check_folders, intercept, mean_of_trained, objective_of, opened, train_measured
from hpcml.bench.ovr_table import REFERENCE, OvrResult, TrainerLine, csv_text, json_text
from hpcml.bench.peers import PeerProblem, PeerRun, Quality, choose_peers, run_peer
from hpcml.bench.programs import BEST, PEERS, Cost
from hpcml.bench.shared_options import choose_methods, loss_of, losses_of, minimisers, options_for, with_shared_defaults
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, Interrupted
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.scoring import MAX_LANES, WEIGHT_BYTES, blocks_of, scorer_of
from hpcml.evaluation.top import PRECISION_AT, top_of
from hpcml.files.atomic import write_whole
from hpcml.files.temporary import scratch_folder
from hpcml.kernels.processor import processor_name
from hpcml.log import Log
from hpcml.methods.registry import METHODS
from hpcml.model.linear import Model
from hpcml.options import flag_of
from hpcml.run.environment import environment
from hpcml.run.folder import RunFolder
from hpcml.run.session import Session, Target

DEFAULT_METHODS = ("dual", REFERENCE)
TOLERANCES = (0.1, 0.01)
FILES = ("ovr.txt", "ovr.csv", "ovr.json")


@dataclass(frozen=True)
class OvrOptions:
    """The trainings that are run, and how often; the fields are the flags of `hpcml bench ovr`."""

    methods: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    tolerances: tuple[float, ...] = TOLERANCES
    repeats: int = 1
    peer_python: Path | None = None
    peer_limit: float = 3600.0

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        if self.repeats < 1:
            raise ConfigError(f"--repeat {self.repeats}: expected at least 1")
        for tolerance in self.tolerances:
            if not 0 < tolerance < float("inf"):
                raise ConfigError(f"--tol {tolerance}: expected a number above 0")
        if len({f"{tolerance:g}" for tolerance in self.tolerances}) < max(1, len(self.tolerances)):
            raise ConfigError("--tol: expected different numbers (of up to six digits), at least one")
        if not self.peer_limit > 0:
            raise ConfigError(f"--peer-limit {self.peer_limit}: expected seconds above 0")
        if self.peer_python is not None and not (self.peer_python.is_file() and os.access(self.peer_python, os.X_OK)):
            raise ConfigError(
                f"--peer-python {self.peer_python}: there is no such program; expected a Python that has the trainers"
            )


@dataclass
class Bench:
    """A run of the benchmark; `peers` loses those that cannot be run. All is collective."""

    session: Session
    dataset: DataFile
    output: Path
    options: Any  # shared by the methods
    plan: OvrOptions
    methods: list[str]
    peers: list[str]
    test_split: str
    result: OvrResult | None = None
    folder: Path | None = None  # on rank 0: where peers work
    judged: dict[tuple[float, str], Quality] = field(default_factory=dict)  # repetitions give the same models

    @property
    def comm(self) -> mpi.Comm:
        """The ranks that take part."""
        return self.session.comm

    @property
    def log(self) -> Log:
        """The log of this process."""
        return self.session.log

    def folder_of(self, method: str, tolerance: float) -> Path:
        """The run folder of a method at a tolerance."""
        return self.output / f"{method}-{tolerance:g}"

    def turns(self) -> Iterator[tuple[int, float]]:
        """(repetition, tolerance), in the order of training."""
        return ((repeat, tolerance) for repeat in range(1, self.plan.repeats + 1) for tolerance in self.plan.tolerances)

    def train(self, method: str, tolerance: float, repeat: int, force: bool) -> TrainerLine:
        """Collective. Train one of our methods into its run folder and judge its model."""
        self.log.file = None  # of the method before
        self.log(f"{method}, tolerance {tolerance:g}, {repeat} of {self.plan.repeats}")
        target, options = Target(self.folder_of(method, tolerance), force), options_for(method, self.options)
        if options.tolerance:
            options = replace(options, **{options.tolerance: tolerance})
        trained = train_measured(method, self.session, self.dataset.path, target, options)
        if self.result is None:
            self._begin_result(trained)
        if (tolerance, method) not in self.judged:
            self.judged[tolerance, method] = self._judge(trained.model)
        cost = Cost(trained.report.seconds, trained.peak_mib, trained.report.cpu_seconds)
        return self._line(method, tolerance, repeat, cost)

    def _judge(self, model: Model) -> Quality:
        """Collective. What the run folder's model is worth."""
        judged = evaluate(self.comm, model, self.dataset, self.test_split, self.log)
        self.result.n_seen = judged.n_seen
        precisions = tuple(judged.precision_at.get(k, math.nan) for k in PRECISION_AT)
        size, speed = model.path.stat().st_size / 1e6, top_speed(self.comm, model, self.dataset, self.test_split)
        f = mean_of_trained(model, "f_min")
        return Quality(f, judged.macro("average_precision"), precisions, size, objective_of(model), speed)

    def _begin_result(self, trained: TrainedMethod) -> None:
        """Collective. What all lines have in common, from the first model."""
        report, cores = trained.report, self.comm.allgather(sorted(os.sched_getaffinity(0)))
        machine = environment(self.comm) | {"cores": sorted({core for own in cores for core in own}), "cpu": processor_name()}
        self.result = OvrResult(
            data=self.dataset.path,
            split=str(trained.model.attrs["split"]),
            test_split=self.test_split,
            n_labels=report.n_labels - len(report.degenerate),
            n_rows=report.n_rows,
            n_test_rows=int(self.dataset.split(self.test_split).size),
            n_features=self.dataset.n_features,
            intercept=intercept(self.options),
            lam=report.lam if METHODS[self.methods[0]].penalty == "l2" else math.nan,
            ranks=self.comm.size,
            repeats=self.plan.repeats,
            drop=self.options.drop,
            machine=machine,
        )

    def train_peer(self, name: str, tolerance: float, repeat: int) -> TrainerLine | None:
        """Collective. Train with a program on rank 0's node; None if that is not possible."""
        self.log(f"{name}, tolerance {tolerance:g}, {repeat} of {self.plan.repeats}")
        run: PeerRun | str = ""
        quality = self.judged.get((tolerance, name))
        with mpi.agreed(self.comm, f"training with {name}", sleep=True):
            if self.comm.rank == 0:
                run, quality = self._run_peer(name, tolerance, quality)
        run, quality = self.comm.bcast((run, quality))
        if mpi.agreed_any(self.comm, self.session.signals.seen):
            raise Interrupted("a signal arrived")
        if isinstance(run, str):
            self.log(f"{name}: skipped, {run}")
            self.result.skipped[name] = run
            self.peers.remove(name)
            return None
        self.judged[tolerance, name] = quality
        self.result.versions[name] = run.version
        return self._line(name, tolerance, repeat, Cost(run.seconds, run.peak_mib, run.cpu_seconds))

    def _run_peer(self, name: str, tolerance: float, quality: Quality | None) -> tuple[PeerRun | str, Quality | None]:
        """Train with a program and judge its model, unless that is known. Local; on rank 0."""
        method = first_with(PEERS[name].penalty, self.methods)
        model = Model(self.folder_of(method, self.plan.tolerances[0]) / "model.h5")
        # Made anew each time: what is kept would count in our own methods' peaks.
        problem = PeerProblem(self.dataset, model, self.result.split, self.test_split, self.options.bias)
        if problem.l1 == 0:
            return "it needs --l1 above 0", None
        folder = self.folder / PEERS[name].penalty
        folder.mkdir(exist_ok=True)
        problem.write(folder)
        about = {"C": problem.C, "loss": problem.loss, "tolerance": tolerance, "bias": problem.bias}
        about |= {"threads": self.comm.size, "seed": self.options.seed}
        about |= {"max_passes": self.options.max_steps or METHODS[REFERENCE].options.steps, "cores": self.result.machine["cores"]}
        run = run_peer(name, self.plan.peer_python, folder, about, self.plan.peer_limit, self.session.signals)
        if isinstance(run, PeerRun) and quality is None:
            try:
                objective = objective_of(model) if PEERS[name].losses else ""
                quality = Quality(*problem.judge(folder), run.model_bytes / 1e6, objective, run.rows_per_second or math.nan)
            except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile) as error:
                return f"what it gave is of no use: {error}", None
        return run, quality

    def _line(self, trainer: str, tolerance: float, repeat: int, cost: Cost) -> TrainerLine:
        """Keep the line of a training that is done."""
        quality, ms = self.judged[tolerance, trainer]._asdict(), 1000 * cost.seconds / max(1, self.result.n_labels)
        quality |= dict(zip(("p1", "p3", "p5"), quality.pop("precisions"), strict=True))
        line = TrainerLine(tolerance, trainer, repeat, ms_per_label=ms, **cost._asdict(), **quality)
        self.result.lines.append(line)
        return line


def top_speed(comm: mpi.Comm, model: Model, dataset: DataFile, split: str) -> float:
    """Collective over `comm`. Rows given their BEST best labels in a second; NaN without rows.

    The model is ready, and the second is one of processor time, of the rank that takes longest.
    """
    shard = load_shard(comm, dataset, split)
    scorer: Any = scorer_of(model, shard, np.arange(model.n_labels))
    scorer.warm_up(comm)
    top = top_of(comm, scorer, BEST, keeps=8 * model.n_labels * model.n_features <= WEIGHT_BYTES)
    begin = time.process_time()
    with mpi.agreed(comm, "finding the best labels"):
        for _, rows in blocks_of(shard.rows, MAX_LANES):
            top.best(scorer, rows)
    seconds, (_, total) = mpi.allreduce_max(comm, time.process_time() - begin), mpi.exclusive_sum(comm, [shard.rows.size])
    return int(total[0]) / seconds if total[0] else math.nan


def methods_of(plan: OvrOptions, options: Any) -> list[str]:
    """The methods to train. Raises ConfigError."""
    loss = options.loss or losses_of("l2")[0]
    usual = tuple(name for name in DEFAULT_METHODS if name in METHODS and loss in METHODS[name].losses)
    return choose_methods(plan.methods or usual, options)


def first_with(penalty: str, methods: Sequence[str]) -> str:
    """The first of the methods with that penalty."""
    return next(method for method in methods if METHODS[method].penalty == penalty)


def choose_trainers(plan: OvrOptions, options: Any) -> tuple[list[str], list[str]]:
    """The methods and the programs to train. Raises ConfigError for options that do not fit."""
    for kind in {method.options for method in minimisers().values() if method.options.tolerance}:
        value = getattr(options, kind.tolerance)
        if value != getattr(kind, kind.tolerance):
            raise ConfigError(f"--{flag_of(kind.tolerance)} {value} has no effect: the tolerances are those of --tol")
    methods = methods_of(plan, options)
    peers = choose_peers(plan.peers, methods, {METHODS[name].penalty: loss_of(METHODS[name], options) for name in methods})
    for name in peers:
        minimised, loss = PEERS[name].losses, loss_of(METHODS[first_with(PEERS[name].penalty, methods)], options)
        if minimised and loss not in minimised:
            raise ConfigError(f"--peer {name}: it minimises the loss {' or '.join(minimised)}, not {loss}; choose others, or none")
        if options.positive_weight not in ("1", "1.0"):
            raise ConfigError(f"--positive-weight {options.positive_weight}: in {name} all rows have weight 1; add --peer none")
    return methods, peers


def bench_ovr(
    session: Session, data: Path, target: Target, plan: OvrOptions, options: Any, test_split: str | None = None
) -> OvrResult:
    """Collective. Train with every method and peer at every tolerance, judge, write the table.

    `options` are shared by the methods (`shared_options`). Raises ConfigError, DataError for what
    the user can mend; a peer that cannot be run is left out, with a reason.
    """
    plan.validate()
    options.validate()
    options = with_shared_defaults(options, {})
    methods, peers = choose_trainers(plan, options)
    comm, log, output = session.comm, session.log, target.output
    if peers and mpi.ranks_on_node(comm) < comm.size:
        raise ConfigError("the other trainers run on one node: start all ranks on one, or add --peer none")
    with opened(comm, data, test_split, log) as (dataset, test_split), ExitStack() as stack:
        bench = Bench(session, dataset, output, options, plan, methods, peers, test_split)
        with mpi.agreed(comm, f"opening {output}"):
            if comm.rank == 0:
                paths = (bench.folder_of(method, tolerance) for method in methods for tolerance in plan.tolerances)
                check_folders(target._replace(resume=False), (RunFolder(comm, path, log) for path in paths), FILES)
                bench.folder = stack.enter_context(scratch_folder("hpcml-peers"))
        try:
            for repeat, tolerance in bench.turns():
                for method in methods:
                    bench.train(method, tolerance, repeat, target.force or repeat > 1)
                _write(comm, output, bench.result)
                for name in tuple(bench.peers):
                    bench.train_peer(name, tolerance, repeat)
                    _write(comm, output, bench.result)
        except Interrupted:
            raise Interrupted("a signal or the time limit ended the benchmark; begin again with --force") from None
    return bench.result


def _write(comm: mpi.Comm, output: Path, result: OvrResult) -> None:
    """Collective over `comm`. Write what there is by now."""
    texts: Sequence[str] = (f"{result}\n", csv_text(result), json_text(result))
    with mpi.agreed(comm, f"writing {output}"):
        for name, text in zip(FILES, texts if comm.rank == 0 else (), strict=comm.rank == 0):
            write_whole(output / name, text.encode(errors="backslashreplace"))  # half a surrogate pair: JSON's escape
