"""The names of labels: the same rules for every source.

A name has no blanks around it, and an empty name is no label. Booleans are `True` and `False`, as pandas writes them.

Where every value of a column is a number, `1`, `1.0`, `+1` and `1e0` are one label, `1`. A number that is not whole is then an
error, because a quantity is no class. A column with any other value is text, and text never changes. All rows of all files
decide, so names are final only after the last row. With `--like` a number has the name that the label has there.
`--labels-as-text` keeps all values as they are written.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.in_memory import is_missing
from hpcml.errors import DataError
from hpcml.log import named, plural

NUMBER = re.compile(r"[+-]?(?=\.?[0-9])(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")  # 004 is text
NUMBER_STARTS = "+-.0123456789"
LONGEST_NUMBER = 38  # digits
AS_TEXT = ", or keep values as they are written (--labels-as-text)"
LIST_AS_TEXT = re.compile(
    r"""\[(\s*|.*[,'"].*|[\s\d.+-]+)\]|[({]\s*['"].*['"]\s*,?\s*[)}]|set\(\)|frozenset\(\{.*\}\)|array\(\[.*\].*\)|c\(['"].*['"]\)""",
    re.DOTALL,
)
MISSING = frozenset(("NA", "N/A", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null"))  # of R, pandas and databases


def number_name(text: str) -> str | None:
    """Return the name of a label that is a number: "3" for 3.0, "" if it is not whole; None for a text."""
    if not NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if number.adjusted() >= LONGEST_NUMBER:
        return None
    return str(int(number)) if number == int(number) else ""


def check_no_list(text: str) -> str:
    """Return the value of a cell. Raises ValueError for a list that is written as text, such as "['farm', 'sea']"."""
    if LIST_AS_TEXT.fullmatch(text.strip()):
        raise ValueError(
            f"{named(text)!r} is a list written as text; write labels with a separator, as in farm;sea, and give "
            "--label-separator ';', or use lists of Parquet or JSON lines (--labels-as-text: it is one label)"
        )
    return text


class _Indicators(dict[Any, float]):
    """The meaning of the values of indicators: 1 or 0, NaN for a missing one, infinity for any other."""

    def __missing__(self, value: object) -> float:
        if isinstance(value, str):
            text = value.strip()
            return self.get(text if text in self else number_name(text) or None, np.inf)
        return np.nan if is_missing(value) else np.inf


WORDS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0, "nan": np.nan, "NaN": np.nan}
INDICATORS = _Indicators({"1": 1.0, "0": 0.0, "": np.nan, 1: 1.0, 0: 0.0} | WORDS)


def indicator_values(values: Any) -> np.ndarray:
    """Return a column of indicators as numbers: 1 or 0, NaN for a missing value, any other for a wrong one."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    try:
        return np.fromiter(map(INDICATORS.__getitem__, values), np.float64, len(values))
    except TypeError:  # a list, or another value without a hash
        return np.array([INDICATORS[value] if isinstance(value, Hashable) else np.inf for value in values], np.float64)


class LabelValues:
    """The values of columns of labels on one rank. `names` gives the names of the labels after the last row."""

    def __init__(self, as_text: bool = False, known: Collection[str] = (), at_once: bool = False) -> None:
        """`known`: the labels of --like; `at_once`: names are needed while rows are read, since labels are features."""
        self.as_text, self.known, self.at_once = as_text, frozenset(known), at_once
        self.keys: defaultdict[str, dict[str, str]] = defaultdict(dict)  # of the values of each column, for the rows
        self.text: set[str] = set()  # columns with a value that is no number
        self.fractions: dict[str, str] = {}  # where the first number of a column is that is not whole
        self.rewritten: dict[str, str] = {}  # where the first one is whose name is not as it is written

    def add(self, column: str, value: str, place: object) -> str:
        """Return the key of a value that its column has not had: its name, unless all ranks' values decide on that."""
        number, key = None if self.as_text else number_name(value), value
        if number is None:
            self.text.add(column)
        elif value not in self.known and number in self.known:
            key = number
        elif number != value and value not in self.known:
            places = self.rewritten if number else self.fractions
            if column not in places:
                places[column] = f"{place}: column {column!r}: {value}"
            if number:
                key = number if self.at_once else f"{value}\0{column}"
        return self.keys[column].setdefault(value, key)

    def names(self, comm: mpi.Comm, keys: Iterable[str]) -> list[str]:
        """Return the names of labels by their keys, or by names of other sources. Collective. Raises DataError."""
        parts = comm.allgather((self.text, self.fractions, self.rewritten if self.at_once else {}))
        text = set().union(*(of_rank for of_rank, *_ in parts))
        for _, fractions, rewritten in parts:
            for where in (where for column, where in fractions.items() if column not in text):
                raise DataError(f"{where}, but labels are names or whole numbers; make classes of quantities{AS_TEXT}")
            for where in (where for column, where in rewritten.items() if column in text):
                raise DataError(f"{where} is a number, but other labels of the column are texts; write all labels alike{AS_TEXT}")
        pieces = (key.partition("\0") for key in keys)
        return [number_name(value) or value if column and column not in text else value.strip() for value, _, column in pieces]


def missing_names(what: object, names: Collection[str]) -> str:
    """Return a warning of names that are words for a missing value; "" without any."""
    found = ", ".join(map(repr, sorted(MISSING.intersection(names))))
    return (
        f"warning: {what}: {found}: read as a label, not as a missing value; unlabelled rows have an empty value" if found else ""
    )


def similar_names(what: object, names: Sequence[str]) -> str:
    """Return a warning of names that differ only by case, Unicode form or the form of a number; "" without any."""
    seen: dict[str, str] = {}
    pairs = []
    for name in names:
        form = number_name(name) if name[:1] in NUMBER_STARTS and not name.isdecimal() else None
        if not form:
            form = name.lower() if name.isascii() else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if (other := seen.setdefault(form, name)) != name:
            pairs.append((other, name))
    if not pairs:
        return ""
    first, second = (ascii(name) if unicodedata.normalize("NFC", name) != name else repr(name) for name in pairs[0])
    return (
        f"warning: {what}: {plural(len(pairs), 'label differs from another', 'labels differ from others')} only by case, Unicode "
        f"form or the form of a number, such as {first} and {second}; they remain different labels"
    )
