"""Label names: the same rules for every source.

White space around a name is removed, and an empty name is no label. Booleans are `True` and `False`, as pandas writes them.

If every value of a column is a number, `1`, `1.0`, `+1` and `1e0` are one label, `1`, and a fraction is an error, because labels
are classes, not quantities. In any other column values are text and stay unchanged. The rows of all files decide, so names are
final only after the last row. With `--like`, a number has the name of that file's label. `--labels-as-text` keeps all values as
written.
"""

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
AS_TEXT = ", or keep values as written (--labels-as-text)"
LIST_AS_TEXT = re.compile(
    r"""\[(\s*|.*[,'"].*|[\s\d.+-]+)\]|[({]\s*['"].*['"]\s*,?\s*[)}]|set\(\)|frozenset\(\{.*\}\)|array\(\[.*\].*\)|c\(['"].*['"]\)""",
    re.DOTALL,
)
MISSING = frozenset(("NA", "N/A", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null"))  # of R, pandas and databases


def number_name(text: str) -> str | None:
    if not NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if number.adjusted() >= LONGEST_NUMBER:
        return None
    return str(int(number)) if number == int(number) else ""


def check_no_list(text: str) -> str:
    if LIST_AS_TEXT.fullmatch(text.strip()):
        raise ValueError(
            f"{named(text)!r} is a list written as text; separate labels, as in farm;sea, and use --label-separator "
            "';', or use lists in Parquet or JSON lines (--labels-as-text reads it as one label)"
        )
    return text


class _Indicators(dict[Any, float]):
    """Maps indicator values to 1 or 0, NaN (missing) or infinity (invalid)."""

    def __missing__(self, value: object) -> float:
        if isinstance(value, str):
            text = value.strip()
            return self.get(text if text in self else number_name(text) or None, np.inf)
        return np.nan if is_missing(value) else np.inf


WORDS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0, "nan": np.nan, "NaN": np.nan}
INDICATORS = _Indicators({"1": 1.0, "0": 0.0, "": np.nan, 1: 1.0, 0: 0.0} | WORDS)


def indicator_values(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    try:
        return np.fromiter(map(INDICATORS.__getitem__, values), np.float64, len(values))
    except TypeError:  # a list, or another value without a hash
        return np.array([INDICATORS[value] if isinstance(value, Hashable) else np.inf for value in values], np.float64)


class LabelValues:
    def __init__(self, as_text: bool = False, known: Collection[str] = (), at_once: bool = False) -> None:
        """`known`: labels of --like. `at_once`: names are needed while rows are read, because labels are also features."""
        self.as_text, self.known, self.at_once = as_text, frozenset(known), at_once
        self.keys: defaultdict[str, dict[str, str]] = defaultdict(dict)  # column -> value -> key
        self.text: set[str] = set()  # columns with a non-numeric value
        self.fractions: dict[str, str] = {}  # column -> location of its first fraction
        self.rewritten: dict[str, str] = {}  # column -> location of the first value whose name differs from the value

    def add(self, column: str, value: str, location: object) -> str:
        """The key is the name, unless the values of all ranks decide on it."""
        number, key = None if self.as_text else number_name(value), value
        if number is None:
            self.text.add(column)
        elif value not in self.known and number in self.known:
            key = number
        elif number != value and value not in self.known:
            locations = self.rewritten if number else self.fractions
            if column not in locations:
                locations[column] = f"{location}: column {column!r}: {value}"
            if number:
                key = number if self.at_once else f"{value}\0{column}"
        return self.keys[column].setdefault(value, key)

    def names(self, comm: mpi.Comm, keys: Iterable[str]) -> list[str]:
        """Keys may be names from other sources. Collective; raises DataError."""
        parts = comm.allgather((self.text, self.fractions, self.rewritten if self.at_once else {}))
        text = set().union(*(rank_text for rank_text, *_ in parts))
        for _, fractions, rewritten in parts:
            for where in (where for column, where in fractions.items() if column not in text):
                raise DataError(f"{where}, but labels are names or whole numbers; convert quantities to classes{AS_TEXT}")
            for where in (where for column, where in rewritten.items() if column in text):
                why = "is a number, but other labels of the column are text; write all labels in one form"
                raise DataError(f"{where} {why}{AS_TEXT}")
        pieces = (key.partition("\0") for key in keys)
        return [number_name(value) or value if column and column not in text else value.strip() for value, _, column in pieces]


def missing_names(what: object, names: Collection[str]) -> str:
    words = ", ".join(map(repr, sorted(MISSING.intersection(names))))
    advice = "read as a label, not as a missing value; leave the value empty for unlabelled rows"
    return f"warning: {what}: {words}: {advice}" if words else ""


def similar_names(what: object, names: Sequence[str]) -> str:
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
        f"warning: {what}: {plural(len(pairs), 'label differs from another', 'labels differ from others')} only in "
        f"case, Unicode form or number form, such as {first} and {second}; they are kept as different labels"
    )
