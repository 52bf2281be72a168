"""The outcome of a study with the numbers of the paper, as JSON, CSV and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from launch.lab.core.exhibit import Claim, Exhibit, Finding, Numbers, Paper
from launch.lab.core.tables import table, write_json, write_table

NOT_JUDGED = "not judged"
WORDS = {None: NOT_JUDGED, True: "holds", False: "does not hold"}


@dataclass(frozen=True)
class Outcome:
    """The numbers of an exhibit, the printed numbers, and its claims (None: not judged)."""

    paper: str
    exhibit: str
    command: str
    data: list[str]
    quick: bool
    ranks: int
    seconds: float
    numbers: Numbers
    published: Numbers
    claims: dict[str, bool | None]
    notes: list[str]
    made_on: Mapping[str, str]

    @property
    def verdict(self) -> str:
        judged = [holds for holds in self.claims.values() if holds is not None]
        if self.quick or not judged:
            return NOT_JUDGED
        return "holds" if all(judged) else "holds in part" if any(judged) else "does not hold"


def judged(claims: tuple[Claim, ...], finding: Finding, quick: bool) -> dict[str, bool | None]:
    """Return whether each claim holds; None in the quick form and where its rows are absent."""
    verdicts: dict[str, bool | None] = {}
    for claim in claims:
        try:
            verdicts[claim.text] = None if quick else bool(claim.holds(finding.numbers))
        except KeyError:
            verdicts[claim.text] = None
    return verdicts


def column_names(*tables: Numbers) -> list[str]:
    return list(dict.fromkeys(column for each in tables for row in each.values() for column in row))


def cell(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_pair(ours: float | None, theirs: float | None) -> str:
    return cell(ours) + ("" if theirs is None else f" ({cell(theirs)})")


def format_rows(numbers: Numbers, published: Numbers) -> list[list[str]]:
    columns = column_names(numbers, published)
    rows = [["", *columns]]
    for name in dict.fromkeys([*numbers, *published]):
        ours, theirs = numbers.get(name, {}), published.get(name, {})
        rows.append([name, *(format_pair(ours.get(column), theirs.get(column)) for column in columns)])
    return rows


def text(outcome: Outcome, paper: Paper, exhibit: Exhibit) -> str:
    where = "synthetic rows, quick form" if outcome.quick else ", ".join(outcome.data) or "no data"
    ranks = "1 rank" if outcome.ranks == 1 else f"{outcome.ranks} ranks"
    where_in_paper = f"{exhibit.name} (page {exhibit.page})" if exhibit.page else exhibit.name
    lines = [f"{paper.source}, {where_in_paper}: {exhibit.title}", f"on {where}; numbers of the paper in brackets", ""]
    lines += table(format_rows(outcome.numbers, outcome.published))
    lines += ["", *(f"{WORDS[holds]}: {sentence}" for sentence, holds in outcome.claims.items()), *outcome.notes]
    lines += [f"differs from the paper: {exhibit.lacks}"] * bool(exhibit.lacks)
    return "\n".join([*lines, f"{outcome.verdict}; {outcome.seconds:.0f} s on {ranks}"])


def write(folder: Path, outcome: Outcome) -> None:
    """Write PAPER-EXHIBIT.json and .csv."""
    stem = f"{outcome.paper}-{outcome.exhibit}"
    write_json(folder / f"{stem}.json", asdict(outcome) | {"verdict": outcome.verdict})
    lines: list[list[object]] = [["row", "column", "ours", "published"]]
    for row in dict.fromkeys([*outcome.numbers, *outcome.published]):
        ours, theirs = outcome.numbers.get(row, {}), outcome.published.get(row, {})
        lines += [
            [row, column, ours.get(column, ""), theirs.get(column, "")] for column in column_names({row: ours}, {row: theirs})
        ]
    write_table(folder / f"{stem}.csv", lines)
