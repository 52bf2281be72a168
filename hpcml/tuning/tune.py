"""`hpcml tune`: choose λ and the weight of positive rows for each label; train; decide.

The choice is that of `choose`, from the scores of rows by models that were trained without them. The scores at the chosen settings
also give each label's threshold and the sigmoid that makes its scores probabilities (`hpcml.evaluation.decision`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.labels import load_with_unknown
from hpcml.data.row_keys import draw_keys
from hpcml.errors import ConfigError
from hpcml.evaluation.decision import Decision, Summary, decide, decide_together
from hpcml.evaluation.scored_rows import NOT_EVALUATED, NOT_KNOWN, count_missed
from hpcml.files.report import ReportedResult
from hpcml.files.slabs import SlabFile
from hpcml.files.table import write_table
from hpcml.log import plural
from hpcml.methods import registry
from hpcml.methods.linear.layout import LANES, labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.report import TrainReport
from hpcml.methods.linear.run import shares_of
from hpcml.methods.linear.settings import Chosen, Setting
from hpcml.model.linear import IN_FOLDS
from hpcml.mpi.memory import room_per_rank
from hpcml.partition import offsets
from hpcml.run.driver import Driver
from hpcml.run.folder import RunFolder
from hpcml.run.session import Session, Target
from hpcml.tuning.cross import Round
from hpcml.tuning.folds import Fold, deal, fold_rows
from hpcml.tuning.grid import COLUMN, MARGIN, ROUNDS, Grid, choose, concrete, text_of
from hpcml.tuning.options import TuneOptions

IDF = (
    "note: words and idf come from all training rows, also from those that a fold holds out: on three collections that raised the "
    "mean average precision in the folds by 0.000 to 0.004"
)
SHARE = 0.25  # of a rank's room, for scores
NAMES = {"map": "mean average precision", "f1": "mean F1 at the best thresholds", "auc": "mean AUC"}


@dataclass(frozen=True)
class TuneReport(ReportedResult):
    """The report of a finished choice and of the training after it."""

    trained: TrainReport
    chosen: list[str]

    @property
    def model(self) -> Path:
        """The model."""
        return self.trained.model

    def describe(self) -> list[str]:
        """Return the lines about the choice, and those of the training."""
        return [*self.chosen, *str(self.trained).splitlines()]


def tune(session: Session, data: Path, target: Target, options: TuneOptions) -> TuneReport:
    """Collective over the session. Choose, train and decide, into the run folder of the target.

    Raises ConfigError, DataError or NonFiniteError for invalid options or data, Interrupted after a signal or the time limit.
    """
    options.validate()
    method = registry.method_named(options.method)
    known = set(method.option_names)
    given = {each.name: getattr(options, each.name) for each in fields(options) if each.name in known - {"method"}}
    alone = {"ranks_per_group": 1} if "ranks_per_group" in known else {}  # each rank holds all rows
    of_method = method.options(**{name: value for name, value in given.items() if value is not None}, **alone)
    tuner = Tuner(session, target.resume, options, of_method)
    asked = replace(options, **{name: getattr(of_method, name) for name in ("loss", "lam", "l1", "bias") if name in known})
    report = registry.train(options.method, session, data, target, of_method, saved_options=asked, choose=tuner.choose)
    advice = f"their minimum can be had closer with hpcml train {options.method} and the values of choice.csv"
    return TuneReport(replace(report, advice=advice), tuner.lines)


@dataclass
class Tuner:
    """The choice for the labels of a run: rounds of settings until the grid grows no more.

    `options` are the method's. `lines` report the choice afterwards.
    """

    session: Session
    resume: bool
    wanted: TuneOptions
    options: Any
    lines: list[str] = field(default_factory=list)
    files: list[SlabFile] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    folds: list[tuple[Fold, Any]] = field(default_factory=list)  # with the method's risk on the rows outside

    def choose(self, problem: LabelProblem, folder: RunFolder) -> Chosen:
        """Collective over the session. Return the choice. Raises Interrupted, and what training raises."""
        began, axes = time.monotonic(), problem.method.axes
        given = [self.wanted.weights if axis.option == "positive_weight" else self.wanted.lambdas for axis in axes]
        values = [sorted(own or axis.values) for axis, own in zip(axes, given, strict=True)]
        grid = Grid(axes, values, [bool(own) for own in given])
        with folder.discarded_on_error():
            if not problem.trainable.any():
                raise ConfigError("no label has both positive and negative rows; there is nothing to choose by")
        try:
            new, settings, scores = grid.settings(), list[Setting](), np.empty((problem.labels.size, 0))
            while new:
                scores = np.concatenate([scores, self._score(problem, folder, new, began)], axis=1)
                settings += new
                means = np.nanmean(scores, axis=0)
                best, new = text_of(settings[int(np.argmax(means))]), grid.grow(settings, means)
                if new and len(self.rounds) > ROUNDS:
                    folder.log(f"note: the best setting ({best}) lies at the end of the grid; --lambdas and --weights set another")
                    break
                if new:
                    folder.log.detail(f"the best setting so far ({best}) lies at the end of the grid, which grows")
            default = next((number for number, each in enumerate(settings) if all(value == 1.0 for value in each.values())), None)
            which, best_for_all = choose(scores, problem.n_positive, self.wanted.one, default)
            decision, shared = self._decide(problem, which)
        finally:
            for file in self.files:
                file.close()
            self.folds.clear()  # the final training needs the memory
            self.rounds.clear()
        used, places = np.unique(which, return_inverse=True)
        own = [concrete(axes, settings[number], problem.rows, self.options) for number in used]
        judged, n = problem.trainable, which.size
        columns = {COLUMN.get(axis.option, axis.option): np.array([own[place][axis.option] for place in places]) for axis in axes}
        columns |= {"threshold": np.zeros(n), "sigmoid_slope": np.full(n, decision.rarest[1])}
        columns["sigmoid_offset"] = np.full(n, decision.rarest[2])
        columns["threshold"][judged] = decision.thresholds
        columns["sigmoid_slope"][judged], columns["sigmoid_offset"][judged] = decision.sigmoids.T
        seconds = time.monotonic() - began
        self._report(problem, folder, settings, scores, which, best_for_all, default, columns)
        if self.wanted.by == "map":
            columns[IN_FOLDS] = scores[np.arange(n), which]
        source = f"{problem.split} (in {self.wanted.folds} folds)"
        how = "shrink" if shared is None else f"probability above {shared:.4g}"
        about = {"threshold_measure": self.wanted.thresholds, "threshold_method": how, "threshold_split": source}
        about |= {"calibration_method": "sigmoid", "calibration_split": source, "tuned": self.wanted.by}
        return Chosen(own, places, columns, about, seconds)

    def _score(self, problem: LabelProblem, folder: RunFolder, settings: list[Setting], began: float) -> np.ndarray:
        """Collective over the session. Score all labels at settings, or go on; (n_labels × settings), NaN where not known.

        Raises Interrupted.
        """
        comm, wanted, method, log = self.session.comm, self.wanted, problem.method, folder.log
        origin = problem.origin() | {"folds": wanted.folds, "seed": wanted.seed, "by": wanted.by}
        self.files.append(SlabFile(comm, folder.checkpoints / f"tuning-{len(self.files) + 1}.part.h5"))
        this = Round(self.files[-1], problem, settings, origin, self.resume)
        self.rounds.append(this)
        waiting, trainable = np.flatnonzero(~this.known), problem.trainable
        if waiting.size:
            rows, of_all = problem.rows, plural(int(trainable.sum()), "label")
            if this.known[trainable].any():
                log(f"resuming the choice: {int(this.known[trainable].sum())} of {of_all} known")
            n_values, spent = int(rows.counts.sum(dtype=np.int64)), time.monotonic() - began
            driver = Driver(comm, rows.comm, self.session.signals, wanted.time_limit, wanted.checkpoint_every, n_values, spent)
            with folder.discarded_on_error():
                if not self.folds:
                    with mpi.agreed(comm, "dealing the rows to folds"):
                        keys = draw_keys(problem.dataset, problem.dataset.labelled_split(problem.split))
                        fold = deal(rows, problem.labels, wanted.folds, wanted.seed, keys)
                    with mpi.groups_agreed(comm):
                        for each in fold_rows(problem.loaded_by, rows, fold, wanted.folds, self.options.scale):
                            self.folds.append((each, method.risk(each.training, self.options, problem.objective.profile)))
                        for _, risk in self.folds:
                            risk.prepare(problem.loaded_by)
                with mpi.agreed(comm, "making room for the weights"):
                    fitters = []
                    for each, risk in self.folds:
                        there = [concrete(method.axes, setting, each.training, self.options) for setting in settings]
                        fitters.append((each, method.fitter(method, risk, there, self.options, min(LANES, method.lanes))))
                room, shares = SHARE * room_per_rank(comm), shares_of(problem, self.options)
            where = f"in {wanted.folds} folds of {plural(rows.n_global, 'row')}"
            log(f"choosing among {plural(len(settings), 'setting')} for {of_all} {where}")
            if len(self.rounds) == 1 and "text" in problem.dataset.file:
                log.detail(IDF)
                if n_empty := int(np.count_nonzero(this.empty)):
                    log(f"note: {plural(n_empty, 'row')} without any known feature, judged as rows that get no labels")
            with mpi.node_first(comm):
                this.prepare(fitters, shares, wanted.by, room)
            mine = labels_of_group(waiting, problem.n_positive, comm.rank, comm.size).tolist()
            driver.run(this.solve(mine, driver), this, log)
            this.save()
            this.folds = []  # and what trained outside of them
        scores = np.full((problem.labels.size, len(settings)), np.nan)
        numbers = np.flatnonzero(trainable)
        scores[numbers] = mpi.run_on_root(
            comm, f"reading {this.file.path}", lambda: np.array([records["score"] for records in this.read(numbers)])
        )
        return scores

    def _decide(self, problem: LabelProblem, which: np.ndarray) -> tuple[Decision, float | None]:
        """Collective over the session. Thresholds, sigmoids, and the one probability for all, if any."""
        comm, judged = self.session.comm, np.flatnonzero(problem.trainable)
        rows = load_with_unknown(comm, problem.dataset, problem.split)
        place = np.full(rows.n_labels, NOT_KNOWN, dtype=np.int64)
        place[problem.labels] = NOT_EVALUATED
        missed, empty = count_missed(comm, rows, place), self.rounds[0].empty
        bounds = offsets(empty[problem.rows.label_rows])[problem.rows.label_indptr]  # positives that get no labels
        n_missed = missed.n_pairs + int(np.diff(bounds)[problem.labels[judged]].sum())

        def decide_on_root() -> tuple[Decision, float | None]:
            first, summaries = 0, dict[int, Summary]()
            for each in self.rounds:
                labels = judged[(which[judged] >= first) & (which[judged] < first + each.n_settings)]
                for label, records in zip(labels.tolist(), each.read(labels), strict=True):
                    record = records[which[label] - first]
                    summaries[label] = Summary(record["places"][: record["n"]].copy())
                first += each.n_settings
            ordered = [summaries[label] for label in judged.tolist()]
            decision, shared = decide(ordered), None
            if self.wanted.thresholds == "micro":
                shared, decision = decide_together(ordered, decision, n_missed)
            return decision, shared

        return mpi.run_on_root(comm, "deciding", decide_on_root)

    def _report(
        self,
        problem: LabelProblem,
        folder: RunFolder,
        settings: Sequence[Setting],
        scores: np.ndarray,
        which: np.ndarray,
        best: int,
        default: int | None,
        columns: dict[str, np.ndarray],
    ) -> None:
        """Collective over the session. Write tuning.csv (settings) and choice.csv (labels); log the choice."""
        by, judged, axes, means = self.wanted.by, problem.trainable, list(settings[0]), np.nanmean(scores, axis=0)
        counts = np.bincount(which[judged], minlength=len(settings))
        summary: list[Sequence[object]] = [[*(f"{COLUMN.get(axis, axis)}_factor" for axis in axes), by, "labels"]]
        for setting, mean, count in zip(settings, means, counts, strict=True):
            summary.append([*(f"{setting[axis]:.6g}" for axis in axes), f"{mean:.6g}", int(count)])
        named = [name for name in columns if not name.startswith("sigmoid")]
        of_labels: list[Sequence[object]] = [["label", "positives", *named, by]]
        for label, name in enumerate(problem.names):
            score = scores[label, which[label]]
            values = [f"{columns[column][label]:.6g}" for column in named]
            of_labels.append([name, int(problem.n_positive[label]), *values, "" if np.isnan(score) else f"{score:.6g}"])
        if default is not None:
            self.lines.append(f"{NAMES[by]} in the folds with the defaults: {means[default]:.4f}")
        self.lines.append(f"best for all labels together: {text_of(settings[best])}: {means[best]:.4f}")
        own = float(np.mean(scores[judged, which[judged]]))
        n_other = int((which[judged] != best).sum())
        if default is not None and len(settings) > 1 and (which[judged] == default).all():
            self.lines.append(f"no other setting is better by {MARGIN:g}: all labels keep the default")
        elif not self.wanted.one:
            self.lines.append(f"labels with a setting of their own: {n_other:,} of {int(judged.sum()):,}; with these: {own:.4f}")
        for name, table in (("tuning.csv", summary), ("choice.csv", of_labels)):
            mpi.run_on_root(self.session.comm, f"writing {folder.path}", partial(write_table, folder.path / name, table))
        for text in self.lines:
            folder.log(text)
