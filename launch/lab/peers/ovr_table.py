"""The results of `hpcml bench ovr`: a table of each tolerance, all trainings as CSV, and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from hpcml.bench.compare import number
from hpcml.bench.programs import PEERS
from hpcml.evaluation.report import cell
from hpcml.evaluation.seen import seen_note
from hpcml.evaluation.top import PRECISION_AT
from hpcml.files import table as tables
from hpcml.log import joined, plural

REFERENCE = "liblinear"  # what the others are compared with


@dataclass(frozen=True)
class TrainerLine:
    """One training, or the fastest of its repetitions; NaN where something is not known."""

    tolerance: float
    trainer: str
    repeat: int  # from 1
    seconds: float  # of training, without loading
    ms_per_label: float
    f: float  # mean over the labels that were trained
    average_precision: float  # macro
    p1: float
    p3: float
    p5: float
    model_mb: float
    peak_mib: float  # of the rank, or the process, that needed most
    objective: str  # whose value f is; "" where there is no f
    rows_per_second: float  # that are given their best labels, in a second of processor time
    cpu_seconds: float = math.nan  # of training, of all ranks or threads


@dataclass
class OvrResult:
    """All trainings, and what they were made of; str() is the table."""

    data: Path
    split: str
    test_split: str
    n_labels: int  # that were trained
    n_rows: int
    n_test_rows: int
    n_features: int
    intercept: str  # with or without one, in words
    lam: float  # of the L2 penalty, if it is the first method's
    ranks: int
    repeats: int
    drop: float | None = None  # our models are without weights of smaller magnitude
    n_seen: int = 0  # rows judged on that were trained on
    lines: list[TrainerLine] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # peer -> why
    versions: dict[str, str] = field(default_factory=dict)  # of the peers
    machine: dict[str, object] = field(default_factory=dict)

    def fastest(self, tolerance: float) -> list[TrainerLine]:
        """Of each trainer at a tolerance the repetition that took least, in training order."""
        best: dict[str, TrainerLine] = {}
        for line in self.lines:
            if line.tolerance == tolerance:
                before = best.setdefault(line.trainer, line)
                best[line.trainer] = min(before, line, key=lambda each: each.seconds)
        return list(best.values())

    def beside_reference(self, tolerance: float) -> list[tuple[TrainerLine, tuple[float, float, float]]]:
        """The fastest of each trainer, with how it stands `against` the reference."""
        lines = self.fastest(tolerance)
        reference = next((line for line in lines if line.trainer == REFERENCE), None)
        return [(line, against(line, reference)) for line in lines]

    def tolerances(self) -> list[float]:
        """The tolerances, in the order of training."""
        return list(dict.fromkeys(line.tolerance for line in self.lines))

    @property
    def together(self) -> bool:
        """Whether all that have an f minimise the same."""
        return len({line.objective for line in self.lines if line.objective}) == 1

    @property
    def protocol(self) -> str:
        """The objective of all trainers, in words."""
        return f"{self.lines[0].objective if self.together else 'each its own objective'}, {self.intercept}"

    def __str__(self) -> str:
        C = f", C = {1 / (self.lam * self.n_rows):.4g}" if self.together and not math.isnan(self.lam) else ""
        text = [
            f"{self.data}: {plural(self.n_labels, 'label')}, {plural(self.n_features, 'feature')}, "
            f"trained on {plural(self.n_rows, 'row')} ({self.split}), "
            f"judged on {self.n_test_rows:,} ({self.test_split}); {self.protocol}{C}; "
            f"{self.ranks} rank(s), the others with as many threads; "
            f"least of {self.repeats}"
        ]
        for tolerance in self.tolerances():
            text += ["", *self._table(tolerance)]
        return joined([*text, "", *self._notes()])

    def _table(self, tolerance: float) -> list[str]:
        """The lines of one tolerance."""
        heading = [f"tolerance {tolerance:g}", "seconds", "CPU s", "ms/label", f"/ {REFERENCE}", "f", "± %", "MAP", "±"]
        heading += [*(f"P@{k}" for k in PRECISION_AT), "model MB", "MiB", "rows/s"]
        rows = [[*heading, *([] if self.together else ["objective"])]]
        for line, (ratio, f, gain) in self.beside_reference(tolerance):
            cells = [number(line.seconds, 3), number(line.cpu_seconds, 3), number(line.ms_per_label, 2), number(ratio, 2)]
            cells += [number(line.f, 6), number(f, 2, "+"), cell(line.average_precision), number(gain, 4, "+")]
            cells += [*map(cell, (line.p1, line.p3, line.p5)), number(line.model_mb, 1)]
            cells += [number(line.peak_mib, 0), number(line.rows_per_second, 0)]
            rows.append([line.trainer, *cells, *([] if self.together else [line.objective or "-"])])
        return tables.table(rows)

    def _notes(self) -> list[str]:
        """Notes on the meaning of the numbers, and on trainers that are not in the table."""
        reference = f"{REFERENCE}: scikit-learn's LinearSVC, which checks and copies the rows for every label"
        notes = [
            *([seen_note(self.n_seen, self.n_test_rows)] if self.n_seen else []),
            "seconds: training without loading, ours until the model is written; CPU s: its processor time, of all ranks "
            "or threads; f: mean of the objective over the labels; "
            f"± % and ±: against {REFERENCE}",
            *([reference] if any(line.trainer == REFERENCE for line in self.lines) else []),
            *([] if self.together else ["f: of the objective that is named; values of different objectives cannot be compared"]),
            "MAP: mean over the labels that a test row has; MiB: the largest peak of a rank or program, with its rows; "
            "rows/s: test rows that are given their 5 best labels in a second of processor time, by as many ranks or threads",
            *([] if self.drop is None else [f"our models are without weights below {self.drop:g} in magnitude, which f has"]),
        ]
        for name, peer in PEERS.items():
            if name in self.skipped:
                notes.append(f"{name}: skipped, {self.skipped[name]}")
            elif any(line.trainer == name for line in self.lines):
                notes.append(f"{name} {self.versions.get(name, '')}: {peer.about}; timed: {peer.timed}")
        return notes


def against(line: TrainerLine, reference: TrainerLine | None) -> tuple[float, float, float]:
    """Seconds / the reference's; f (per cent) and MAP above the reference's; NaN: not known."""
    if reference is None:
        return math.nan, math.nan, math.nan
    same = reference.f and line.objective == reference.objective
    f = 100 * (line.f / reference.f - 1) if same else math.nan
    return line.seconds / reference.seconds, f, line.average_precision - reference.average_precision


def csv_text(result: OvrResult) -> str:
    """A line for each training; what is not known is an empty cell."""
    names = [each.name for each in fields(TrainerLine)]
    rows: list[list[object]] = [[*names, "ranks"]]
    for line in result.lines:
        rows.append([*("" if value != value else value for value in (getattr(line, name) for name in names)), result.ranks])
    return tables.csv_text(rows)


def json_text(result: OvrResult) -> str:
    """Everything, with the table's ratios; what is not known is null."""
    tables = []
    for tolerance in result.tolerances():
        for line, ratios in result.beside_reference(tolerance):
            names = ("seconds_ratio", "f_percent_above", "average_precision_above")
            tables.append(asdict(line) | dict(zip(names, ratios, strict=True)))
    content = {each.name: getattr(result, each.name) for each in fields(result) if each.name not in ("lines", "data")}
    content |= {
        "data": str(result.data),
        "protocol": result.protocol,
        "table": tables,
        "trainings": [asdict(line) for line in result.lines],
    }
    return json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _without_nan(value: object) -> object:
    """The same with None for every NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
