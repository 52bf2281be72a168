"""Several methods on the same labels, judged on the same rows (PROBE 2012, table 3); cost."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.bench.shared_options import choose_methods, comparable, options_for, with_shared_defaults
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, Interrupted
from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.evaluation.report import cell
from hpcml.evaluation.seen import seen_note, split_to_judge
from hpcml.files.atomic import check_output
from hpcml.files.table import read_csv, table, write_table
from hpcml.log import Log, joined, plural
from hpcml.methods.linear.report import TrainReport
from hpcml.methods.registry import METHODS, train
from hpcml.model.linear import STATUS, Model
from hpcml.mpi.memory import forget_peak, peak_mib
from hpcml.run.folder import RunFolder, config_before
from hpcml.run.lock import FolderLock
from hpcml.run.session import Session, Target

TABLE = "compare.csv"


@dataclass(frozen=True)
class MethodLine:
    """A method's means over the labels and cost of training; NaN where it is not known."""

    method: str
    average_precision: float
    break_even: float
    iterations: float
    seconds: float  # of training, without loading
    ranks: int
    peak_mib: float  # of the rank that needed most
    f: float
    objective: str = ""  # whose value f is

    @classmethod
    def of(cls, method: str, model: Model, judged: Evaluation, **cost: Any) -> MethodLine:
        """The line of a model, with what its training took."""
        quality: dict[str, Any] = {measure: judged.macro(measure) for measure in ("average_precision", "break_even")}
        means: dict[str, Any] = {"iterations": mean_of_trained(model, "steps"), "f": mean_of_trained(model, "f_min")}
        return cls(method=method, objective=objective_of(model), **means, **quality, **cost)

    def is_of_same_model(self, other: MethodLine) -> bool:
        """Whether both lines tell of one training, as far as its result shows."""
        return (self.method, self.iterations, self.f) == (other.method, other.iterations, other.f)


@dataclass(frozen=True)
class Comparison:
    """The table, and what it was made of."""

    data: Path
    lines: list[MethodLine]
    report: TrainReport  # of the last method
    model: Model  # likewise
    evaluation: Evaluation  # likewise
    options: Any  # shared by the methods
    fresh_peaks: bool  # whether each method's peak began anew

    def __str__(self) -> str:
        report, judged = self.report, self.evaluation
        n_judged = int(judged.in_macro("average_precision").sum())
        some = "" if n_judged == report.n_labels else f" (MAP and break-even: {n_judged}, those that {judged.split} has)"
        since = "" if self.fresh_peaks else " since the program began"
        trained_on = self.model.attrs["split"]
        together = len({line.objective for line in self.lines}) == 1
        what = self.lines[0].objective if together else "each method's own objective"
        lines = [
            f"{self.data}: {plural(report.n_labels, 'label')}, "
            f"trained on {plural(report.n_rows, 'row')} ({trained_on}), judged on {judged.n_rows:,} "
            f"({judged.split}); {what}, {intercept(self.options)}",
            f"means over the labels{some}; seconds of training, without loading; MiB: a rank's largest resident memory{since}",
            "",
        ]
        rows = [["method", "MAP", "break-even", "iterations", "seconds", "ranks", "MiB", "f", *([] if together else ["objective"])]]
        for line in self.lines:
            quality = (cell(line.average_precision), cell(line.break_even), number(line.iterations, 1))
            cost = (number(line.seconds, 2), str(line.ranks or "-"), number(line.peak_mib, 0))
            rows.append([line.method, *quality, *cost, number(line.f, 6), *([] if together else [line.objective])])
        lines += table(rows)
        biased = [line.method for line in self.lines if "bias" not in METHODS[line.method].option_names]
        if biased and not self.options.bias and len(biased) < len(self.lines):
            lines.append(f"{', '.join(biased)}: with an intercept all the same")
        if not together:
            lines.append("f: of the method's own objective; values of different objectives cannot be compared")
        if judged.n_seen:
            lines.append(seen_note(judged.n_seen, judged.n_rows))
        if any(line.ranks == 0 for line in self.lines):
            lines.append("seconds -: not known, since the method was trained by another command")
        return joined(lines)


def objective_of(model: Model) -> str:
    """The objective of a method of `comparable`, in words."""
    l1, lam = model.attrs.get("l1"), float(model.attrs["lambda"])
    strength = f"λ = {lam:.4g}" if l1 is None else f"λ₁ = {float(l1):.4g}, λ₂ = {lam:.4g}"
    return f"{model.attrs['loss']} loss, {strength}"


def mean_of_trained(model: Model, name: str) -> float:
    """The mean of numbers of the labels that were trained; NaN for none."""
    trained = model.labels["status"] != STATUS.index("degenerate")
    return float(np.mean(model.labels[name][trained])) if trained.any() else math.nan


def intercept(options: Any) -> str:
    """Whether the methods of a table have one, in words."""
    return "with an intercept" if options.bias else "without an intercept"


def number(value: float, digits: int, sign: str = "") -> str:
    """A cell of a table; "-" if it is not known."""
    return "-" if math.isnan(value) else f"{value:{sign}.{digits}f}"


@contextmanager
def opened(comm: mpi.Comm, data: Path, test_split: str | None, log: Log) -> Iterator[tuple[DataFile, str]]:
    """Collective over `comm`. A dataset, and a split to judge on. ConfigError or DataError."""
    with mpi.agreed(comm, f"opening {data}"):
        dataset = DataFile(data)
    with dataset:
        with mpi.agreed(comm, f"reading {data}"):
            test_split = split_to_judge(dataset, test_split, log)
            dataset.split(test_split)  # an error now, not after hours
        yield dataset, test_split


def compare(
    session: Session, data: Path, target: Target, methods: Sequence[str], shared: Any, test_split: str | None = None
) -> Comparison:
    """Collective. Train each method into OUTPUT/METHOD, judge it, write OUTPUT/compare.csv.

    `shared` are options of all methods (`shared_options`). Run folders are treated as training
    treats them: when a comparison is continued, a finished one is judged again but not trained
    again. Raises what training and `evaluate` raise; what was finished before stays. InUseError is
    raised, too, if another job compares in OUTPUT.
    """
    shared.validate()
    comm, log, output = session.comm, session.log, target.output
    shared = with_shared_defaults(shared, _before(comm, target, methods))
    chosen = choose_methods(methods, shared)
    with opened(comm, data, test_split, log) as (dataset, test_split), ExitStack() as stack:
        with mpi.agreed(comm, f"opening {output}"):
            folders = {method: RunFolder(comm, output / method, log) for method in chosen}
            if comm.rank == 0:
                check_folders(target, folders.values(), [TABLE])
                lock = FolderLock(output, log)
                lock.acquire()
                stack.callback(lock.release)
        known = _known(comm, output, folders) if target.resume else {}
        lines: list[MethodLine] = []
        fresh = True
        for method, folder in folders.items():
            log.file = None  # of the method before
            log(f"{method}: {METHODS[method].about}")
            options, report_it = options_for(method, shared), method not in known
            trained = train_measured(method, session, data, target._replace(output=folder.path), options, report_it)
            fresh &= trained.began_anew
            judged = evaluate(comm, trained.model, dataset, test_split, log)
            cost = {"seconds": trained.report.seconds, "ranks": comm.size, "peak_mib": trained.peak_mib}
            line = MethodLine.of(method, trained.model, judged, **cost)
            lines.append(_trained_before(line, known[method]) if method in known else line)
            with mpi.agreed(comm, f"writing {output / TABLE}"):
                if comm.rank == 0:
                    to_come = [known[name] for name in chosen[len(lines) :] if known.get(name)]
                    write_csv(output / TABLE, [*lines, *to_come])
            if mpi.agreed_any(comm, session.signals.seen) and len(lines) < len(chosen):
                raise Interrupted(f"a signal arrived: {len(lines)} of {len(chosen)} methods done; continue with --resume")
    return Comparison(Path(data), lines, trained.report, trained.model, judged, shared, fresh)


def _before(comm: mpi.Comm, target: Target, wanted: Sequence[str]) -> dict[str, object]:
    """Collective over `comm`. The config.toml of a continued comparison's first run, if any."""
    methods = [method for method in comparable() if not wanted or method in wanted]
    configs = (config_before(comm, target._replace(output=target.output / method)) for method in methods)
    return next((config for config in configs if config), {})


class TrainedMethod(NamedTuple):
    """A finished training."""

    report: TrainReport
    model: Model
    peak_mib: float  # of the rank that needed most
    began_anew: bool  # whether the peak is of this training alone


def train_measured(method: str, session: Session, data: Path, target: Target, options: Any, says: bool = True) -> TrainedMethod:
    """Collective. Train into a run folder; the report is shown if `says`."""
    began_anew = not mpi.agreed_any(session.comm, not forget_peak())
    report = train(method, session, data, target, options)
    peak = mpi.allreduce_max(session.comm, peak_mib())
    if says:
        session.log.report(str(report))
    with mpi.agreed(session.comm, f"reading {report.model}"):
        return TrainedMethod(report, Model(report.model), peak, began_anew)


def check_folders(target: Target, folders: Iterable[RunFolder], tables: Iterable[str]) -> None:
    """Raise ConfigError if run folders or tables may not be written: now, not later. Local."""
    if target.output.exists() and not target.output.is_dir():
        raise ConfigError(f"{target.output} is a file; --output must name a folder")
    for folder in folders:
        folder.check(target.force, target.resume)
    for name in tables:
        check_output(target.output / name, overwrite=target.force or target.resume)


def _known(comm: mpi.Comm, output: Path, folders: dict[str, RunFolder]) -> dict[str, MethodLine | None]:
    """Collective over `comm`. The finished methods, each with its line of an earlier table."""
    found: dict[str, MethodLine | None] = {}
    with mpi.agreed(comm, f"reading {output / TABLE}"):
        if comm.rank == 0:
            before = read_lines(output / TABLE)
            found = {method: before.get(method) for method, folder in folders.items() if folder.model.exists()}
    return comm.bcast(found)


def _trained_before(line: MethodLine, before: MethodLine | None) -> MethodLine:
    """With the cost of an earlier line of the same training; else it is not known."""
    if before is not None and before.is_of_same_model(line):
        return replace(line, seconds=before.seconds, ranks=before.ranks, peak_mib=before.peak_mib)
    return replace(line, seconds=math.nan, ranks=0, peak_mib=math.nan)


def write_csv(path: Path, lines: list[MethodLine]) -> None:
    """A line for each method; what is not known is an empty cell. Local; raises DataError."""
    rows = ([None if value != value else value for value in astuple(line)] for line in lines)  # NaN is not itself
    write_table(path, [[field.name for field in fields(MethodLine)], *rows])


def read_lines(path: Path) -> dict[str, MethodLine]:
    """The lines of `write_csv`, by method; none if there is no such file, or another. Local."""
    if not path.is_file():
        return {}
    try:
        found = {}
        for row in read_csv(path):
            texts: dict[str, Any] = {"method": row.pop("method"), "objective": row.pop("objective", "")}
            numbers: dict[str, Any] = {name: float(value or "nan") for name, value in row.items()}
            line = MethodLine(**texts, **numbers)
            found[line.method] = replace(line, ranks=int(line.ranks))
        return found
    except (TypeError, ValueError, KeyError, csv.Error, DataError):
        return {}
