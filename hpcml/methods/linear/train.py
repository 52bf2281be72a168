"""Training of many labels into a run folder: load, solve, write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcml import mpi
from hpcml.log import plural
from hpcml.methods.linear.layout import lanes_that_fit, plan_streaming
from hpcml.methods.linear.left_out import count_left_out
from hpcml.methods.linear.load import LabelProblem, load
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.report import TrainReport, read_report
from hpcml.methods.linear.run import LabelRun, check_disk, check_origin
from hpcml.methods.linear.settings import Chosen, solve_by_setting
from hpcml.methods.linear.solver import warm_up
from hpcml.methods.method import Method
from hpcml.model.linear import Model
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.folder import FINISHED, UNFINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target
from hpcml.slices import stop_at

if TYPE_CHECKING:
    from hpcml.methods.retrain import PreviousRun


def train(
    method: Method,
    session: Session,
    data: Path,
    target: Target,
    options: LinearOptions,
    saved_options: Any = None,
    choose: Callable[[LabelProblem, RunFolder], Chosen] | None = None,
    earlier: PreviousRun | None = None,
) -> TrainReport:
    """Train one model per label of `data` into the target's folder. Collective over the session.

    `choose` tunes settings per label, with `saved_options` for config.toml; unchanged labels keep their models of an `earlier` run.
    Nothing is written before the options were checked against the data. Raises ConfigError, DataError or NonFiniteError on invalid
    user input, Interrupted after a signal or the time limit.
    """
    options.validate()
    comm, log = session.comm, session.log
    dataset = method.open_data(comm, data)
    with dataset, ExitStack() as stack:
        problem, columns = load(stack, method.name, method.load(method.linear), session, dataset, options)
        profile = problem.objective.profile
        folder, origin = stack.enter_context(RunFolder(comm, target.output, log)), problem.origin()
        problem.objective.start_from(comm, problem.names, origin)
        if earlier is not None:
            earlier.match_labels(comm, problem, log)
        unchanged, source = ({}, None) if earlier is None else (earlier.unchanged, str(earlier.run.resolve()))
        state = folder.prepare(RunConfig(method.name, dataset.path.resolve(), saved_options or options, source), target)
        if state == FINISHED:
            mpi.run_on_root(comm, f"reading {folder.model}", lambda: check_origin(Model(folder.model).attrs, origin))
            return read_report(folder, problem, options, unchanged)
        check_disk(folder, problem, options)
        chosen = None if choose is None else choose(problem, folder)
        rows, labels, linear = problem.rows, problem.labels, problem.method
        n_values = int(rows.counts.sum(dtype="int64"))  # of all ranks of the group
        spent = 0.0 if chosen is None else chosen.seconds
        driver = Driver(comm, rows.comm, session.signals, options.time_limit, options.checkpoint_every, n_values, spent)
        driver.profile = profile
        with profile("start"):  # the labels' costs need kernels
            has_scores = chosen is None and linear.leaves_out(options) and (earlier is None or earlier.has_scores)
            run = LabelRun(driver, problem, folder, options, origin, chosen, has_scores)
        with profile("write"):
            run.start(state == UNFINISHED, columns, stop_at(session.signals, "writing the columns of the features"))
        del columns
        with closing(run.results):
            with profile("write"):
                waiting, continued, checkpoint = run.begin(state == UNFINISHED)
            if earlier is not None:
                run.copy_unchanged(earlier)
                waiting = [label for label in waiting if label not in unchanged]

            # Layout: labels per pass, and streamed rows.
            _, (n_values,) = mpi.exclusive_sum(rows.comm, [rows.data.size])
            sizes = 0 if rows.mapped else int(n_values), rows.n_global, rows.n_columns
            n_lanes = lanes_that_fit(sizes, rows.comm.size, options, room_per_rank(comm), linear.memory, linear.lanes)
            n_lanes = max(1, len(continued), min(n_lanes, len(waiting) + len(continued)))
            n_lanes, run.chunk_values, streamed = plan_streaming(comm, problem, options, n_lanes, run.chunk_values, log)
            risk = problem.objective
            risk.chunk_values, risk.kept_values = streamed
            count = None
            if chosen is None:
                with mpi.agreed(comm, "making room for the weights"):
                    run.solver = linear.solver(risk, labels, n_lanes, options)
                turns = run.solver.solve(waiting, driver)
                if has_scores:
                    count = partial(count_left_out, drop=options.drop or 0.0)
                    turns = count(turns, risk, run.solver, driver)
            else:  # labels in training are not checkpointed
                turns = solve_by_setting(linear, risk, labels, n_lanes, options, chosen, waiting, driver)

            n_labels = len(problem.names) - len(unchanged)
            with_lambda = f", λ = {risk.lam:.4g}" if options.losses and chosen is None else ""
            log(
                f"training {plural(n_labels, 'label') if n_labels else 'no label'} on {plural(rows.n_global, 'row')} × "
                f"{plural(rows.n_features, 'feature')} with {problem.method_name}{with_lambda}"
            )
            log.detail(
                f"in memory: {plural(rows.n_columns, 'column')}; a copy of the rows for {problem.loaded_by.size} of "
                f"{plural(comm.size, 'rank')}; {plural(n_lanes, 'label')} trained together"
            )
            if chosen is None and options.loss == "logistic" and options.lam == LinearOptions.lam:
                log("note: the default λ is often too large for the logistic loss; use hpcml tune --loss logistic to choose λ")
            if warning := risk.warning():
                log(f"warning: {warning}")

            # All ranks at once: a kernel that is not in the cache is compiled by one of them (`kernels.cache`). One rank before the
            # others takes 0.25 s longer with a filled cache.
            with profile("start"):
                warm_up(linear.solver, risk, options, count)
            with mpi.groups_agreed(comm):
                for row in continued:
                    run.restore(row, checkpoint)
            driver.run(turns, run, log)
            with profile("write"):
                run.flush()
        with profile("write"):
            run.write_model()
        cpu_seconds = comm.allreduce(driver.cpu_seconds)
        report = read_report(folder, problem, options, unchanged, driver.seconds, cpu_seconds)
        log.detail(f"{report.mean_steps:.1f} iterations a label, {100 * report.visited:.0f} % of the rows visited in each")
        return report
