"""Papers, their tables and figures, and their claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcml.errors import ConfigError
from launch.lab.core.tables import read_json

if TYPE_CHECKING:
    from launch.lab.core.study import PaperStudy

PUBLISHED = Path(__file__).parents[1] / "papers" / "published"
Numbers = Mapping[str, Mapping[str, float]]  # of a row of the table, by column


class Claim(NamedTuple):
    """A claim of the paper as a sentence, and a predicate on the numbers. `holds` raises KeyError where its rows are absent."""

    text: str
    holds: Callable[[Numbers], bool]


CLAIMS: dict[tuple[str, str], list[Claim]] = {}  # by module and exhibit
Rule = Callable[[Numbers], bool]


def claim(exhibit: str, text: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule of a claim of its module."""

    def add(holds: Rule) -> Rule:
        CLAIMS.setdefault((holds.__module__, exhibit), []).append(Claim(text, holds))
        return holds

    return add


class Finding(NamedTuple):
    numbers: Numbers
    notes: tuple[str, ...] = ()
    pictures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure. `make` computes its numbers; without it `lacks` states why they cannot be computed.

    page: 0 if our copy of the paper has no page numbers. kind: synthetic rows that replace missing corpora, text or numbers; "" if
    the exhibit uses no data. corpora: default data (`corpora.CORPORA`). main: row and column of the number shown in lists.
    lacks: also the differences from the paper.
    """

    name: str
    page: int
    title: str
    kind: str = "text"
    corpora: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    make: Callable[[PaperStudy], Finding] | None = None
    main: tuple[str, str] | None = None
    lacks: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper: short name, source, claims, and exhibits. learnt: results beyond the paper, at most ten sentences."""

    name: str
    title: str
    source: str
    claims: str
    exhibits: tuple[Exhibit, ...]
    learnt: tuple[str, ...] = ()

    def exhibit(self, name: str) -> Exhibit:
        known = {exhibit.name: exhibit for exhibit in self.exhibits}
        if name not in known:
            raise ConfigError(f"{self.name} has no {name!r}; it has {', '.join(known)}")
        return known[name]

    def published(self, exhibit: str) -> Numbers:
        """Return the printed numbers; none for curves."""
        matching: Numbers = read_json(PUBLISHED / f"{self.name}.json").get(exhibit, {})
        return matching


def means(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    table_rows = list(rows)
    return {column: sum(row[column] for row in table_rows) / len(table_rows) for column in table_rows[0]}


def ending(numbers: Numbers, *words: str, otherwise: bool = False) -> list[Mapping[str, float]]:
    """Return the rows whose names end with one of the words (`otherwise`: with none). Raises KeyError if there are none."""
    matching = [row for name, row in numbers.items() if name.endswith(words) != otherwise]
    if not matching:
        raise KeyError(words)
    return matching
