"""`hpcml tune`: choose λ and the weight of positive rows for each label, train, and choose thresholds.

The settings are chosen with `choose`, from the scores of rows by models that were trained without them. The scores at the chosen
settings also determine each label's threshold, and the sigmoid that turns its scores into probabilities
(`hpcml.evaluation.decision`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.labels import load_shard_with_unknown
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
from hpcml.model.linear import CROSS_VALIDATED_PRECISION
from hpcml.mpi.memory import room_per_rank
from hpcml.partition import offsets
from hpcml.run.driver import Driver
from hpcml.run.folder import RunFolder
from hpcml.run.session import Session, Target
from hpcml.tuning.cross import TuningRound
from hpcml.tuning.folds import Fold, deal, fold_rows
from hpcml.tuning.grid import COLUMN, MARGIN, MAX_ROUNDS, Grid, absolute_setting, choose, format_setting
from hpcml.tuning.options import TuneOptions

IDF_NOTE = (
    "note: words and idf are computed on all training rows, including the held-out rows of a fold; on three collections this "
    "raised the mean average precision in the folds by 0.000 to 0.004"
)
SCORE_SHARE = 0.25  # of a rank's memory, for scores
NAMES = {"map": "mean average precision", "f1": "mean F1 at the best thresholds", "auc": "mean ROC AUC"}


@dataclass(frozen=True)
class TuneReport(ReportedResult):
    trained: TrainReport
    chosen: list[str]

    @property
    def model(self) -> Path:
        return self.trained.model

    def describe(self) -> list[str]:
        return [*self.chosen, *str(self.trained).splitlines()]


def tune(session: Session, data: Path, target: Target, options: TuneOptions) -> TuneReport:
    """Choose settings, train and choose thresholds. Raises ConfigError, DataError, NonFiniteError, Interrupted. Collective."""
    options.validate()
    method = registry.method_named(options.method)
    known = set(method.option_names)
    shared = {each.name: getattr(options, each.name) for each in fields(options) if each.name in known - {"method"}}
    alone = {"ranks_per_group": 1} if "ranks_per_group" in known else {}  # each rank has all rows
    method_options = method.options(**{name: value for name, value in shared.items() if value is not None}, **alone)
    tuner = Tuner(session, target.resume, options, method_options)
    asked = replace(options, **{name: getattr(method_options, name) for name in ("loss", "lam", "l1", "bias") if name in known})
    report = registry.train(options.method, session, data, target, method_options, saved_options=asked, choose=tuner.choose)
    advice = f"for a smaller gap, use hpcml train {options.method} with the values in choice.csv"
    return TuneReport(replace(report, advice=advice), tuner.lines)


@dataclass
class Tuner:
    session: Session
    resume: bool
    tune_options: TuneOptions
    options: Any  # of the method
    lines: list[str] = field(default_factory=list)  # report of the choice
    files: list[SlabFile] = field(default_factory=list)
    rounds: list[TuningRound] = field(default_factory=list)
    folds: list[tuple[Fold, Any]] = field(default_factory=list)  # with the method's risk on the rows outside

    def choose(self, problem: LabelProblem, folder: RunFolder) -> Chosen:
        began, axes = time.monotonic(), problem.method.axes
        user_values = [
            self.tune_options.weights if axis.option == "positive_weight" else self.tune_options.lambdas for axis in axes
        ]
        values = [sorted(own or axis.values) for axis, own in zip(axes, user_values, strict=True)]
        grid = Grid(axes, values, [bool(own) for own in user_values])
        with folder.discard_on_error():
            if not problem.trainable.any():
                raise ConfigError("no label has both positive and negative rows, so settings cannot be chosen")
        try:
            new, settings, scores = grid.settings(), list[Setting](), np.empty((problem.labels.size, 0))
            while new:
                scores = np.concatenate([scores, self._score(problem, folder, new, began)], axis=1)
                settings += new
                means = np.nanmean(scores, axis=0)
                best, new = format_setting(settings[int(np.argmax(means))]), grid.grow(settings, means)
                if new and len(self.rounds) > MAX_ROUNDS:
                    folder.log(f"note: the best setting ({best}) is at the end of the grid; extend it with --lambdas or --weights")
                    break
                if new:
                    folder.log.detail(f"the best setting so far ({best}) is at the end of the grid; extending the grid")
            default = next((number for number, each in enumerate(settings) if all(value == 1.0 for value in each.values())), None)
            which, common = choose(scores, problem.n_positive, self.tune_options.one, default)
            decision, shared = self._decide(problem, which)
        finally:
            for file in self.files:
                file.close()
            self.folds.clear()  # the final training needs the memory
            self.rounds.clear()
        used, index = np.unique(which, return_inverse=True)
        chosen = [absolute_setting(axes, settings[number], problem.rows, self.options) for number in used]
        trainable, n = problem.trainable, which.size
        columns = {COLUMN.get(axis.option, axis.option): np.array([chosen[k][axis.option] for k in index]) for axis in axes}
        columns |= {"threshold": np.zeros(n), "sigmoid_slope": np.full(n, decision.rarest[1])}
        columns["sigmoid_offset"] = np.full(n, decision.rarest[2])
        columns["threshold"][trainable] = decision.thresholds
        columns["sigmoid_slope"][trainable], columns["sigmoid_offset"][trainable] = decision.sigmoids.T
        seconds = time.monotonic() - began
        self._report(problem, folder, settings, scores, which, common, default, columns)
        if self.tune_options.by == "map":
            columns[CROSS_VALIDATED_PRECISION] = scores[np.arange(n), which]
        source = f"{problem.split} (in {self.tune_options.folds} folds)"
        how = "shrink" if shared is None else f"probability above {shared:.4g}"
        about = {"threshold_measure": self.tune_options.thresholds, "threshold_method": how, "threshold_split": source}
        about |= {"calibration_method": "sigmoid", "calibration_split": source, "tuned": self.tune_options.by}
        return Chosen(chosen, index, columns, about, seconds)

    def _score(self, problem: LabelProblem, folder: RunFolder, settings: list[Setting], began: float) -> np.ndarray:
        """Return the scores (n_labels × n_settings) of all labels at settings, NaN if undefined. Raises Interrupted. Collective."""
        comm, tune_options, method, log = self.session.comm, self.tune_options, problem.method, folder.log
        origin = problem.origin() | {"folds": tune_options.folds, "seed": tune_options.seed, "by": tune_options.by}
        self.files.append(SlabFile(comm, folder.checkpoints / f"tuning-{len(self.files) + 1}.part.h5"))
        this = TuningRound(self.files[-1], problem, settings, origin, self.resume)
        self.rounds.append(this)
        waiting, trainable = np.flatnonzero(~this.known), problem.trainable
        if waiting.size:
            rows, n_labels = problem.rows, plural(int(trainable.sum()), "label")
            if this.known[trainable].any():
                log(f"resuming the choice of settings: {int(this.known[trainable].sum())} of {n_labels} done")
            n_values, spent = int(rows.counts.sum(dtype=np.int64)), time.monotonic() - began
            limits = tune_options.time_limit, tune_options.checkpoint_every
            driver = Driver(comm, rows.comm, self.session.signals, *limits, n_values, spent)
            with folder.discard_on_error():
                if not self.folds:
                    with mpi.agreed(comm, "dealing the rows to folds"):
                        keys = draw_keys(problem.dataset, problem.dataset.labelled_split(problem.split))
                        fold = deal(rows, problem.labels, tune_options.folds, tune_options.seed, keys)
                    with mpi.groups_agreed(comm):
                        for each in fold_rows(problem.loaded_by, rows, fold, tune_options.folds, self.options.scale):
                            self.folds.append((each, method.risk(each.training, self.options, problem.objective.profile)))
                        for _, risk in self.folds:
                            risk.prepare(problem.loaded_by)
                with mpi.agreed(comm, "allocating the weights"):
                    fitters = []
                    for each, risk in self.folds:
                        absolute = [absolute_setting(method.axes, setting, each.training, self.options) for setting in settings]
                        fitters.append((each, method.fitter(method, risk, absolute, self.options, min(LANES, method.lanes))))
                score_bytes, shares = SCORE_SHARE * room_per_rank(comm), shares_of(problem, self.options)
            folds = f"{tune_options.folds} folds of {plural(rows.n_global, 'row')}"
            log(f"choosing among {plural(len(settings), 'setting')} for {n_labels} in {folds}")
            if len(self.rounds) == 1 and "text" in problem.dataset.file:
                log.detail(IDF_NOTE)
                if n_empty := int(np.count_nonzero(this.empty)):
                    log(f"note: no label is predicted for {plural(n_empty, 'row')} without any known feature")
            with mpi.node_first(comm):
                this.prepare(fitters, shares, tune_options.by, score_bytes)
            local = labels_of_group(waiting, problem.n_positive, comm.rank, comm.size).tolist()
            driver.run(this.solve(local, driver), this, log)
            this.save()
            this.folds = []  # frees the fitters
        scores = np.full((problem.labels.size, len(settings)), np.nan)
        numbers = np.flatnonzero(trainable)
        scores[numbers] = mpi.run_on_root(
            comm, f"reading {this.file.path}", lambda: np.array([records["score"] for records in this.read(numbers)])
        )
        return scores

    def _decide(self, problem: LabelProblem, which: np.ndarray) -> tuple[Decision, float | None]:
        """Return thresholds and sigmoids, and the common probability with `thresholds` micro. Collective over the session."""
        comm, trainable = self.session.comm, np.flatnonzero(problem.trainable)
        rows = load_shard_with_unknown(comm, problem.dataset, problem.split)
        column = np.full(rows.n_labels, NOT_KNOWN, dtype=np.int64)
        column[problem.labels] = NOT_EVALUATED
        missed, empty = count_missed(comm, rows, column), self.rounds[0].empty
        bounds = offsets(empty[problem.rows.label_rows])[problem.rows.label_indptr]  # positive rows without features
        n_missed = missed.n_pairs + int(np.diff(bounds)[problem.labels[trainable]].sum())

        def decide_on_root() -> tuple[Decision, float | None]:
            first, summaries = 0, dict[int, Summary]()
            for each in self.rounds:
                labels = trainable[(which[trainable] >= first) & (which[trainable] < first + each.n_settings)]
                for label, records in zip(labels.tolist(), each.read(labels), strict=True):
                    record = records[which[label] - first]
                    summaries[label] = Summary(record["places"][: record["n"]].copy())
                first += each.n_settings
            ordered = [summaries[label] for label in trainable.tolist()]
            decision, shared = decide(ordered), None
            if self.tune_options.thresholds == "micro":
                shared, decision = decide_together(ordered, decision, n_missed)
            return decision, shared

        return mpi.run_on_root(comm, "choosing thresholds", decide_on_root)

    def _report(
        self,
        problem: LabelProblem,
        folder: RunFolder,
        settings: Sequence[Setting],
        scores: np.ndarray,
        which: np.ndarray,
        common: int,
        default: int | None,
        columns: dict[str, np.ndarray],
    ) -> None:
        """Write tuning.csv (settings) and choice.csv (labels), and log the choice. Collective over the session."""
        by, trainable, axes, means = self.tune_options.by, problem.trainable, list(settings[0]), np.nanmean(scores, axis=0)
        counts = np.bincount(which[trainable], minlength=len(settings))
        tuning: list[Sequence[object]] = [[*(f"{COLUMN.get(axis, axis)}_factor" for axis in axes), by, "labels"]]
        for setting, mean, count in zip(settings, means, counts, strict=True):
            tuning.append([*(f"{setting[axis]:.6g}" for axis in axes), f"{mean:.6g}", int(count)])
        names = [name for name in columns if not name.startswith("sigmoid")]
        choice: list[Sequence[object]] = [["label", "positives", *names, by]]
        for label, name in enumerate(problem.names):
            score = scores[label, which[label]]
            values = [f"{columns[column][label]:.6g}" for column in names]
            choice.append([name, int(problem.n_positive[label]), *values, "" if np.isnan(score) else f"{score:.6g}"])
        lines = [] if default is None else [("default setting", means[default], "")]
        lines.append((format_setting(settings[common]), means[common], "best common setting"))
        if default is not None and len(settings) > 1 and (which[trainable] == default).all():
            lines[-1] = (*lines[-1][:2], f"no other setting is better by {MARGIN:g}: all labels keep the default")
        elif not self.tune_options.one:
            differ = f"{int((which[trainable] != common).sum()):,} of {int(trainable.sum()):,} labels have another setting"
            lines.append(("settings per label", float(np.mean(scores[trainable, which[trainable]])), differ))
        width = max(len(name) for name, *_ in lines)
        self.lines.append(f"{NAMES[by]} in {self.tune_options.folds} folds:")
        self.lines += [f"  {name:{width}}  {mean:.4f}  {note}".rstrip() for name, mean, note in lines]
        for name, table in (("tuning.csv", tuning), ("choice.csv", choice)):
            mpi.run_on_root(self.session.comm, f"writing {folder.path}", partial(write_table, folder.path / name, table))
        for text in self.lines:
            folder.log(text)
