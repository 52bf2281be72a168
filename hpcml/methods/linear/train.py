"""Training many labels into a run folder, `hpcml train METHOD`: load, solve, write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcml import mpi
from hpcml.log import plural
from hpcml.methods.linear.layout import lanes_that_fit, plan_streaming
from hpcml.methods.linear.load import LabelProblem, load
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.report import TrainReport, read_report
from hpcml.methods.linear.run import LabelRun, check_disk, check_origin
from hpcml.methods.linear.settings import Chosen, solve_by_setting
from hpcml.methods.linear.solver import turns_of, warm_up
from hpcml.methods.method import Method
from hpcml.model.linear import Model
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.folder import FINISHED, UNFINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target
from hpcml.slices import stop_at

if TYPE_CHECKING:
    from hpcml.methods.retrain import Earlier


def train(
    method: Method,
    session: Session,
    data: Path,
    target: Target,
    options: LinearOptions,
    asked: Any = None,
    choose: Callable[[LabelProblem, RunFolder], Chosen] | None = None,
    earlier: Earlier | None = None,
) -> TrainReport:
    """Collective over the session. Train one model per label of `data` into the target's folder.

    `choose` first chooses settings for each label (`asked`: the options for config.toml then); labels keep models of an `earlier`
    run that still hold. Nothing is written before the options fit the data. Raises ConfigError, DataError or NonFiniteError on
    invalid user input, Interrupted after a signal or the time limit.
    """
    options.validate()
    comm, log = session.comm, session.log
    dataset = method.open_data(comm, data)
    with dataset, ExitStack() as stack:
        problem, columns = load(stack, method.name, method.load(method.linear), session, dataset, options)
        folder, origin = stack.enter_context(RunFolder(comm, target.output, log)), problem.origin()
        problem.objective.start_from(comm, problem.names, origin)
        if earlier is not None:
            earlier.compare(comm, problem, log)
        kept, source = ({}, None) if earlier is None else (earlier.kept, str(earlier.run.resolve()))
        state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), asked or options, source), target)
        if state == FINISHED:
            mpi.run_on_root(comm, f"reading {folder.model}", lambda: check_origin(Model(folder.model).attrs, origin))
            return read_report(folder, problem, options, kept)
        check_disk(folder, problem, options)
        chosen = None if choose is None else choose(problem, folder)
        rows, labels, linear = problem.rows, problem.labels, problem.method
        n_values = int(rows.counts.sum(dtype="int64"))  # on all ranks of the group
        spent = 0.0 if chosen is None else chosen.seconds
        driver = Driver(comm, rows.comm, session.signals, options.time_limit, options.checkpoint_every, n_values, spent)
        with mpi.node_first(comm):  # what labels cost is computed by kernels
            run = LabelRun(driver, problem, folder, options, origin, chosen)
        run.start(state == UNFINISHED, columns, stop_at(session.signals, "writing what the model says of the features"))
        del columns
        with closing(run.results):
            waiting, continued, checkpoint = run.begin(state == UNFINISHED)
            if earlier is not None:
                run.take_over(earlier)
                waiting = [place for place in waiting if place not in kept]

            # The layout: how many labels share a pass, and which rows are read from the disk in every pass.
            _, (n_values,) = mpi.exclusive_sum(rows.comm, [rows.data.size])
            sizes = 0 if rows.mapped else int(n_values), rows.n_global, rows.n_columns
            n_lanes = lanes_that_fit(sizes, rows.comm.size, options, room_per_rank(comm), linear.memory, linear.lanes)
            n_lanes = max(1, len(continued), min(n_lanes, len(waiting) + len(continued)))
            n_lanes, run.chunk_values, streamed = plan_streaming(comm, problem, options, n_lanes, run.chunk_values, log)
            risk = problem.objective
            risk.chunk_values, risk.kept_values = streamed
            if chosen is None:
                with mpi.agreed(comm, "making room for the weights"):
                    run.solver = linear.solver(risk, labels, n_lanes, options)
                turns = turns_of(run.solver, risk, waiting, driver, run)
            else:  # labels in training are not checkpointed
                turns = solve_by_setting(linear, risk, labels, n_lanes, options, chosen, waiting, driver, run)

            n_labels = len(problem.names) - len(kept)
            objective_is = f", λ = {risk.lam:.4g}" if options.losses and chosen is None else ""
            log(
                f"training {plural(n_labels, 'label') if n_labels else 'no label'} on {plural(rows.n_global, 'row')} × "
                f"{plural(rows.n_features, 'feature')} with {problem.method_name}{objective_is}"
            )
            log.detail(
                f"in memory: {plural(rows.n_columns, 'column')}; a copy of the rows for {problem.loaded_by.size} of "
                f"{plural(comm.size, 'rank')}; {plural(n_lanes, 'label')} trained together"
            )
            if chosen is None and options.loss == "logistic" and options.lam == LinearOptions.lam:
                log("note: for the logistic loss the default λ is often too large; hpcml tune --loss logistic chooses λ")
            if warning := risk.warning():
                log(f"warning: {warning}")

            with mpi.node_first(comm):
                warm_up(linear.solver, risk, options, run)
            with mpi.groups_agreed(comm):
                for place in continued:
                    run.restore(place, checkpoint)
            driver.run(turns, run, log)
            run.flush()
        run.write_model()
        report = read_report(folder, problem, options, kept, driver.seconds, comm.allreduce(driver.cpu_seconds))
        log.detail(f"{report.mean_steps:.1f} iterations a label, {100 * report.visited:.0f} % of the rows visited in each")
        return report
