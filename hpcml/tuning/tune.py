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
from hpcml.errors import ConfigError
from hpcml.evaluation.decision import Decision, Summary, decide, decide_together
from hpcml.evaluation.judged import NOT_JUDGED, NOT_KNOWN, count_missed
from hpcml.files.table import write_table
from hpcml.log import plural
from hpcml.methods import registry
from hpcml.methods.linear.layout import LANES, labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.run import shares_of
from hpcml.methods.linear.settings import Chosen, Setting
from hpcml.model.linear import IN_FOLDS
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver
from hpcml.run.folder import RunFolder
from hpcml.run.session import Session, Target
from hpcml.tuning.choose import choose
from hpcml.tuning.cross import CrossFits
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
    method = registry.method_named(options.method)
    known = set(method.option_names)
    given = {field.name: getattr(options, field.name) for field in fields(options) if field.name in known - {"method"}}
    alone = {"ranks_per_group": 1} if "ranks_per_group" in known else {}  # each rank holds all rows
    of_method = method.options(**{name: value for name, value in given.items() if value is not None}, **alone)
    tuner = Tuner(session, target.resume, options, of_method)
    asked = replace(options, **{name: getattr(of_method, name) for name in ("loss", "lam", "l1", "bias") if name in known})
    report = registry.train(options.method, session, data, target, of_method, asked=asked, choose=tuner.choose)
    advice = f"their minimum can be had closer with hpcml train {options.method} and the values of choice.csv"
    return TuneReport(replace(report, advice=advice), tuner.lines)


class Tuner:
    """The choice for the labels of a run: rounds of settings until the grid grows no more.

    `lines` report the choice afterwards.
    """

    problem: LabelProblem
    folder: RunFolder
    began: float
    scores: np.ndarray | None = None  # (n_labels × settings), NaN where not known

    def __init__(self, session: Session, resume: bool, wanted: TuneOptions, options: Any) -> None:
        """`options` are the method's."""
        self.comm, self.signals, self.resume, self.wanted, self.options = session.comm, session.signals, resume, wanted, options
        self.lines, self.rounds = list[str](), list[Records]()
        self.settings: list[Setting] = []  # that were tried, as multiples
        self.folds: list[tuple[Fold, Any]] = []

    def choose(self, problem: LabelProblem, folder: RunFolder) -> Chosen:
        """Collective over the session. The choice. Raises Interrupted, and what training raises."""
        self.problem, self.folder, self.began = problem, folder, time.monotonic()
        axes = problem.method.axes
        given = [self.wanted.weights if axis.option == "positive_weight" else self.wanted.lambdas for axis in axes]
        grid = Grid(axes, given)
        with self.folder.discarded_on_error():
            if not problem.trainable.any():
                raise ConfigError("no label has both positive and negative rows; there is nothing to choose by")
        try:
            new = grid.settings()
            while new:
                self._round(new)
                means = np.nanmean(self.scores, axis=0)
                best, new = text_of(self.settings[int(np.argmax(means))]), grid.grow(self.settings, means)
                if new and len(self.rounds) > ROUNDS:
                    folder.log(f"the best setting ({best}) still lies at the end of the grid, which grows no more")
                    break
                if new:
                    folder.log(f"the best setting so far ({best}) lies at the end of the grid, which grows")
            which = choose(self.scores, problem.n_positive, self.wanted.one, default_of(self.settings))
            decided = self._decide(which)
        finally:
            for records in self.rounds:
                records.file.close()
            self.folds = []
        return self._report(which, *decided)

    def _round(self, settings: list[Setting]) -> None:
        """Collective over `comm`. Score all labels at settings, or go on. Raises Interrupted."""
        comm, problem, wanted, path = self.comm, self.problem, self.wanted, self.folder.checkpoints
        origin = problem.origin() | {"folds": wanted.folds, "seed": wanted.seed, "by": wanted.by}
        records = Records(comm, path / f"tuning-{len(self.rounds) + 1}.part.h5", len(problem.names), settings, origin)
        self.rounds.append(records)
        known = records.begin(self.resume)
        waiting = np.flatnonzero(problem.trainable & ~known)
        if waiting.size:
            rows, log, of_all = problem.rows, self.folder.log, plural(int(problem.trainable.sum()), "label")
            if known.any():
                log(f"resuming the choice: {int(known.sum())} of {of_all} known")
            n_values, spent = int(rows.counts.sum(dtype=np.int64)), time.monotonic() - self.began
            driver = Driver(comm, rows.comm, self.signals, wanted.time_limit, wanted.checkpoint_every, n_values, spent)
            with self.folder.discarded_on_error():
                fits = self._fits(settings, records, known)
            where = f"in {wanted.folds} folds of {plural(rows.n_global, 'row')}"
            log(f"choosing among {plural(len(settings), 'setting')} for {of_all} {where}")
            if len(self.rounds) == 1 and "text" in problem.dataset.file:
                log(IDF)
            with mpi.node_first(comm):
                fits.warm_up()
            mine = labels_of_group(waiting, problem.n_positive, comm.rank, comm.size).tolist()
            driver.run(fits.solve(mine, driver), fits, log)
            fits.save()
        scores = mpi.run_on_root(comm, f"reading {records.path}", lambda: records.scores(problem.trainable))
        self.scores = scores if self.scores is None else np.concatenate([self.scores, scores], axis=1)
        self.settings += settings

    def _fits(self, settings: list[Setting], records: Records, known: np.ndarray) -> CrossFits:
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
        folds, shares, room = [each for each, _ in self.folds], shares_of(problem, self.options), SHARE * room_per_rank(comm)
        return CrossFits(comm, problem, folds, fitters, records, known | ~problem.trainable, shares, self.wanted.by, room)

    def _decide(self, which: np.ndarray) -> tuple[Decision, float | None]:
        """Collective over `comm`. Thresholds, sigmoids, and the one probability for all, if any."""
        comm, problem = self.comm, self.problem
        judged = np.flatnonzero(problem.trainable)
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
        axes, n, judged = problem.method.axes, which.size, np.flatnonzero(problem.trainable)
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
        self.lines, summary, of_labels = tables(
            wanted, self.settings, self.scores, which, problem.names, problem.n_positive, columns
        )

        def write_tables() -> None:
            write_table(folder.path / "tuning.csv", summary)
            write_table(folder.path / "choice.csv", of_labels)

        mpi.run_on_root(self.comm, f"writing {folder.path}", write_tables)
        for text in self.lines:
            folder.log(text)
        return Chosen(own, places, columns, about, seconds)
