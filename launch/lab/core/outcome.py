"""The outcome of a study, beside the numbers of the paper: as JSON, CSV and text."""

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
    """An exhibit's numbers and the paper's, its claims and whether they hold (None: not judged)."""

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
        """Whether the paper's claims hold on these data."""
        judged = [holds for holds in self.claims.values() if holds is not None]
        if self.quick or not judged:
            return NOT_JUDGED
        return "holds" if all(judged) else "holds in part" if any(judged) else "does not hold"


def judged(claims: tuple[Claim, ...], finding: Finding, quick: bool) -> dict[str, bool | None]:
    """Whether each claim holds; None of the quick form, and where rows lack what it is about."""
    found: dict[str, bool | None] = {}
    for claim in claims:
        try:
            found[claim.says] = None if quick else bool(claim.holds(finding.numbers))
        except KeyError:
            found[claim.says] = None
    return found


def columns_of(*tables: Numbers) -> list[str]:
    """The columns of tables, each once, in their order."""
    return list(dict.fromkeys(column for each in tables for row in each.values() for column in row))


def cell(value: float | None) -> str:
    """A number of a table, with four digits."""
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def beside(ours: float | None, theirs: float | None) -> str:
    """Our number, and in brackets the paper's, if it has one."""
    return cell(ours) + ("" if theirs is None else f" ({cell(theirs)})")


def shown(numbers: Numbers, published: Numbers) -> list[list[str]]:
    """The rows of the table in words: ours, and in brackets the paper's."""
    columns = columns_of(numbers, published)
    rows = [["", *columns]]
    for name in dict.fromkeys([*numbers, *published]):
        ours, theirs = numbers.get(name, {}), published.get(name, {})
        rows.append([name, *(beside(ours.get(column), theirs.get(column)) for column in columns)])
    return rows


def text(outcome: Outcome, paper: Paper, exhibit: Exhibit) -> str:
    """What is printed."""
    where = "made rows, quick form" if outcome.quick else ", ".join(outcome.data) or "no data"
    ranks = "1 rank" if outcome.ranks == 1 else f"{outcome.ranks} ranks"
    place = f"{exhibit.name} (page {exhibit.page})" if exhibit.page else exhibit.name
    lines = [f"{paper.source}, {place}: {exhibit.title}", f"on {where}; in brackets the paper's", ""]
    lines += table(shown(outcome.numbers, outcome.published))
    lines += ["", *(f"{WORDS[holds]}: {says}" for says, holds in outcome.claims.items()), *outcome.notes]
    lines += [f"differs from the paper: {exhibit.lacks}"] * bool(exhibit.lacks)
    return "\n".join([*lines, f"{outcome.verdict}; {outcome.seconds:.0f} s on {ranks}"])


def write(folder: Path, outcome: Outcome) -> None:
    """Write PAPER-EXHIBIT.json and .csv."""
    stem = f"{outcome.paper}-{outcome.exhibit}"
    write_json(folder / f"{stem}.json", asdict(outcome) | {"verdict": outcome.verdict})
    lines: list[list[object]] = [["row", "column", "ours", "published"]]
    for row in dict.fromkeys([*outcome.numbers, *outcome.published]):
        ours, theirs = outcome.numbers.get(row, {}), outcome.published.get(row, {})
        lines += [[row, column, ours.get(column, ""), theirs.get(column, "")] for column in columns_of({row: ours}, {row: theirs})]
    write_table(folder / f"{stem}.csv", lines)
