"""`hpcml tune`: choose λ and the weight of positive rows for each label; train; decide.

The choice is that of `choose`, from the scores of rows by models that were trained without them.
The scores at the chosen settings also give each label's threshold and the sigmoid that makes its
scores probabilities (`hpcml.evaluation.decision`).
"""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.labels import load_with_unknown
from hpcml.data.row_keys import draw_keys
from hpcml.errors import ConfigError, Interrupted
from hpcml.evaluation.decision import Decision, Summary, decide, decide_together
from hpcml.evaluation.judged import NOT_JUDGED, NOT_KNOWN, count_missed
from hpcml.files.table import write_table
from hpcml.log import Progress, plural
from hpcml.methods import registry
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.run import shares_of
from hpcml.methods.linear.settings import Chosen, Setting
from hpcml.methods.linear.train import train as train_linear
from hpcml.model.linear import IN_FOLDS
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


def tune(session: Session, data: Path, target: Target, options: TuneOptions) -> TuneReport:
    """Collective over the session. Choose, train and decide, into the run folder of the target.

    Raises ConfigError, DataError or NonFiniteError for what the user can mend, Interrupted after a
    signal or the time limit.
    """
    options.validate()
    line = registry.method_named(options.method)
    registry.check_headings(session, data, line)
    method = line.load(line.linear)
    known = {field.name for field in fields(line.options)}
    given = {field.name: getattr(options, field.name) for field in fields(options) if field.name in known - {"method"}}
    alone = {"ranks_per_group": 1} if "ranks_per_group" in known else {}  # each rank holds all rows
    of_method = line.options(**{name: value for name, value in given.items() if value is not None}, **alone)
    tuner = Tuner(options)
    report = train_linear(method, session, data, target, of_method, tuner)
    record_end(session.comm, target.output / ENVIRONMENT)
    advice = f"their minimum can be had closer with hpcml train {options.method} and the values of choice.csv"
    return TuneReport(replace(report, advice=advice), tuner.lines)


class Tuner:
    """The choice for the labels of a run: rounds of settings until the grid grows no more.

    It is the run's `hpcml.methods.linear.settings.Chooser`; `lines` report the choice afterwards.
    """

    comm: mpi.Comm
    problem: LabelProblem
    folder: RunFolder
    options: Any  # of the method
    resume: bool
    signals: StopSignals
    began: float
    scores: np.ndarray | None = None  # (n_labels × settings), NaN where not known

    def __init__(self, options: TuneOptions) -> None:
        self.wanted, self.lines = options, list[str]()
        self.rounds: list[Records] = []
        self.settings: list[Setting] = []  # that were tried, as multiples
        self.folds: list[tuple[Fold, Any]] = []

    def asked(self, options: Any) -> TuneOptions:
        """The options of `hpcml tune`, with the defaults of the method."""
        own = {name: getattr(options, name) for name in ("loss", "lam", "l1") if hasattr(options, name)}
        bias = {"bias": options.bias} if "bias" in registry.method_named(self.wanted.method).option_names else {}
        return replace(self.wanted, **own, **bias)

    @property
    def n_positive(self) -> np.ndarray:
        """The positive rows of each label."""
        return self.problem.rows.n_positive[self.problem.labels]

    @property
    def trainable(self) -> np.ndarray:
        """Which labels (bool) have both positive and negative rows."""
        return (self.n_positive > 0) & (self.n_positive < self.problem.rows.n_global)

    def choose(
        self, comm: mpi.Comm, problem: LabelProblem, folder: RunFolder, options: Any, resume: bool, signals: StopSignals
    ) -> Chosen:
        """Collective over `comm`. The choice. Raises Interrupted, and what training raises."""
        self.comm, self.problem, self.folder = comm, problem, folder
        self.options, self.resume, self.signals, self.began = options, resume, signals, time.monotonic()
        axes = self.problem.method.axes
        given = [self.wanted.weights if axis.option == "positive_weight" else self.wanted.lambdas for axis in axes]
        grid = Grid(axes, given)
        with self.folder.discarded_on_error():
            if not self.trainable.any():
                raise ConfigError("no label has both positive and negative rows; there is nothing to choose by")
        try:
            new = grid.settings()
            while new:
                self._round(new)
                new = self._grown(grid)
            which = choose(self.scores, self.n_positive, self.wanted.one, default_of(self.settings))
            decided = self._decide(which)
        finally:
            for records in self.rounds:
                records.file.close()
            self.folds = []
        return self._report(which, *decided)

    def _grown(self, grid: Grid) -> list[Setting]:
        """The settings of another round; none if the best is not at an end, or no more may be."""
        means = np.nanmean(self.scores, axis=0)
        best, new = text_of(self.settings[int(np.argmax(means))]), grid.grow(self.settings, means)
        if new and len(self.rounds) > ROUNDS:
            self.folder.log(f"the best setting ({best}) still lies at the end of the grid, which grows no more")
            return []
        if new:
            self.folder.log(f"the best setting so far ({best}) lies at the end of the grid, which grows")
        return new

    def _round(self, settings: list[Setting]) -> None:
        """Collective over `comm`. Score all labels at settings, or go on. Raises Interrupted."""
        comm, problem, wanted, path = self.comm, self.problem, self.wanted, self.folder.checkpoints
        origin = problem.origin() | {"folds": wanted.folds, "seed": wanted.seed, "by": wanted.by}
        records = Records(comm, path / f"tuning-{len(self.rounds) + 1}.part.h5", len(problem.names), settings, origin)
        self.rounds.append(records)
        known = records.begin(self.resume)
        if (self.trainable & ~known).any():
            self._train(settings, records, known)
        scores = mpi.run_on_root(comm, f"reading {records.path}", lambda: records.scores(self.trainable))
        self.scores = scores if self.scores is None else np.concatenate([self.scores, scores], axis=1)
        self.settings += settings

    def _train(self, settings: list[Setting], records: Records, known: np.ndarray) -> None:
        """Collective over `comm`. Score the labels that are not known. Raises Interrupted."""
        comm, problem, rows, log = self.comm, self.problem, self.problem.rows, self.folder.log
        of_all = plural(int(self.trainable.sum()), "label")
        if known.any():
            log(f"resuming the choice: {int(known.sum())} of {of_all} known")
        run = CrossRun(comm, records, known | ~self.trainable, shares_of(problem, self.options))
        n_values = int(rows.counts.sum(dtype=np.int64))
        driver = Driver(comm, rows.comm, self.wanted, self.signals, n_values, spent=time.monotonic() - self.began)
        with self.folder.discarded_on_error():
            fits = self._fits(settings)
        waiting = np.flatnonzero(self.trainable & ~known)
        waiting = waiting[np.argsort(-self.n_positive[waiting], kind="stable")]
        where = f"in {self.wanted.folds} folds of {plural(rows.n_global, 'row')}"
        log(f"choosing among {plural(len(settings), 'setting')} for {of_all} {where}")
        if len(self.rounds) == 1 and "text" in problem.dataset.file:
            log(IDF)
        with mpi.node_first(comm):
            fits.warm_up()
        progress = Progress(log, "choosing, labels", len(problem.names))
        try:
            stopped = driver.run(fits.solve(waiting[comm.rank :: comm.size].tolist(), driver.stop), run, progress)
            run.save()
        finally:
            progress.close()
        if stopped:
            n_done = int(mpi.allreduce_sum(comm, run.done.sum(dtype=np.int64).reshape(1))[0])
            done = f"{n_done} of {plural(len(problem.names), 'label')} done"
            raise Interrupted(f"{stopped}: the choice so far is kept; continue with --resume ({done})")

    def _fits(self, settings: list[Setting]) -> CrossFits:
        """Collective over `comm`. The folds, and what trains this rank's labels outside each."""
        comm, problem, method, n_folds = self.comm, self.problem, self.problem.method, self.wanted.folds
        if not self.folds:
            with mpi.agreed(comm, "dealing the rows to folds"):
                keys = draw_keys(problem.dataset, problem.dataset.labelled_split(problem.split))
                fold = deal(problem.rows, problem.labels, n_folds, self.wanted.seed, keys)
            with mpi.groups_agreed(comm):
                for each in fold_rows(problem.loaded_by, problem.rows, fold, n_folds, self.options.scale):
                    self.folds.append((each, method.risk(each.training, self.options, problem.objective.profile)))
                for _, risk in self.folds:
                    risk.prepare(problem.loaded_by)
        fitters, n_lanes = [], min(LANES, method.lanes)
        with mpi.agreed(comm, "making room for the weights"):
            for each, risk in self.folds:
                there = [concrete(method.axes, setting, each.training, self.options) for setting in settings]
                fitters.append(method.fitter(method, risk, there, self.options, n_lanes))
        sizes, room = [each for each, _ in self.folds], SHARE * room_per_rank(comm)
        return CrossFits(problem.rows, sizes, fitters, problem.labels, len(settings), self.wanted.by, room)

    def _decide(self, which: np.ndarray) -> tuple[Decision, float | None]:
        """Collective over `comm`. Thresholds, sigmoids, and the one probability for all, if any."""
        comm, problem, judged = self.comm, self.problem, np.flatnonzero(self.trainable)
        rows = load_with_unknown(comm, problem.dataset, problem.split)
        place = np.full(rows.n_labels, NOT_KNOWN, dtype=np.int64)
        place[problem.labels] = NOT_JUDGED
        missed = count_missed(comm, rows, place)

        def decide_on_root() -> tuple[Decision, float | None]:
            first, summaries = 0, dict[int, Summary]()
            for records in self.rounds:
                labels = judged[(which[judged] >= first) & (which[judged] < first + records.n_settings)]
                summaries |= zip(labels.tolist(), records.summaries(labels, which[labels] - first), strict=True)
                first += records.n_settings
            ordered = [summaries[label] for label in judged.tolist()]
            decision, shared = decide(ordered), None
            if self.wanted.thresholds == "micro":
                shared, decision = decide_together(ordered, decision, missed.n_pairs)
            return decision, shared

        return mpi.run_on_root(comm, "deciding", decide_on_root)

    def _report(self, which: np.ndarray, decision: Decision, shared: float | None) -> Chosen:
        """Collective over `comm`. Log the chosen settings and write tuning.csv and choice.csv."""
        seconds, problem, wanted, folder = time.monotonic() - self.began, self.problem, self.wanted, self.folder
        axes, n, judged = problem.method.axes, which.size, np.flatnonzero(self.trainable)
        used, places = np.unique(which, return_inverse=True)
        own = [concrete(axes, self.settings[number], problem.rows, self.options) for number in used]
        columns = {column_of(axis.option): np.array([own[place][axis.option] for place in places]) for axis in axes}
        columns |= {"threshold": np.zeros(n), "sigmoid_slope": np.full(n, decision.rarest[1])}
        columns["sigmoid_offset"] = np.full(n, decision.rarest[2])
        columns["threshold"][judged] = decision.thresholds
        if wanted.by == "map":
            columns[IN_FOLDS] = self.scores[np.arange(n), which]
        columns["sigmoid_slope"][judged], columns["sigmoid_offset"][judged] = decision.sigmoids.T
        source = f"{problem.split} (in {wanted.folds} folds)"
        how = "shrink" if shared is None else f"probability above {shared:.4g}"
        about = {"threshold_measure": wanted.thresholds, "threshold_method": how, "threshold_split": source}
        about |= {"calibration_method": "sigmoid", "calibration_split": source, "tuned": wanted.by}
        self.lines, summary, of_labels = tables(wanted, self.settings, self.scores, which, problem.names, self.n_positive, columns)

        def write_tables() -> None:
            write_table(folder.path / "tuning.csv", summary)
            write_table(folder.path / "choice.csv", of_labels)

        mpi.run_on_root(self.comm, f"writing {folder.path}", write_tables)
        for text in self.lines:
            folder.log(text)
        return Chosen(own, places, columns, about, seconds)
