"""The files of `--config`: TOML with options, checked before the command line is parsed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import cyclopts

from hpcml.errors import ConfigError, nearest
from hpcml.files.opening import read_small
from hpcml.options import flag_of

if TYPE_CHECKING:
    from hpcml.methods.registry import Method

SHOWN = 60  # characters of a value in a message
LARGEST = 2**63
TEXTS = {"data": str, "output": str}  # the keys that every method has
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a text", tuple: "a list of texts"}


def config_files(tokens: list[str]) -> tuple[list[str], list[cyclopts.config.Dict]]:
    """Return the tokens of `train`, with the method if only files name it, and the files of --config (flags win).

    Raises ConfigError for a missing file, an unknown key or a value of a wrong kind, DataError for
    a file that cannot be read.
    """
    from hpcml.methods.registry import METHODS

    paths = [Path(value) for flag, value in pairwise(tokens) if flag == "--config"]
    paths += [Path(token.partition("=")[2]) for token in tokens if token.startswith("--config=")]
    given, found = next((token for token in tokens[1:2] if token in METHODS), None), []
    method = given
    every = [(path, _read(path)) for path in paths]
    for path, keys in every:
        _check_value(path, "method", keys.get("method", ""), str)
        named = str(keys["method"]) if "method" in keys else method
        keys.pop("method", None)
        if method is not None and named != method and not _share_options(method, named or method):
            raise ConfigError(f"{path}: it is for the method {shortened(named or '')!r}, not {method!r}")
        if named is not None and named not in METHODS:
            raise ConfigError(f"{path}: no method {shortened(named)!r}; {nearest(shortened(named), METHODS, 'hpcml train --help')}")
        method = given or named
    if given is None and method is not None and (len(tokens) == 1 or tokens[1].startswith("-")):
        tokens = ["train", method, *tokens[1:]]
    for path, keys in every if method is not None else []:
        _check_keys(path, keys, METHODS[method])
        found.append(cyclopts.config.Dict(keys, source=str(path), use_commands_as_keys=False))
    return tokens, found


def _share_options(*names: str) -> bool:
    """Whether these methods can be compared, so that the configuration of one serves another."""
    from hpcml.methods.registry import METHODS

    return all(name in METHODS and METHODS[name].losses for name in names)


def _check_keys(path: Path, keys: dict[str, object], method: Method) -> None:
    """Raise ConfigError unless all keys are the method's and their values have the right kinds."""
    from hpcml.methods.registry import METHODS

    known = TEXTS | kinds_of(method.options)
    for key, value in keys.items():
        flag = key.replace("_", "-")
        if flag not in known:
            others = [name for name, each in METHODS.items() if flag in kinds_of(each.options)]
            near = nearest(shortened(key), known, f"hpcml train {method.name} --help")
            hint = f"it is for {', '.join(others)}" if others else near
            raise ConfigError(f"{path}: unknown key {shortened(key)!r}; {hint}")
        _check_value(path, key, value, known[flag])


def _read(path: Path) -> dict[str, object]:
    text = read_small(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not a TOML file: {shortened(str(error))}") from None
    except ValueError:  # of Python's int, or of a date
        raise ConfigError(f"{path}: a number of thousands of digits, or a date that is none; mend it") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; expected lines KEY = VALUE") from None
    return values


def kinds_of(options: type) -> dict[str, type]:
    """The key of each option of a dataclass, and of which kind its values are: one of WORDS."""
    hints = get_type_hints(options)
    return {flag_of(field.name): _kind_of(hints[field.name]) for field in fields(options)}


def _kind_of(hint: Any) -> type:
    """The kind of an option's values by its type: X of `X | None`, tuple of `tuple[X, ...]`."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return get_origin(hint) or hint


def _check_value(path: Path, key: str, value: object, kind: type) -> None:
    """Raise ConfigError unless a value of TOML can be of that kind."""
    values = value if kind is tuple and isinstance(value, list) else [value]
    for each in values:
        scalar = isinstance(each, (str, int, float))  # a truth value is an int
        fits = scalar and (isinstance(each, str) or isinstance(each, bool) <= (kind is bool))
        if kind is int and isinstance(each, float):
            fits = each.is_integer()
        if isinstance(each, int) and abs(each) >= LARGEST:
            fits = False
        if not fits:
            shown = f"{each:.17g}" if isinstance(each, float) else type(each).__name__ if not scalar else _shown(each)
            raise ConfigError(f"{path}: {key} = {shown}: expected {WORDS[kind]}")
        if isinstance(each, str):
            check_text(each, f"{path}: {key}")


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= LARGEST:
        return f"a number of {value.bit_length()} bits"
    return str(value).lower() if isinstance(value, bool) else shortened(str(value))


def check_text(text: str, where: str) -> None:
    """Raise ConfigError for a text that no file can hold: with NUL, or not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: {shortened(ascii(text))} is not UTF-8; rename what it names") from None
    if "\0" in text:
        raise ConfigError(f"{where}: {shortened(ascii(text))} holds the character NUL; leave it out")


def check_numbers(arguments: Mapping[str, object]) -> None:
    """Raise ConfigError for a whole number that is larger than any option takes."""
    for name, value in arguments.items():
        if is_dataclass(value):
            check_numbers({field.name: getattr(value, field.name) for field in fields(value)})
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, int) and abs(each) >= LARGEST:
                raise ConfigError(f"--{flag_of(name)}: {_shown(each)}, but expected a whole number below 2**63")


def shortened(text: str) -> str:
    """A text on one line, with what is very long in it cut short."""
    return re.sub(rf"(\S{{{SHOWN}}})\S{{{SHOWN},}}", r"\1…", " ".join(text.split()))
