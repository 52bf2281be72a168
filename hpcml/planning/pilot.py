"""The timed pilot of a plan: the real method trains a part of the work on the real rows.

Methods with a weight vector for each label load all rows, as training does, and train some labels: panels at quantiles of label
frequency, between which the time of the others is interpolated. Single-pass learners learn from the first rows. Methods that train
one classifier of all classes are trained twice, with fewer cycles or rounds. Times are seconds of the processor, which other
programs disturb little; only where rows are read from the disk, or scored by a GPU, of the clock.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import OptionError
from hpcml.log import Log, plural
from hpcml.methods.linear.layout import plan_streaming
from hpcml.methods.linear.load import load
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import History, SparseWeightsOf, Turns, warm_up
from hpcml.methods.registry import Method, train
from hpcml.model.linear import mask_kept_weights
from hpcml.mpi.memory import peak_mib
from hpcml.planning.memory import Cluster, Requirements
from hpcml.run.session import Session, Target, opened_dataset
from hpcml.run.stop import NEVER
from hpcml.signals import undone

BLOCKS, SKEW = 6, 1.7  # of labels that are trained; this power of their places: more of them frequent, whose times differ most
PANELS = 3  # of labels whose lanes are refilled, as others of them are done
FEWEST, SECONDS = 2, 2.0  # of a block of labels that are trained one by one: at least so many, for so long
CYCLES = 5  # of the longer one of two trainings
DISK_BYTES = 1 << 26  # of a test file
WRITE = "write the model"


@dataclass(frozen=True)
class Measured:
    """Measurements of a pilot, on the slowest rank, or the one with most."""

    seconds: dict[str, float]  # of the whole training, by phase
    sample: str  # what was trained
    assumed: list[str]
    model_bytes: int | None = None  # where that depends on the weights
    rank_bytes: int | None = None  # the peak of its memory, where ranks shared the work as they will in training


def run_pilot(session: Session, method: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster) -> Measured:
    """Collective over the session. Train a part. Raises what training does."""
    if method.linear:
        return _train_some_labels(session, method, data, options, needs, cluster)
    if method.pilot:
        return _learn_some_rows(session, method, data, options, needs, cluster)
    return _train_shortened(session, method, data, options)


class _LabelBlock:
    """Some labels in training: what is known of them, and the seconds that they take."""

    def __init__(self, turns: Turns, drop: float | None, history: History, one_by_one: bool, clock: Callable[[], float]) -> None:
        """Train them: all, or a few if they are trained one by one. `drop`: as the option of that name.

        Weights are copied and steps written as text, as for the model and the history.
        """
        self.steps, self.n_kept, self.turns = list[int](), 0, 0
        began = clock()
        with closing(turns):
            for finished in turns:
                self.turns += 1
                for label in finished:
                    w = label.w.values if isinstance(label.w, SparseWeightsOf) else np.ascontiguousarray(label.w)
                    self.n_kept += w.size if drop is None else int(np.count_nonzero(mask_kept_weights(w, drop)))
                    self.steps.append(label.steps)
                    for step in label.history:
                        history.line(step)
                if one_by_one and self.n_done >= FEWEST and clock() - began > SECONDS:
                    break
        self.seconds = clock() - began

    @property
    def n_done(self) -> int:
        """The labels that are done."""
        return len(self.steps)


def _train_some_labels(
    session: Session, entry: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster
) -> Measured:
    """Collective over the session. Every group of ranks trains the same labels, so that all are as busy as in training."""
    if getattr(options, "path", ()):
        raise OptionError("path", options.path, "has no effect on a plan; plan for one --l1")
    comm, began = session.comm, time.process_time()
    if needs.shards > 1:
        options = replace(options, ranks_per_group=needs.shards if comm.size % needs.shards == 0 else None)
    with ExitStack() as stack:
        method, dataset = entry.load(entry.linear), stack.enter_context(opened_dataset(session, data))
        problem, columns = load(stack, entry.name, method, session, dataset, options)
        problem.objective.start_from(comm, problem.names, problem.origin())
        with mpi.groups_agreed(comm):
            columns.tables(problem.loaded_by)
        n_lanes, _, streamed = plan_streaming(comm, problem, options, needs.n_lanes, 0, session.log)
        risk = problem.objective
        risk.chunk_values, risk.kept_values = streamed
        with mpi.agreed(comm, "making room for the weights"):
            solver = method.solver(risk, problem.labels, n_lanes, options)
        with mpi.node_first(comm):
            warm_up(method.solver, risk, options)
        loaded, shards = time.process_time(), problem.rows.comm.size
        n_positive = problem.rows.n_positive[problem.labels]
        labels = np.argsort(-n_positive, kind="stable")
        labels = labels[(n_positive[labels] > 0) & (n_positive[labels] < problem.rows.n_global)]
        refilled = isinstance(solver, PanelSolver)
        blocks = list(_blocks(labels, n_lanes, refilled))
        session.log(f"training {plural(sum(map(len, blocks)), 'label')} of {labels.size:,} to measure the time")
        points, tail = [], 0.0  # of a block: rows of a label, its seconds, its weights in the model
        clock, history = time.perf_counter if any(streamed) else time.process_time, method.history
        for block in blocks:
            with mpi.groups_agreed(comm):
                done = _LabelBlock(solver.solve(block.tolist(), NEVER), options.drop, history, solver.one_by_one, clock)
            each = done.seconds / done.n_done
            if refilled:  # the last labels leave lanes empty, once in a training
                each = float(np.mean(done.steps)) / n_lanes * done.seconds / done.turns
                tail = max(0.0, done.seconds - done.n_done * each)
            points.append(
                (float(n_positive[block[: done.n_done]].mean()), mpi.allreduce_max(comm, each), done.n_kept / done.n_done)
            )
        tail, shared = mpi.allreduce_max(comm, tail), shards / needs.shards
        of_labels, weights = _interpolate(points, n_positive[labels])
        dealt = np.zeros(-(-labels.size // needs.n_groups) * needs.n_groups)
        dealt[: labels.size] = of_labels  # in turn, the most frequent first
        busy = float(dealt.reshape(-1, needs.n_groups).sum(axis=0).max()) if labels.size else 0.0
        model_bytes = needs.model_bytes
        if options.drop is not None:
            weight = 4 + problem.objective.weight_type.itemsize  # a column and a weight
            model_bytes = int(weight * weights.sum()) + 64 * n_positive.size + 8 * problem.rows.n_features
        same = (shards, comm.size) == (needs.shards, cluster.n_ranks)
        return Measured(
            seconds={
                "load": mpi.allreduce_max(comm, loaded - began),
                "train": shared * (busy + tail),
                **_seconds_to_write(comm, model_bytes),
            },
            sample=f"{plural(sum(map(len, blocks)), 'label')} of {labels.size:,}",
            assumed=[] if shards == needs.shards else [f"{needs.shards} ranks that divide the rows wait for no messages"],
            model_bytes=model_bytes,
            rank_bytes=int(mpi.allreduce_max(comm, peak_mib()) * 2**20) if same else None,
        )


def _blocks(labels: np.ndarray, n_lanes: int, refilled: bool) -> Iterator[np.ndarray]:
    """Yield the labels to train, of those by falling frequency: all, if they are few."""
    if refilled and labels.size:
        yield labels[np.unique(np.linspace(0, labels.size - 1, PANELS * n_lanes).astype(int))]
    elif labels.size <= BLOCKS * n_lanes:
        yield from (labels[first : first + n_lanes] for first in range(0, labels.size, n_lanes))
    else:
        places = (np.linspace(0, 1, BLOCKS) ** SKEW * (labels.size - n_lanes)).astype(int)
        yield from (labels[first : first + n_lanes] for first in np.maximum(places, np.arange(BLOCKS) * n_lanes).tolist())


def _interpolate(points: list[tuple[float, float, float]], n_positive: np.ndarray) -> np.ndarray:
    """Return the seconds and weights (2, labels) of labels with `n_positive` rows."""
    x, *values = np.array(sorted(points)).T if points else np.ones((3, 1))
    return np.stack([np.interp(np.log(n_positive), np.log(x), y) for y in values])


def _learn_some_rows(session: Session, method: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster) -> Measured:
    """Collective over the session. Learn from the first rows."""
    comm = session.comm
    found = method.load(f"{method.pilot}:learn_some_rows")(session, method.name, data, options, cluster.n_ranks)
    complete = found.n_done == found.n_rows and comm.size == cluster.n_ranks
    seconds = {"load": found.load, "train": found.learn * found.n_rows / max(1, found.n_done)}
    seconds |= _seconds_to_write(comm, needs.model_bytes)
    seconds[WRITE] += found.gather
    return Measured(
        seconds=seconds,
        sample=f"{plural(found.n_done, 'row')} of {found.n_rows:,}",
        assumed=[],
        rank_bytes=int(mpi.allreduce_max(comm, peak_mib()) * 2**20) if complete else None,
    )


def _train_shortened(session: Session, method: Method, data: Path, options: Any) -> Measured:
    """Collective over the session. Train with one cycle (round), once more, and with several."""
    comm, name = session.comm, "cycles" if "cycles" in method.option_names else "rounds"
    total = getattr(options, name)
    several = min(total, CYCLES)
    folder = Path(mpi.run_on_root(comm, "creating a folder", lambda: tempfile.mkdtemp(prefix="hpcml-plan-", dir=".")))
    remove, found = partial(shutil.rmtree, folder, ignore_errors=True), list[tuple[float, int]]()
    changed = {"patience": None, "time_limit": None}.items()
    options = replace(options, **{key: value for key, value in changed if key in method.option_names})
    quiet, clock = Session(comm, Log(1)), time.process_time
    if getattr(options, "device", "cpu") == "gpu":
        clock = time.perf_counter
    with undone(remove):
        try:
            for n in (1, 1, several):
                begin = clock()
                train(method.name, quiet, data, Target(folder / "run", force=True), replace(options, **{name: n}))
                seconds = mpi.allreduce_max(comm, clock() - begin)
                size = mpi.run_on_root(comm, "measuring the model", lambda: (folder / "run" / "model.h5").stat().st_size)
                found.append((seconds, size))
        finally:
            if comm.rank == 0:
                remove()
    (first, _), (one, smaller), (more, larger) = found
    longer = (total - 1) / max(1, several - 1)
    growth = longer if name == "rounds" else 1.0  # every round adds a classifier; of the cycles one is the model
    return Measured(
        seconds={"load": max(0.0, first - one), "train": one + max(0.0, more - one) * longer},
        sample=f"{several} {name} of {total:,}",
        assumed=[f"the model grows as in the first {several} {name}"],
        model_bytes=int(smaller + growth * max(0, larger - smaller)),
        rank_bytes=int(mpi.allreduce_max(comm, peak_mib()) * 2**20),
    )


def _seconds_to_write(comm: mpi.Comm, nbytes: int) -> dict[str, float]:
    """Collective over `comm`. Return the seconds to write `nbytes` bytes, by a smaller file in the current folder."""

    def write() -> dict[str, float]:
        block, count = np.random.default_rng(0).bytes(1 << 22), max(1, min(nbytes, DISK_BYTES) >> 22)
        with tempfile.TemporaryFile(dir="." if os.access(".", os.W_OK) else None) as file:
            begin, share = time.process_time(), nbytes / (count * len(block))
            for _ in range(count):
                file.write(block)
            file.flush()
            written, begun = time.process_time(), time.perf_counter()
            os.fsync(file.fileno())
            return {WRITE: share * (written - begin), "force it to the disk": share * (time.perf_counter() - begun)}

    return mpi.run_on_root(comm, "measuring the disk", write)
