"""The role of each column of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hpcml.conversion.fields import PLAIN, Field
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, nearest


def listed(given: Iterable[str]) -> tuple[str, ...]:
    """The names in values such as "a,b", one after another."""
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are for; `fields` are texts told apart, `text` others.

    `features` are the columns of numbers; None: all that nothing else names.
    """

    text: tuple[str, ...] = ()
    fields: tuple[Field, ...] = PLAIN
    labels: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    id: str | None = None
    split: str | None = None
    features: tuple[str, ...] | None = None

    @classmethod
    def of(cls, options: ConvertOptions, fields: tuple[Field, ...]) -> Roles:
        """Those that the options name; `fields` are the ones of the corpus."""
        return cls(
            text=listed(options.text),
            fields=fields,
            labels=listed(options.labels),
            indicators=listed(options.indicators),
            id=options.id,
            split=options.split_column,
            features=listed(options.features) or None,
        )

    @property
    def is_text(self) -> bool:
        """Whether rows are made from text."""
        return bool(self.text) or self.fields != PLAIN

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of texts."""
        return self.text or (tuple(field.name for field in self.fields) if self.fields != PLAIN else ())

    def named(self) -> list[tuple[str, str]]:
        """(option, column) of every column that is named."""
        found = [("--text" if self.text else "--fields", name) for name in self.texts]
        found += [("--labels", name) for name in self.labels] + [("--indicators", name) for name in self.indicators]
        found += [("--id", self.id)] if self.id is not None else []
        found += [("--split-column", self.split)] if self.split is not None else []
        return found + [("--features", name) for name in self.features or ()]

    def numbers(self, names: Sequence[str]) -> list[str]:
        """The columns of numbers that are features, in the order of the table or of --features."""
        if self.is_text:
            return []
        taken = {name for _, name in self.named()}
        return list(self.features) if self.features else [name for name in names if name not in taken]

    def check(self, where: str, names: Collection[str], listed_by: str = "") -> None:
        """Raise ConfigError unless a table of these columns has those wanted, each once."""
        seen: dict[str, str] = {}
        known = set(names)
        for option, name in self.named():
            if name not in known:
                hint = nearest(name, names) or f"it has {len(names)} columns"
                raise ConfigError(f"{where}: {option} {name}: no such column; {hint}")
            if name in seen and {option, seen[name]} != {"--id", "--features"}:
                also = "is named twice" if seen[name] == option else f"is named by {seen[name]}, too"
                raise ConfigError(f"{where}: {option} {name}: the column {also}; a column is for one thing")
            seen[name] = option
