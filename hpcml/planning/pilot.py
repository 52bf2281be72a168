"""The timed pilot of a plan: the method trains a part of the work on the real rows.

Methods with a weight vector per label load all rows, as training does, and train some labels: panels at quantiles of the label
frequency, between which the time is interpolated. Single-pass learners train on the first rows. Methods with one classifier of all
classes are trained twice, with fewer cycles or rounds. Times are CPU seconds, which are insensitive to other programs, except if
rows are read from disk or scored on a GPU (wall time).
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
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
from hpcml.methods.linear.left_out import count_left_out
from hpcml.methods.linear.load import load
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import SparseWeightsOf, warm_up
from hpcml.methods.registry import Method, train
from hpcml.model.linear import mask_kept_weights
from hpcml.mpi.memory import peak_mib
from hpcml.planning.memory import Cluster, Requirements
from hpcml.run.session import Session, Target, open_shared_dataset
from hpcml.run.stop import NEVER
from hpcml.signals import cleanup_on_exit

# Panels to train, and the power of their quantiles: more panels of frequent labels, whose times vary most.
BLOCKS, SKEW = 6, 1.7
PANELS = 3  # panels of labels whose lanes are refilled when a label is done
MIN_LABELS, SECONDS = 2, 2.0  # per block of labels that are trained one by one
CYCLES = 5  # of the longer of two trainings
DISK_BYTES = 1 << 26  # of a test file
WRITE = "write the model"


@dataclass(frozen=True)
class Measured:
    seconds: dict[str, float]  # of the whole training, by phase
    sample: str  # the part that was trained
    assumed: list[str]
    model_bytes: int | None = None  # if it depends on the weights
    rank_bytes: int | None = None  # peak memory, if the ranks shared the work as in the training


def run_pilot(session: Session, method: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster) -> Measured:
    if method.linear:
        return _train_some_labels(session, method, data, options, needs, cluster)
    if method.pilot:
        return _train_first_rows(session, method, data, options, needs, cluster)
    return _train_shortened(session, method, data, options)


def _peak_bytes(comm: mpi.Comm) -> int:
    return int(mpi.allreduce_max(comm, peak_mib()) * 2**20)


def _train_some_labels(
    session: Session, entry: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster
) -> Measured:
    """Train some labels, the same in every rank group, so that all groups are busy as in training. Collective over the session."""
    if getattr(options, "path", ()):
        raise OptionError("path", options.path, "has no effect on a plan; use --l1 instead")
    comm, began = session.comm, time.process_time()
    if needs.shards > 1:
        options = replace(options, ranks_per_group=needs.shards if comm.size % needs.shards == 0 else None)
    with ExitStack() as stack:
        method, dataset = entry.load(entry.linear), stack.enter_context(open_shared_dataset(session, data))
        problem, columns = load(stack, entry.name, method, session, dataset, options)
        risk = problem.objective
        risk.start_from(comm, problem.names, problem.origin())
        with mpi.groups_agreed(comm):
            columns.tables(problem.loaded_by)
        count = partial(count_left_out, drop=options.drop or 0.0) if method.leaves_out(options) else None
        n_lanes, _, streamed = plan_streaming(comm, problem, options, needs.n_lanes, 0, session.log)
        risk.chunk_values, risk.kept_values = streamed
        with mpi.agreed(comm, "allocating the weights"):
            solver = method.solver(risk, problem.labels, n_lanes, options)
        with mpi.node_first(comm):
            warm_up(method.solver, risk, options, count)
        loaded, shards = time.process_time(), problem.rows.comm.size
        n_positive = problem.rows.n_positive[problem.labels]
        labels = np.argsort(-n_positive, kind="stable")
        labels = labels[(n_positive[labels] > 0) & (n_positive[labels] < problem.rows.n_global)]
        refilled = isinstance(solver, PanelSolver)
        blocks = list(_choose_blocks(labels, n_lanes, refilled))
        sample = f"{plural(sum(map(len, blocks)), 'label')} of {labels.size:,}"
        session.log(f"training {sample} to measure the time")
        points, tail = [], 0.0  # by block: positive rows, seconds and bytes in the model per label
        weight_bytes = 4 + risk.weight_type.itemsize  # a column and a weight
        clock = time.perf_counter if any(streamed) else time.process_time
        for block in blocks:
            steps, n_bytes, n_turns, started = list[int](), 0, 0, clock()
            with mpi.groups_agreed(comm), closing(solver.solve(block.tolist(), NEVER)) as turns:
                for finished in turns if count is None else count(turns, risk, solver, NEVER):
                    n_turns += 1
                    for label in finished:  # with the copy of weights and the history as text, as for a run folder
                        w = label.w.values if isinstance(label.w, SparseWeightsOf) else np.ascontiguousarray(label.w)
                        n_bytes += weight_bytes * int(np.count_nonzero(mask_kept_weights(w, options.drop or 0.0))) + len(
                            label.scores
                        )
                        steps.append(label.steps)
                        for step in label.history:
                            method.history.line(step)
                    if solver.one_by_one and len(steps) >= MIN_LABELS and clock() - started > SECONDS:
                        break
                seconds_of_block, n_done = clock() - started, len(steps)
            each = seconds_of_block / n_done
            if refilled:  # the last labels leave lanes empty, once per training
                each = float(np.mean(steps)) / n_lanes * seconds_of_block / n_turns
                tail = max(0.0, seconds_of_block - n_done * each)
            points.append((float(n_positive[block[:n_done]].mean()), mpi.allreduce_max(comm, each), n_bytes / n_done))
        tail, shared = mpi.allreduce_max(comm, tail), shards / needs.shards
        x, *values = np.array(sorted(points)).T if points else np.ones((3, 1))
        seconds, size = (np.interp(np.log(n_positive[labels]), np.log(x), y) for y in values)
        dealt = np.zeros(-(-labels.size // needs.n_groups) * needs.n_groups)
        dealt[: labels.size] = seconds  # dealt in turn, the most frequent labels first
        busy = float(dealt.reshape(-1, needs.n_groups).sum(axis=0).max()) if labels.size else 0.0
        model_bytes = int(size.sum()) + (72 if count is None else 88) * n_positive.size + 8 * problem.rows.n_features
        if "combination" not in risk.about:
            model_bytes = min(model_bytes, needs.model_bytes)  # sparse or dense
        load_seconds = mpi.allreduce_max(comm, loaded - began)
        no_messages = f"no communication time between the {needs.shards} ranks that share the rows"
        return Measured(
            seconds={"load": load_seconds, "train": shared * (busy + tail), **_time_to_write(comm, model_bytes)},
            sample=sample,
            assumed=[] if shards == needs.shards else [no_messages],
            model_bytes=model_bytes,
            rank_bytes=_peak_bytes(comm) if (shards, comm.size) == (needs.shards, cluster.n_ranks) else None,
        )


def _choose_blocks(labels: np.ndarray, n_lanes: int, refilled: bool) -> Iterator[np.ndarray]:
    """Yield blocks of labels to train; `labels` are sorted by decreasing frequency. A few labels are all trained."""
    if refilled and labels.size:
        yield labels[np.unique(np.linspace(0, labels.size - 1, PANELS * n_lanes).astype(int))]
    elif labels.size <= BLOCKS * n_lanes:
        yield from (labels[first : first + n_lanes] for first in range(0, labels.size, n_lanes))
    else:
        first_labels = (np.linspace(0, 1, BLOCKS) ** SKEW * (labels.size - n_lanes)).astype(int)
        yield from (labels[first : first + n_lanes] for first in np.maximum(first_labels, np.arange(BLOCKS) * n_lanes).tolist())


def _train_first_rows(
    session: Session, method: Method, data: Path, options: Any, needs: Requirements, cluster: Cluster
) -> Measured:
    comm = session.comm
    time_rows = method.load(f"{method.pilot}:time_first_rows")
    load_seconds, learn, gather, n_done, n_rows = time_rows(session, method.name, data, options, cluster.n_ranks)
    complete = n_done == n_rows and comm.size == cluster.n_ranks
    seconds = {"load": load_seconds, "train": learn * n_rows / max(1, n_done), **_time_to_write(comm, needs.model_bytes)}
    seconds[WRITE] += gather
    sample = f"{plural(n_done, 'row')} of {n_rows:,}"
    return Measured(seconds, sample, [], rank_bytes=_peak_bytes(comm) if complete else None)


def _train_shortened(session: Session, method: Method, data: Path, options: Any) -> Measured:
    """Train with one cycle (or round), again with one, and with several. Collective over the session."""
    comm, name = session.comm, "cycles" if "cycles" in method.option_names else "rounds"
    total = getattr(options, name)
    several = min(total, CYCLES)
    folder = Path(mpi.run_on_root(comm, "creating a folder", lambda: tempfile.mkdtemp(prefix="hpcml-plan-", dir=".")))
    remove, results = partial(shutil.rmtree, folder, ignore_errors=True), list[tuple[float, int]]()
    changed = {"patience": None, "time_limit": None}.items()
    options = replace(options, **{key: value for key, value in changed if key in method.option_names})
    quiet, clock = Session(comm, Log(1)), time.process_time
    if getattr(options, "device", "cpu") == "gpu":
        clock = time.perf_counter
    with cleanup_on_exit(remove):
        try:
            for n in (1, 1, several):
                begin = clock()
                train(method.name, quiet, data, Target(folder / "run", force=True), replace(options, **{name: n}))
                seconds = mpi.allreduce_max(comm, clock() - begin)
                nbytes = mpi.run_on_root(comm, "measuring the model", lambda: (folder / "run" / "model.h5").stat().st_size)
                results.append((seconds, nbytes))
        finally:
            if comm.rank == 0:
                remove()
    (first, _), (one, smaller), (more, larger) = results
    longer = (total - 1) / max(1, several - 1)
    growth = longer if name == "rounds" else 1.0  # every round adds a classifier to the model, a cycle does not
    return Measured(
        seconds={"load": max(0.0, first - one), "train": one + max(0.0, more - one) * longer},
        sample=f"{several} {name} of {total:,}",
        assumed=[f"the model grows as in the first {several} {name}"],
        model_bytes=int(smaller + growth * max(0, larger - smaller)),
        rank_bytes=_peak_bytes(comm),
    )


def _time_to_write(comm: mpi.Comm, nbytes: int) -> dict[str, float]:
    """Return the seconds to write `nbytes` bytes, measured with a smaller file in the current folder. Collective over `comm`."""

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
