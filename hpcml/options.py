"""Declaration and checks of options: a frozen dataclass defines flags, help and TOML keys."""

import ast
import inspect
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cyclopts import Parameter, Token

from hpcml.errors import OptionError
from hpcml.errors import option_flag as option_flag

Several = Parameter(consume_multiple=True, negative="")  # option with several values: --name A B, or --name A --name B
Flag = Annotated[bool, Parameter(negative="")]
PIECE = re.compile(r'\s*"((?:[^"]|"")*)"\s*,|([^,]*),')  # a name in a CSV record, with or without quotes
Value = str | float | Path | Sequence[str] | Sequence[float] | None  # type of an option in Python functions

LARGEST = 2**63  # upper bound of integers

# Options that never change the result, and so may differ between a run and its continuation.
FREE = frozenset({"checkpoint_every", "time_limit", "profile"})


def split_record(text: str, strip: bool = False) -> list[str]:
    """Return the names in a CSV record: unquoted names keep blanks, empty ones are omitted; the reverse with `strip`."""
    names = []
    for match in PIECE.finditer(f"{text},"):
        if match[1] is not None:
            names.append(match[1].replace('""', '"'))
        elif strip or match[2].strip():
            names.append(match[2].strip() if strip else match[2])
    return names


def quoted_name(name: str) -> str:
    is_bare = name and "," not in name and name[0] != '"' and name == name.strip()
    return name if is_bare else '"' + name.replace('"', '""') + '"'


def unquote_name(text: str) -> str:
    names = split_record(text)
    return names[0] if len(names) == 1 and text.lstrip().startswith('"') else text


def _names(strip: bool) -> Parameter:
    def read(_kind: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
        return tuple(name for token in tokens for name in split_record(token.value, strip))

    return Parameter(consume_multiple=True, negative="", converter=read)


# Names of columns and fields are CSV records: a quoted name may contain commas and surrounding blanks.
Name, Names, FieldNames = Parameter(converter=lambda _kind, tokens: unquote_name(tokens[0].value)), _names(False), _names(True)


@cache
def _classes_in(file: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def texts_behind(kind: type) -> dict[str, str]:
    docs = {}
    for line, text in pairwise(_classes_in(inspect.getfile(kind))[kind.__name__].body):
        if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            docs[ast.unparse(line.target)] = " ".join(str(text.value.value).split())
    return docs


@cache
def option_help(kind: type) -> dict[str, str]:
    docs: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        docs |= texts_behind(each) if "__dataclass_fields__" in vars(each) else {}
    return {option.name: docs[option.name] for option in fields(kind)}


def default_value(option: Field) -> object:
    return option.default if option.default_factory is MISSING else option.default_factory()


def command_flags(options: Any, *omitted: str) -> list[str]:
    """Return the flags of the options that differ from their defaults."""
    words = []
    for option in fields(options):
        name, value = option_flag(option.name), getattr(options, option.name)
        if option.name not in omitted and value != default_value(option):
            for each in value if isinstance(value, tuple) else (value,):
                words.append(f"--{name}" if each is True else f"--no-{name}" if each is False else f"--{name}={each}")
    return words


class Range:
    """Rule: inclusive bounds of an option's value, or of each value of a tuple."""

    def __init__(self, low: float, high: float = math.inf) -> None:
        self.low, self.high = low, high

    def find_fault(self, value: float) -> str:
        """Return what was expected; "" if the value is allowed."""
        if self.low <= value <= self.high and value < math.inf:
            return ""
        if not math.isfinite(value):
            return "expected a finite number" + (f" of at least {self.low:g}" if math.isfinite(self.low) else "")
        return f"expected at least {self.low:g}" if value < self.low else f"expected at most {self.high:g}"


class Between(Range):
    """Rule: exclusive bounds of an option's value."""

    def find_fault(self, value: float) -> str:
        if self.low < value < self.high:
            return ""
        high = f" and {self.high:g}" if math.isfinite(self.high) else ""
        return f"expected a number {'between' if high else 'above'} {self.low:g}{high}"


Seed = Annotated[int, Range(0, 2**32 - 1)]
Count = Annotated[int | None, Range(1, 2**31 - 1)]
Seconds = Annotated[float | None, Between(0)]


class Or:
    """Further types of an option, by name, that Python functions accept."""

    def __init__(self, *types: str) -> None:
        self.types = types


class Only:
    """Rule: an option has no effect unless one of these options is set, or the input is of one of these kinds."""

    def __init__(self, *names: str) -> None:
        self.names = names


class NotWith(Only):
    """Rule: an option has no effect if one of these options is set."""


def iterate_types(hint: Any) -> Iterator[Any]:
    inner = () if get_origin(hint) is Literal else get_args(hint)
    for each in inner or (hint,):
        yield from iterate_types(each) if inner else (each,)


def check_rules(options: Any, *inputs: str) -> None:
    """Raise OptionError for an option that violates a rule of its annotation; `inputs`: kinds of the inputs, if known."""
    check_sizes(options)
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    hints = get_type_hints(type(options), include_extras=True)
    defaults = {option.name: default_value(option) for option in fields(options)}
    set_options = {name for name, value in values.items() if defaults[name] is not MISSING and value != defaults[name]}
    for name, value in values.items():
        parts = value if isinstance(value, tuple) else (value,)
        choices = [each for kind in iterate_types(hints[name]) if get_origin(kind) is Literal for each in get_args(kind)]
        if choices and value is not None and value not in choices:
            expected = [", ".join(choices[:-1])] * (len(choices) > 1) + choices[-1:]
            raise OptionError(name, value, f"expected {' or '.join(expected)}")
        for rule in getattr(hints[name], "__metadata__", ()):
            for part in parts if isinstance(rule, Range) else ():
                if part is not None and (fault := rule.find_fault(part)):
                    raise OptionError(name, part, fault)
            if not isinstance(rule, Only) or name not in set_options:
                continue
            present = [other for other in rule.names if other in set_options or other in inputs]
            if isinstance(rule, NotWith) and present:
                raise OptionError(name, value, "has no effect with", *present)
            if isinstance(rule, NotWith) or present:
                continue
            if values.keys() & set(rule.names):
                raise OptionError(name, value, "has no effect without", *rule.names)
            if inputs:
                raise OptionError(name, value, f"applies only to {' and '.join(rule.names)}; remove it")


def check_sizes(options: Any) -> None:
    for option in fields(options):
        value = getattr(options, option.name)
        if is_dataclass(value):
            check_sizes(value)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, int) and abs(each) >= LARGEST:
                raise OptionError(option.name, f"({each.bit_length()} bits)", "expected an integer below 2**63")


def parse_part(text: str) -> tuple[int, int]:
    """Return K and N of "K/N", the K-th of N parts. Raises OptionError unless 1 ≤ K ≤ N."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise OptionError("label_part", text, "expected K/N, the K-th of N parts, as in 1/8")
    return int(part), int(parts)
