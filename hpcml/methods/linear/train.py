"""Training many labels into a run folder: `hpcml train METHOD`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows, warm_up
from hpcml.data.dataset import Dataset, default_split
from hpcml.data.headings import heading_features
from hpcml.data.labels import choose_labels, count_positives, fingerprint, tell_unused
from hpcml.data.shard import Shard, load_shard
from hpcml.data.shared_rows import node_rows, own_rows
from hpcml.errors import DataError, Interrupted
from hpcml.files.atomic import sync, temporary_path
from hpcml.files.hdf5 import DAMAGE, open_stamped
from hpcml.files.slabs import Slab, SlabFile
from hpcml.log import Log, Progress, plural
from hpcml.methods.linear.block import Solver
from hpcml.methods.linear.earlier import Earlier
from hpcml.methods.linear.layout import (
    VALUE_BYTES,
    Sharding,
    check_disk,
    check_loading,
    choose_shards,
    chunk_values,
    fewer_lanes,
    kept_values,
    lanes_per_group,
)
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import PRECISIONS, Risk
from hpcml.methods.linear.options import LinearOptions, with_defaults
from hpcml.methods.linear.report import TrainReport, read_report
from hpcml.methods.linear.run import LabelRun
from hpcml.methods.linear.settings import Chooser, Chosen, SettingsSolver
from hpcml.model.linear import OBJECTIVE, describe_model, model_slabs
from hpcml.mpi.memory import give_back, room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.folder import FINISHED, UNFINISHED, RunConfig, RunFolder, config_before
from hpcml.run.profile import Profile
from hpcml.run.session import Session, Target
from hpcml.run.sparse_weights import SparseWeights, complete_model
from hpcml.signals import StopSignals
from hpcml.slices import Look, stop_at


@mpi.collective
def train(
    method: LinearMethod,
    session: Session,
    data: Path,
    target: Target,
    options: LinearOptions,
    chooser: Chooser | None = None,
    earlier: Earlier | None = None,
) -> TrainReport:
    """Collective over the session. Train one model per label of `data` into the run folder of the target.

    A `chooser` first chooses some of the options for each label. Labels keep the models of an `earlier` run that still hold.
    When a run is continued, a loss or an intercept that is not given
    is the run's own. Raises ConfigError, DataError or NonFiniteError for what the user can mend, Interrupted after a signal or the
    time limit.
    """
    options.validate()
    comm = session.comm
    options = with_defaults(options, config_before(comm, target))
    with mpi.agreed(comm, f"opening {data}"):
        dataset = Dataset(data)
    with dataset:
        return _train(method, session, dataset, target, options, chooser, earlier)


@dataclass
class LabelProblem:
    """What is to be trained on, as a group of ranks sees it."""

    method: LinearMethod
    dataset: Dataset
    split: str
    loaded_by: mpi.Comm  # the ranks that have divided the rows among their shards
    shard: Shard
    rows: CompactRows
    columns: ColumnMap | None  # only until the model's tables are written
    objective: Risk
    labels: np.ndarray  # their numbers in the data
    names: list[str]
    group: tuple[int, int]  # this rank's group and the number of groups

    @mpi.collective
    def origin(self) -> dict[str, object]:
        """Collective over the group. What a run has in common with its continuation, or an earlier model that it starts from."""
        return {
            "vocabulary": self.dataset.vocabulary,
            "n_rows": self.rows.n_global,
            "fingerprint": fingerprint(self.loaded_by, self.shard, f"{self.rows.scale!r} {self.objective.lam!r}"),
        }


@mpi.collective
def _train(
    method: LinearMethod,
    session: Session,
    dataset: Dataset,
    target: Target,
    options: LinearOptions,
    chooser: Chooser | None,
    earlier: Earlier | None,
) -> TrainReport:
    """Collective. Set up the problem, then the folder (untouched before the options fit the data), then train."""
    comm, log = session.comm, session.log
    profile, look = Profile(), stop_at(session.signals, "reading the rows")
    with profile("load"), ExitStack() as stack:
        split = options.split or default_split(dataset, "train")
        tell_unused(comm, dataset, split, log)
        shard = load_shard(comm, dataset, split)
        warm_up(comm, shard)
        labels, names = choose_labels(comm, dataset, options, count_positives(comm, shard))
        headings = heading_features(comm, dataset, options.exclude)
        shards = choose_shards(comm, dataset, shard, labels.size, options, method.sharding)
        exact = method.sharding is Sharding.EXACT
        needed = check_loading(comm, shard, shards, labels.size, options, method.needs) if exact else 0
        rows_comm = stack.enter_context(mpi.divided(comm, shards))
        alone = shards == 1 and not exact
        loaded_by = stack.enter_context(mpi.on_node(comm)) if alone else rows_comm
        with mpi.groups_agreed(comm):
            shard = shard if loaded_by.size == comm.size else load_shard(loaded_by, dataset, split)
            if alone:
                rows, column_map = node_rows(loaded_by, rows_comm, shard, options.bias, look, method.risk.folds)
            elif exact:
                rows, column_map = own_rows(rows_comm, shard, options.bias, needed, look, method.risk.folds)
            else:
                rows, column_map = compact_rows(rows_comm, shard, options.bias, look=look, fold=method.risk.folds)
            objective = method.risk(rows, options, profile)
            objective.headings = None if headings is None else headings.in_columns(column_map.column_of)
            objective.prepare(loaded_by)
        group = (comm.rank // shards, comm.size // shards)
        problem = LabelProblem(method, dataset, split, loaded_by, shard, rows, column_map, objective, labels, names, group)
        del column_map
        with mpi.agreed(comm, f"reading {dataset.path}"):
            dataset.check_unchanged()
        stack = stack.pop_all()
    with stack, RunFolder(comm, target.output, log) as folder:
        return _train_problem(comm, problem, folder, options, target, session.signals, chooser, earlier)


@mpi.collective
def _train_problem(
    comm: mpi.Comm,
    problem: LabelProblem,
    folder: RunFolder,
    options: LinearOptions,
    target: Target,
    signals: StopSignals,
    chooser: Chooser | None,
    earlier: Earlier | None,
) -> TrainReport:
    """Collective over `comm`. Train into the folder; see `train`."""
    rows, objective, log, origin = problem.rows, problem.objective, folder.log, problem.origin()
    objective.start_from(comm, problem.names, origin)
    asked = options if chooser is None else chooser.asked(options)
    source = None if earlier is None else str(earlier.run.resolve())
    if earlier is not None:
        earlier.compare(comm, problem, log)
    kept = frozenset() if earlier is None else frozenset(earlier.kept)
    state = folder.prepare(RunConfig(problem.method.name, problem.dataset.path.resolve(), asked, source), target)
    if state == FINISHED:
        log(f"{folder.path} is finished already; nothing to resume")
        return read_report(comm, folder, problem.rows, objective, 0.0, options, kept)
    if options.drop is None:
        sizes = (len(problem.names), rows.n_columns - rows.bias, objective.weight_type.itemsize)
        with folder.discarded_on_error():
            check_disk(comm, folder.model_part, *sizes, log)
    look = stop_at(signals, "writing what the model says of the features")
    chosen = None if chooser is None else chooser.choose(comm, problem, folder, options, target.resume, signals)
    model = open_model(comm, folder, problem, options, origin, state == UNFINISHED, look, chosen)
    weights = sparse_weights(comm, folder, problem, options)
    n_values = int(rows.counts.sum(dtype=np.int64))  # on all ranks of the group
    driver = Driver(comm, rows.comm, options, signals, n_values, spent=0.0 if chosen is None else chosen.seconds)
    run = LabelRun(
        driver, rows, problem.group, problem.names, problem.labels, model, folder, options, weights, problem.method.history
    )
    progress = Progress(log, "labels", len(problem.names))
    try:
        waiting, continued, checkpoint = run.begin(restore=state == UNFINISHED)
        if earlier is not None:
            run.take_over(earlier)
            waiting = [place for place in waiting if place not in kept]
        method, room = problem.method, room_per_rank(comm)
        n_lanes = lanes_per_group(len(waiting), len(continued), rows, options, room, method.needs, rows.mapped, method.lanes)
        n_lanes, run.chunk_values = plan_chunks(comm, run, method, n_lanes, log)
        objective.chunk_values, objective.kept_values = plan_streaming(comm, run, method, n_lanes, log)
        with mpi.agreed(comm, "making room for the weights"):
            run.solver = solver = make_solver(problem, n_lanes, options, chosen)
        objective_is = f", λ = {objective.lam:.4g}" if options.losses and chosen is None else ""
        n_new = len(problem.names) - len(kept)
        log(
            f"training {plural(n_new, 'label') if n_new else 'no label'} on {plural(rows.n_global, 'row')} × "
            f"{plural(rows.n_features, 'feature')} with {method.name}{objective_is}"
        )
        log(
            f"in memory: {plural(rows.n_columns, 'column')}, {problem.loaded_by.size} of {plural(comm.size, 'rank')} "
            f"to a copy of the rows, labels that share a pass: {n_lanes}"
        )
        if warning := objective.warning():
            log(f"warning: {warning}")
        with mpi.node_first(comm):
            solver.warm_up()
        with mpi.groups_agreed(comm):
            for place in continued:
                run.restore(place, checkpoint)
        before, began, began_cpu = driver.before, time.monotonic(), time.process_time()
        stopped = driver.run(solver.solve(waiting, driver.stop), run, progress)
        if not stopped:
            run.complete()
    finally:
        progress.close()
        model.close()
        if weights is not None:
            weights.close()
    if stopped:
        raise Interrupted(
            f"{stopped}: checkpoint written; continue with --resume ({driver.n_done} of {plural(len(problem.names), 'label')} done)"
        )
    if weights is not None:
        complete_model(comm, folder.model_part, weights)
    finish(comm, folder)
    cpu_seconds = comm.allreduce(time.process_time() - began_cpu)
    return read_report(comm, folder, rows, objective, before + time.monotonic() - began, options, kept, cpu_seconds)


def make_solver(problem: LabelProblem, n_lanes: int, options: LinearOptions, chosen: Chosen | None) -> Solver:
    """What trains the labels, all with these options, or each with what was chosen for it. Local; raises MemoryError."""
    method, objective = problem.method, problem.objective
    if chosen is not None:
        return SettingsSolver(method, objective, problem.labels, n_lanes, options, chosen)
    return method.solver(objective, problem.labels, n_lanes, options)


@mpi.collective
def plan_chunks(comm: mpi.Comm, run: LabelRun, method: LinearMethod, n_lanes: int, log: Log) -> tuple[int, int]:
    """Collective over `comm`. How many labels share a pass, and values in each chunk of rows that are streamed, else 0.

    Fewer labels than `n_lanes` if that is better than small chunks (`fewer_lanes`), unless the user said how many. Where a run is
    continued, chunks are as before.
    """
    rows = run.rows
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):  # a node with one rank may have rows of its own
        return n_lanes, 0
    give_back()

    def chunk_for(n: int, largest: int) -> int:
        return chunk_values(comm, rows, needed_beside_rows(run, method, n), largest)

    most = int(mpi.allreduce_max(comm, n_lanes))  # ranks with few labels left ask for fewer
    chunk = chunk_for(most, method.chunk)
    if run.chunk_values:
        chunk = min(chunk or run.chunk_values, run.chunk_values)
    elif chunk and not run.options.labels_per_pass:
        found = fewer_lanes(most, lambda n: chunk_for(n, rows.data.size), lambda n: chunk_for(n, method.chunk))
        n_lanes, chunk = min(found[0], n_lanes), found[1]
    if chunk:
        log(
            f"warning: memory is short, so the rows ({rows.data.size * VALUE_BYTES / 1e6:,.0f} MB) are read from the disk in every "
            f"pass, {chunk:,} values at a time; the model differs, within the tolerance, from one made with more memory: give the "
            "job more, or fewer ranks on a node"
        )
    return n_lanes, chunk


@mpi.collective
def plan_streaming(comm: mpi.Comm, run: LabelRun, method: LinearMethod, n_lanes: int, log: Log) -> tuple[int, int]:
    """Collective over `comm`. Values in each chunk of rows that are streamed, and how many stay in memory between two passes.

    (0, 0) if memory holds all rows. After `plan_chunks`; the model does not depend on it.
    """
    rows = run.rows
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):
        return 0, 0
    chunk = run.chunk_values or method.chunk
    most = int(mpi.allreduce_max(comm, n_lanes))
    kept = kept_values(comm, rows, needed_beside_rows(run, method, most), chunk)
    if kept is None:
        return run.chunk_values, 0
    if not run.chunk_values:
        mb = VALUE_BYTES / 1e6
        log(
            f"a rank has room for {mb * (chunk + kept):,.0f} MB of the rows ({mb * rows.data.size:,.0f} MB): others are read "
            "from the disk where they are needed; the model is the same"
        )
    return chunk, kept


def needed_beside_rows(run: LabelRun, method: LinearMethod, n_lanes: int) -> int:
    """Bytes that a rank needs beside the rows if so many labels share a pass. Local."""
    size = PRECISIONS[run.options.precision].itemsize
    return method.needs(0, run.rows.n_global, run.rows.n_columns, n_lanes, 1, size)


def sparse_weights(comm: mpi.Comm, folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> SparseWeights | None:
    """What takes the weights of the labels where the model is to be sparse. Local."""
    if options.drop is None:
        return None
    n_columns, precision = problem.rows.n_columns - problem.rows.bias, problem.objective.weight_type.str
    n_columns = problem.objective.row_width(n_columns)
    return SparseWeights(comm, folder.checkpoints, len(problem.names), n_columns, precision, options.drop)


@mpi.collective
def open_model(
    comm: mpi.Comm,
    folder: RunFolder,
    problem: LabelProblem,
    options: LinearOptions,
    origin: dict[str, object],
    unfinished: bool,
    look: Look,
    chosen: Chosen | None,
) -> SlabFile:
    """Collective over `comm`. The model file to fill: a new one, or the unfinished one of a run to continue; without a W
    that will be sparse.

    Raises DataError if that is damaged or belongs to other data, and what `look` does.
    """
    rows = problem.rows
    sizes = (len(problem.names), rows.n_features, rows.n_columns - rows.bias)
    optional = () if chosen is None else tuple(chosen.columns)
    slabs = model_slabs(*sizes, problem.objective.weight_type.str, problem.method.certified, optional=optional)
    if options.drop is not None:
        del slabs["W"]
    model = SlabFile(comm, folder.model_part, folder.model_part)
    if unfinished:
        with mpi.agreed(comm, f"reading {folder.model_part}"):
            offsets = model_offsets(folder.model_part, origin, slabs)
        model.attach(offsets)
        return model

    def describe(file: h5py.File) -> None:
        about = {"method": problem.method.name, "loss": options.loss, "lambda": problem.objective.lam, "split": problem.split}
        about |= {"epsilon": options.epsilon, "dormant": problem.objective.dormant}
        about |= {"positive_weight": options.positive_weight}
        if not options.losses:  # there is no objective
            about = {name: value for name, value in about.items() if name not in OBJECTIVE}
        about |= {**origin, **problem.objective.about, **({} if chosen is None else chosen.about)}
        describe_model(file, about, problem.names, label_titles=problem.dataset.label_titles(problem.labels))

    with folder.discarded_on_error(), temporary_path(comm, folder.model_part, overwrite=True) as model.path:
        model.layout(slabs, describe)
        with mpi.groups_agreed(comm):
            columns, factors = problem.columns.tables(problem.loaded_by, look)
        problem.columns = None
        with mpi.agreed(comm, f"writing {folder.model_part}"):
            problem.dataset.check_unchanged()  # the rows have been read for the last time
            if comm.rank == 0:
                model.write("columns", 0, columns)
                model.write("factors", 0, factors)
                for name, values in ({} if chosen is None else chosen.columns).items():
                    model.write(f"labels/{name}", 0, values)
    return model


def model_offsets(path: Path, origin: dict[str, object], slabs: dict[str, Slab]) -> dict[str, tuple[int, Slab]]:
    """Where the slabs of an unfinished model lie, for `SlabFile.attach`.

    Raises DataError if the file is damaged or belongs to other data than `origin` tells.
    """
    try:
        with open_stamped(path, "model", "hpcml train") as file:
            found = {key: file.attrs[key] for key in origin} | ({"shape": file["W"].shape} if "W" in slabs else {})
            sound = all(Slab(file[name].shape, file[name].dtype.str) == slab for name, slab in slabs.items())
            offsets = {name: (file[name].id.get_offset(), slab) for name, slab in slabs.items()}
        sound = sound and all(offset or 0 in slab.shape for offset, slab in offsets.values())
    except (DataError, *DAMAGE):
        raise DataError(f"{path}: the unfinished model is damaged; start again with --force") from None
    for key, value in (origin | ({"shape": slabs["W"].shape} if "W" in slabs else {})).items():
        if np.shape(found[key]) != np.shape(cast(Any, value)) or found[key] != value:
            raise DataError(f"this run was started on other data ({key} {found[key]}, not {value}); resume with the same file")
    if not sound:
        raise DataError(f"{path}: the unfinished model is damaged; start again with --force")
    return offsets


@mpi.collective
def finish(comm: mpi.Comm, folder: RunFolder) -> None:
    """Collective over `comm`. Give the complete model its name and drop the checkpoints."""
    with mpi.agreed(comm, f"finishing {folder.model}"):
        if comm.rank == 0:
            sync(folder.model_part)
            folder.model_part.replace(folder.model)
            folder.finish()
            sync(folder.path)
            folder.drop_checkpoints()
