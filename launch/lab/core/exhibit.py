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
    """A table or figure: `make` finds its numbers; without it `lacks` says why it cannot be made.

    page: 0 where our copy of the paper has none. corpora: what it takes by default (`corpora.CORPORA`). kind: what is made where
    those are not there, text or numbers; "" if it takes no data. main: row and column of the number that stands for all of it where
    exhibits are listed. lacks: also what differs from the paper.
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
    """A paper: its short name, where it was printed, what it claims, and its exhibits.

    learnt: what the experiments show that the paper does not say, at most ten sentences.
    """

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
