"""PROBE (Smith, Kim & Wilbur 2012): convex minimisation beside Pegasos and SVMperf."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcml.papers.exhibit import Claim, Exhibit, Finding, Numbers, Paper, mean

if TYPE_CHECKING:
    from hpcml.papers.study import PaperRows, PaperStudy

COLUMNS = {"MAP": "average_precision", "BE": "break_even", "iterations": "iterations"}
METHODS = {"probe": "PROBE", "pegasos": "Pegasos", "svmperf": "SVMperf"}
TEN_LARGEST = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn")
LABELS: dict[str, Sequence[str]] = {"Reuters": TEN_LARGEST}  # of corpora of which the paper takes some


def compared(study: PaperStudy, rows: PaperRows, methods: Sequence[str], *options: str) -> dict[str, dict[str, str]]:
    """What `hpcml compare` finds for methods, by method, without an intercept as in the paper."""
    folder = study.folder / f"{rows.train.stem}-runs"
    labels = [word for label in LABELS.get(rows.name, ()) for word in ("--label", label)]
    chosen = [word for method in methods for word in ("--method", method)]
    study.run("compare", rows.train, "-o", folder, *chosen, "--no-bias", *labels, *options)
    return study.table(Path(folder, "compare.csv"), "method")


def table_3(study: PaperStudy) -> Finding:
    """MAP, break-even and iterations of three methods on every corpus, and their means."""
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets():
        for method, line in compared(study, rows, tuple(METHODS)).items():
            numbers[f"{rows.name}, {METHODS[method]}"] = {short: float(line[name]) for short, name in COLUMNS.items()}
    for method in METHODS.values():
        of_method = {name: row for name, row in numbers.items() if name.endswith(method)}
        numbers[f"Average, {method}"] = {column: mean(of_method, column) for column in COLUMNS}
    return Finding(numbers)


NOT_INFERIOR = 0.005  # of MAP and break-even, on average


def _not_inferior(numbers: Numbers) -> bool:
    ours, others = numbers["Average, PROBE"], (numbers["Average, Pegasos"], numbers["Average, SVMperf"])
    return all(ours[measure] >= other[measure] - NOT_INFERIOR for other in others for measure in ("MAP", "BE"))


def _no_more_iterations(numbers: Numbers) -> bool:
    return numbers["Average, PROBE"]["iterations"] <= numbers["Average, Pegasos"]["iterations"]


TABLE_3 = (
    Claim(f"PROBE's mean MAP and BE are at most {NOT_INFERIOR} below those of Pegasos and SVMperf", _not_inferior),
    Claim("PROBE takes no more iterations than Pegasos on average", _no_more_iterations),
)

PAPER = Paper(
    name="probe",
    title="PROBE",
    source="Smith, Kim & Wilbur 2012",
    claims="Sub-gradient steps towards a probable minimum train as good SVMs as Pegasos and SVMperf, in about as many passes.",
    exhibits=(
        Exhibit(
            "table-3",
            12,
            "MAP, break-even and iterations of PROBE, Pegasos and SVMperf on small corpora",
            corpora=("20newsgroups", "reuters21578"),
            claims=TABLE_3,
            make=table_3,
            lacks="REBASE, MDR, Industry Sectors and WebKB are not public; Pegasos' iterations are chosen on training rows",
        ),
    ),
)
