"""Labels that have got another name: `--renamed OLD=NEW`, or files with a pair on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcml.errors import ConfigError, DataError, nearest
from hpcml.files.opening import read_small

LINE = "the old and the new name of a label, with a tab between"


def rename_files(renamed: Sequence[str]) -> list[Path]:
    """Which of the values of --renamed name files: those without =."""
    return [Path(value) for value in renamed if "=" not in value]


def read_renames(renamed: Sequence[str], known: Sequence[str], like: Path) -> dict[str, str]:
    """The new names of labels that have got one, by those in `like`, which knows these labels.

    Local. Raises ConfigError unless every old name is known, every new one is not, and no name
    stands there twice; DataError for a file that cannot be read.
    """
    pairs: dict[str, str] = {}
    there, taken = set(known), set[str]()
    for where, old, new in [pair for value in renamed for pair in _pairs_of(value)]:
        if old in pairs or old in taken or new in pairs or new in taken:
            twice = old if old in pairs or old in taken else new
            raise ConfigError(f"{where}: {twice!r} stands in two renames; say for each label once what it was and what it is now")
        if old not in there:
            raise ConfigError(f"{where}: {like} has no label {old!r}; {nearest(old, list(known), 'hpcml info')}")
        if new in there:
            raise ConfigError(f"{where}: {like} has a label {new!r} already; leave it out, and give the documents this label")
        pairs[old] = new
        taken.add(new)
    return pairs


def _pairs_of(value: str) -> list[tuple[str, str, str]]:
    """(where, old name, new name) of a value of --renamed. Raises ConfigError or DataError."""
    if "=" in value:
        return [(f"--renamed {value}", *_divided(value, "=", f"--renamed {value}: expected OLD=NEW, or a file for names with ="))]
    pairs = []
    for number, line in enumerate(read_small(Path(value)).splitlines(), 1):
        if line.strip():
            where = f"{value}: line {number}"
            pairs.append((where, *_divided(line, "\t", f"{where}: expected {LINE}")))
    if not pairs:
        raise DataError(f"{value}: no names; expected on each line {LINE}")
    return pairs


def _divided(text: str, sign: str, complaint: str) -> tuple[str, str]:
    """The two names on both sides of the sign. Raises ConfigError."""
    parts = [part.strip() for part in text.split(sign)]
    if len(parts) != 2 or not all(parts):
        raise ConfigError(complaint)
    return parts[0], parts[1]
