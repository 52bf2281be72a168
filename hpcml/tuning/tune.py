"""`hpcml tune`: choose λ and the weight of positive rows for each label; train; decide.

The choice is that of `choose`, from the scores of rows by models that were trained without them.
The scores at the chosen settings also give each label's threshold and the sigmoid that makes its
scores probabilities (`hpcml.evaluation.decision`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.unknown_labels import load_with_unknown
from hpcml.errors import ConfigError, Interrupted
from hpcml.evaluation.decision import Decision, Summary, decide, decide_together
from hpcml.evaluation.missed import NOT_JUDGED, NOT_KNOWN, count_missed
from hpcml.files.table import write_table
from hpcml.log import Progress, plural
from hpcml.methods import registry
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.settings import Chosen, Setting
from hpcml.methods.linear.train import train as train_linear
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.environment import record_end
from hpcml.run.folder import ENVIRONMENT, RunFolder
from hpcml.run.session import Session, Target
from hpcml.signals import StopSignals
from hpcml.tuning.choose import choose
from hpcml.tuning.cross import CrossFits, CrossRun
from hpcml.tuning.folds import Fold, deal, fold_rows
from hpcml.tuning.grid import ROUNDS, Grid, column_of, concrete, default_of, text_of
from hpcml.tuning.options import TuneOptions
from hpcml.tuning.records import Records
from hpcml.tuning.report import TuneReport, tables

IDF = (
    "note: words and idf come from all training rows, also from those that a fold holds out: on three collections that raised the "
    "mean average precision in the folds by 0.000 to 0.004"
)
SHARE = 0.25  # of a rank's room, for scores


@mpi.collective
def tune(session: Session, data: Path, target: Target, options: TuneOptions) -> TuneReport:
    """Collective over the session. Choose, train and decide, into the run folder of the target.

    Raises ConfigError, DataError or NonFiniteError for what the user can mend, Interrupted after a
    signal or the time limit.
    """
    options.validate()
    line = registry.method_named(options.method)
    registry.check_headings(session, data, line)
    method = line.load(line.linear)
    known = {field.name for field in fields(line.options)} - {"method"}
    given = {field.name: getattr(options, field.name) for field in fields(options) if field.name in known}
    of_method = line.options(**{name: value for name, value in given.items() if value is not None}, **_alone(line.options))
    tuner = Tuner(options)
    report = train_linear(method, session, data, target, of_method, tuner)
    record_end(session.comm, target.output / ENVIRONMENT)
    advice = f"their minimum can be had closer with hpcml train {options.method} and the values of choice.csv"
    return TuneReport(replace(report, advice=advice), tuner.lines)


def _alone(kind: type) -> dict[str, Any]:
    """The options of that kind that make each rank hold all rows."""
    return {"ranks_per_group": 1} if any(field.name == "ranks_per_group" for field in fields(kind)) else {}


@dataclass
class TriedSettings:
    """Settings that were tried together, as multiples, and what is known of the labels there."""

    settings: list[Setting]
    records: Records
    known: np.ndarray  # (n_labels) bool
    scores: np.ndarray  # (n_labels × settings), NaN where not known


class Tuner:
    """A run's `hpcml.methods.linear.settings.Chooser`; `lines` say afterwards what came out."""

    def __init__(self, options: TuneOptions) -> None:
        self.options, self.lines = options, list[str]()
        self._folds: list[tuple[Fold, Any]] = []

    def asked(self, options: Any) -> TuneOptions:
        """The options of `hpcml tune`, with the defaults of the method."""
        own = {name: getattr(options, name) for name in ("loss", "lam", "l1") if hasattr(options, name)}
        bias = {"bias": options.bias} if "bias" in registry.method_named(self.options.method).option_names else {}
        return replace(self.options, **own, **bias)

    @mpi.collective
    def choose(
        self, comm: mpi.Comm, problem: LabelProblem, folder: RunFolder, options: Any, resume: bool, signals: StopSignals
    ) -> Chosen:
        """Collective over `comm`. The choice. Raises Interrupted, and what training raises."""
        began, axes = time.monotonic(), problem.method.axes
        given = [self.options.weights if axis.option == "positive_weight" else self.options.lambdas for axis in axes]
        grid, rounds = Grid(axes, given), list[TriedSettings]()
        n_positive = problem.rows.n_positive[problem.labels]
        with folder.discarded_on_error():
            if not ((n_positive > 0) & (n_positive < problem.rows.n_global)).any():
                raise ConfigError("no label has both positive and negative rows; there is nothing to choose by")
        try:
            new = grid.settings()
            while new:
                rounds.append(self._round(comm, problem, folder, options, resume, signals, new, len(rounds) + 1, began))
                settings = [setting for each in rounds for setting in each.settings]
                scores = np.concatenate([each.scores for each in rounds], axis=1)
                best = int(np.argmax(np.nanmean(scores, axis=0)))
                new = grid.grow(settings, np.nanmean(scores, axis=0)) if len(rounds) <= ROUNDS else []
                if not new and len(rounds) > ROUNDS and grid.grow(settings, np.nanmean(scores, axis=0)):
                    folder.log(
                        f"the best setting ({text_of(settings[best])}) still lies at the end of the grid, which grows no more"
                    )
                if new:
                    folder.log(f"the best setting so far ({text_of(settings[best])}) lies at the end of the grid, which grows")
            which = choose(scores, n_positive, self.options.one, default_of(settings))
            decision = self._decide(comm, problem, rounds, which)
        finally:
            for each in rounds:
                each.records.close()
            self._folds = []
        return self._chosen(comm, problem, folder, options, settings, scores, which, decision, time.monotonic() - began)

    @mpi.collective
    def _round(
        self,
        comm: mpi.Comm,
        problem: LabelProblem,
        folder: RunFolder,
        options: Any,
        resume: bool,
        signals: StopSignals,
        settings: list[Setting],
        number: int,
        began: float,
    ) -> TriedSettings:
        """Collective over `comm`. Score all labels at some settings, or go on with it. Raises
        Interrupted.
        """
        origin = problem.origin() | {"folds": self.options.folds, "seed": self.options.seed, "by": self.options.by}
        records = Records(comm, folder.checkpoints / f"tuning-{number}.part.h5", len(problem.names), settings, origin)
        known = records.begin(resume)
        n_positive = problem.rows.n_positive[problem.labels]
        trainable = (n_positive > 0) & (n_positive < problem.rows.n_global)
        if (waiting := np.flatnonzero(trainable & ~known)).size:
            if known.any():
                folder.log(f"resuming the choice: {int(known.sum())} of {plural(int(trainable.sum()), 'label')} known")
            run, rows = CrossRun(comm, records, known | ~trainable), problem.rows
            n_values = int(rows.counts.sum(dtype=np.int64))
            driver = Driver(comm, rows.comm, self.options, signals, n_values, spent=time.monotonic() - began)
            with folder.discarded_on_error():
                fits = self._fits(comm, problem, options, settings)
            waiting = waiting[np.argsort(-n_positive[waiting], kind="stable")]
            folder.log(
                f"choosing among {plural(len(settings), 'setting')} for {plural(int(trainable.sum()), 'label')} "
                f"in {self.options.folds} folds of {plural(problem.rows.n_global, 'row')}"
            )
            if number == 1 and "text" in problem.dataset.file:
                folder.log(IDF)
            with mpi.node_first(comm):
                fits.warm_up()
            progress = Progress(folder.log, "choosing, labels", len(problem.names))
            try:
                stopped = driver.run(fits.solve(waiting[comm.rank :: comm.size].tolist(), driver.stop), run, progress)
                run.save()
            finally:
                progress.close()
            if stopped:
                n_done = int(mpi.allreduce_sum(comm, run.done.sum(dtype=np.int64).reshape(1))[0])
                done = f"{n_done} of {plural(len(problem.names), 'label')} done"
                raise Interrupted(f"{stopped}: the choice so far is kept; continue with --resume ({done})")
        scores = None
        with mpi.agreed(comm, f"reading {records.path}"):
            if comm.rank == 0:
                scores = records.scores(trainable)
        return TriedSettings(settings, records, trainable, comm.bcast(scores))

    @mpi.collective
    def _fits(self, comm: mpi.Comm, problem: LabelProblem, options: Any, settings: list[Setting]) -> CrossFits:
        """Collective over `comm`. The folds, and what trains this rank's labels outside each."""
        method, objective = problem.method, problem.objective
        if not self._folds:
            fold = deal(problem.rows, problem.labels, self.options.folds, self.options.seed)
            with mpi.groups_agreed(comm):
                folds = fold_rows(problem.loaded_by, problem.rows, fold, self.options.folds)
                self._folds = [(each, method.risk(each.training, options, objective.profile)) for each in folds]
                for _, risk in self._folds:
                    risk.prepare(problem.loaded_by)
        fitters, n_lanes = [], min(LANES, method.lanes)
        with mpi.agreed(comm, "making room for the weights"):
            for each, risk in self._folds:
                there = [concrete(method.axes, setting, each.training, options) for setting in settings]
                fitters.append(method.fitter(method, risk, there, options, n_lanes))
        sizes = [each for each, _ in self._folds]
        return CrossFits(problem.rows, sizes, fitters, problem.labels, len(settings), self.options.by, SHARE * room_per_rank(comm))

    @mpi.collective
    def _decide(
        self, comm: mpi.Comm, problem: LabelProblem, rounds: Sequence[TriedSettings], which: np.ndarray
    ) -> tuple[np.ndarray, Decision, float | None]:
        """Collective over `comm`. The labels that are trained, their thresholds and sigmoids at the
        chosen settings, and the probability that is the threshold of all, if one is.
        """
        judged, decision, shared = np.flatnonzero(rounds[0].known), None, None
        rows = load_with_unknown(comm, problem.dataset, problem.split)
        place = np.full(rows.n_labels, NOT_KNOWN, dtype=np.int64)
        place[problem.labels] = NOT_JUDGED
        missed = count_missed(comm, rows, place)
        with mpi.agreed(comm, "deciding"):
            if comm.rank == 0:
                first, summaries = 0, dict[int, Summary]()
                for each in rounds:
                    here = judged[(which[judged] >= first) & (which[judged] < first + len(each.settings))]
                    found = each.records.summaries(here, which[here] - first)
                    summaries |= dict(zip(here.tolist(), found, strict=True))
                    first += len(each.settings)
                ordered = [summaries[label] for label in judged.tolist()]
                decision = decide(ordered)
                if self.options.thresholds == "micro":
                    shared, decision = decide_together(ordered, decision, missed.n_pairs)
        return judged, *comm.bcast((decision, shared))

    @mpi.collective
    def _chosen(
        self,
        comm: mpi.Comm,
        problem: LabelProblem,
        folder: RunFolder,
        options: Any,
        settings: list[Setting],
        scores: np.ndarray,
        which: np.ndarray,
        decided: tuple[np.ndarray, Decision, float | None],
        seconds: float,
    ) -> Chosen:
        """Collective over `comm`. The choice, told to the user and written to the tables."""
        judged, decision, shared = decided
        axes, n = problem.method.axes, which.size
        used, places = np.unique(which, return_inverse=True)
        own = [concrete(axes, settings[number], problem.rows, options) for number in used]
        columns = {column_of(axis.option): np.array([own[place][axis.option] for place in places]) for axis in axes}
        columns |= {"threshold": np.zeros(n), "sigmoid_slope": np.full(n, decision.rarest[1])}
        columns["sigmoid_offset"] = np.full(n, decision.rarest[2])
        columns["threshold"][judged] = decision.thresholds
        columns["sigmoid_slope"][judged], columns["sigmoid_offset"][judged] = decision.sigmoids.T
        source = f"{problem.split} (in {self.options.folds} folds)"
        how = "shrink" if shared is None else f"probability above {shared:.4g}"
        about = {"threshold_measure": self.options.thresholds, "threshold_method": how, "threshold_split": source}
        about |= {"calibration_method": "sigmoid", "calibration_split": source, "tuned": self.options.by}
        self.lines, summary, of_labels = tables(
            self.options, settings, scores, which, problem.names, problem.rows.n_positive[problem.labels], columns
        )
        with mpi.agreed(comm, f"writing {folder.path}"):
            if comm.rank == 0:
                write_table(folder.path / "tuning.csv", summary)
                write_table(folder.path / "choice.csv", of_labels)
        for text in self.lines:
            folder.log(text)
        return Chosen(own, places, columns, about, seconds)
