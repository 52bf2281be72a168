"""A paper, its tables and figures, and their claims."""

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
    """What the paper claims, as a sentence with its numbers, and whether numbers agree with it.

    `holds` raises KeyError where the numbers lack what it is about.
    """

    says: str
    holds: Callable[[Numbers], bool]


CLAIMS: dict[tuple[str, str], list[Claim]] = {}  # by module and exhibit
Rule = Callable[[Numbers], bool]


def claim(exhibit: str, says: str) -> Callable[[Rule], Rule]:
    """Return a decorator: the function judges this claim of an exhibit of its module."""

    def add(holds: Rule) -> Rule:
        CLAIMS.setdefault((holds.__module__, exhibit), []).append(Claim(says, holds))
        return holds

    return add


class Finding(NamedTuple):
    """The numbers of an exhibit, what is to be known about them, and the pictures made."""

    numbers: Numbers
    notes: tuple[str, ...] = ()
    pictures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: `make` finds its numbers; without it `lacks` says why it cannot be made.

    page: 0 where our copy of the paper has none. corpora: what it takes by default
    (`corpora.CORPORA`). kind: what is made where those are not there, text or numbers; "" if it
    takes no data. main: row and column of the number that stands for all of it where exhibits are
    listed. lacks: also what differs from the paper.
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
        """Return one of the exhibits. Raises ConfigError."""
        known = {exhibit.name: exhibit for exhibit in self.exhibits}
        if name not in known:
            raise ConfigError(f"{self.name} has no {name!r}; it has {', '.join(known)}")
        return known[name]

    def published(self, exhibit: str) -> Numbers:
        """Return the numbers that are printed in the paper; none where there are only curves."""
        found: Numbers = read_json(PUBLISHED / f"{self.name}.json").get(exhibit, {})
        return found


def means(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each column of some rows, which have the same."""
    some = list(rows)
    return {column: sum(row[column] for row in some) / len(some) for column in some[0]}


def ending(numbers: Numbers, *words: str, otherwise: bool = False) -> list[Mapping[str, float]]:
    """The rows whose names end with one of some words, or otherwise. Raises KeyError if there are
    none.
    """
    found = [row for name, row in numbers.items() if name.endswith(words) != otherwise]
    if not found:
        raise KeyError(words)
    return found
