"""Training many labels into a run folder, `hpcml train METHOD`: load, solve, write."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import Interrupted
from hpcml.log import Progress, plural
from hpcml.methods.linear.earlier import Earlier
from hpcml.methods.linear.layout import lanes_per_group
from hpcml.methods.linear.load import LabelProblem, load
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.model_file import ModelFile, check_disk
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.report import TrainReport, read_report
from hpcml.methods.linear.run import LabelRun
from hpcml.methods.linear.settings import Chooser, Chosen, SettingsSolver
from hpcml.methods.linear.solver import Solver
from hpcml.methods.linear.streaming import plan_chunks, plan_streaming
from hpcml.methods.linear.warm_up import warm_up
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.folder import FINISHED, UNFINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target
from hpcml.slices import stop_at


def train(
    method: LinearMethod,
    session: Session,
    data: Path,
    target: Target,
    options: LinearOptions,
    chooser: Chooser | None = None,
    earlier: Earlier | None = None,
) -> TrainReport:
    """Collective over the session. Train one model per label of `data` into the target's folder.

    A `chooser` first chooses options for each label; labels keep models of an `earlier` run that
    still hold. Nothing is written before the options fit the data. Raises ConfigError, DataError or
    NonFiniteError for what the user can mend, Interrupted after a signal or the time limit.
    """
    options.validate()
    comm, log = session.comm, session.log
    with mpi.agreed(comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset, ExitStack() as stack:
        problem, columns = load(stack, method, session, dataset, options)
        folder, origin = stack.enter_context(RunFolder(comm, target.output, log)), problem.origin()
        problem.objective.start_from(comm, problem.names, origin)
        asked = options if chooser is None else chooser.asked(options)
        if earlier is not None:
            earlier.compare(comm, problem, log)
        source = None if earlier is None else str(earlier.run.resolve())
        state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), asked, source), target)
        if state == FINISHED:
            log(f"{folder.path} is finished already; nothing to resume")
            return read_report(folder, problem, options, () if earlier is None else earlier.kept)
        check_disk(folder, problem, options)
        chosen = None if chooser is None else chooser.choose(comm, problem, folder, options, target.resume, session.signals)
        look = stop_at(session.signals, "writing what the model says of the features")
        model = ModelFile(folder, problem, options, origin, chosen)
        model.start(state == UNFINISHED, columns, look)
        del columns
        n_values = int(problem.rows.counts.sum(dtype="int64"))  # on all ranks of the group
        driver = Driver(comm, problem.rows.comm, options, session.signals, n_values, 0.0 if chosen is None else chosen.seconds)
        with mpi.node_first(comm):  # what labels cost is computed by kernels
            run = LabelRun(driver, problem, folder, options)
        return _complete(run, model, chosen, earlier, state == UNFINISHED)


def _complete(run: LabelRun, model: ModelFile, chosen: Chosen | None, earlier: Earlier | None, restore: bool) -> TrainReport:
    """Collective over the run's ranks. Train, and give the model its name; see `_solve`."""
    try:
        _solve(run, chosen, earlier, restore)
    finally:
        run.close()
    model.write(run.results)
    kept, cpu_seconds = () if earlier is None else earlier.kept, run.comm.allreduce(run.driver.cpu_seconds)
    return read_report(run.folder, run.problem, run.options, kept, run.driver.elapsed, cpu_seconds)


def _solve(run: LabelRun, chosen: Chosen | None, earlier: Earlier | None, restore: bool) -> None:
    """Collective over the run's ranks. Train the labels that are not done, or in a checkpoint.

    Raises Interrupted after a signal or the time limit.
    """
    problem, driver, folder, options = run.problem, run.driver, run.folder, run.options
    comm, log, method = driver.comm, folder.log, problem.method
    progress = Progress(log, "labels", len(problem.names))
    try:
        waiting, continued, checkpoint = run.begin(restore)
        if earlier is not None:
            run.take_over(earlier)
            waiting = [place for place in waiting if place not in earlier.kept]
        rows, room = problem.rows, room_per_rank(comm)
        n_lanes = lanes_per_group(len(waiting), len(continued), rows, options, room, method.memory, rows.mapped, method.lanes)
        n_lanes, run.chunk_values = plan_chunks(comm, problem, options, n_lanes, run.chunk_values, log)
        streamed = plan_streaming(comm, problem, options, n_lanes, run.chunk_values, log)
        with mpi.agreed(comm, "making room for the weights"):
            run.solver = solver = make_solver(problem, n_lanes, streamed, options, chosen)
        _say_what_begins(run, n_lanes, chosen, earlier)
        with mpi.node_first(comm):
            warm_up(problem.method.solver, problem.objective.streamed(*streamed), options)
        with mpi.groups_agreed(comm):
            for place in continued:
                run.restore(place, checkpoint)
        stopped = driver.run(solver.solve(waiting, driver.stop), run, progress)
    finally:
        progress.close()
    if stopped:
        done = f"{driver.n_done} of {plural(len(problem.names), 'label')} done"
        raise Interrupted(f"{stopped}: checkpoint written; continue with --resume ({done})")
    run.complete()


def make_solver(
    problem: LabelProblem, n_lanes: int, streamed: tuple[int, int], options: LinearOptions, chosen: Chosen | None
) -> Solver:
    """The solver of the labels, with these options, or those chosen. Local; raises MemoryError."""
    risk = problem.objective.streamed(*streamed)
    if chosen is not None:
        return SettingsSolver(problem.method, risk, problem.labels, n_lanes, options, chosen)
    return problem.method.solver(risk, problem.labels, n_lanes, options)


def _say_what_begins(run: LabelRun, n_lanes: int, chosen: Chosen | None, earlier: Earlier | None) -> None:
    problem, rows, log = run.problem, run.problem.rows, run.folder.log
    objective_is = f", λ = {problem.objective.lam:.4g}" if run.options.losses and chosen is None else ""
    n_new = len(problem.names) - (0 if earlier is None else len(earlier.kept))
    log(
        f"training {plural(n_new, 'label') if n_new else 'no label'} on {plural(rows.n_global, 'row')} × "
        f"{plural(rows.n_features, 'feature')} with {problem.method.name}{objective_is}"
    )
    log(
        f"in memory: {plural(rows.n_columns, 'column')}, {problem.loaded_by.size} of {plural(run.comm.size, 'rank')} "
        f"to a copy of the rows, labels that share a pass: {n_lanes}"
    )
    if chosen is None and run.options.loss == "logistic" and run.options.lam == LinearOptions.lam:
        log("note: for the logistic loss the default λ is often too large; hpcml tune --loss logistic chooses λ")
    if warning := problem.objective.warning():
        log(f"warning: {warning}")
