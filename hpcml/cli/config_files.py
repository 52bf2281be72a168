"""The files of `--config`: TOML with options, checked before the command line is parsed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import cyclopts

from hpcml.errors import ConfigError, nearest
from hpcml.files.opening import read_small
from hpcml.options import LARGEST, flag_of

SHOWN = 60  # characters of a value in a message
TEXTS = {"data": str, "output": str}  # the keys that every method has
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a text", tuple: "a list of texts"}


def config_files(tokens: list[str]) -> tuple[list[str], list[cyclopts.config.Dict]]:
    """Return the tokens of `train`, with the method if only files name it, and the files of --config (flags win).

    Raises ConfigError for a missing file, an unknown key or a value of a wrong kind, DataError for a file that cannot be read.
    """
    from hpcml.methods.registry import METHODS

    paths = [Path(value) for flag, value in pairwise(tokens) if flag == "--config"]
    paths += [Path(token.partition("=")[2]) for token in tokens if token.startswith("--config=")]
    given = method = next((token for token in tokens[1:2] if token in METHODS), None)
    every = []
    for path in paths:
        text = read_small(path)
        try:
            every.append((path, tomllib.loads(text)))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not a TOML file: {shortened(str(error))}") from None
        except ValueError:  # of Python's int, or of a date
            raise ConfigError(f"{path}: a number of thousands of digits, or an invalid date; correct it") from None
        except RecursionError:
            raise ConfigError(f"{path}: nested too deeply; expected lines KEY = VALUE") from None
    for path, keys in every:
        named = keys.pop("method", method)
        _check_value(path, "method", named or "", str)
        if named is not None and named not in METHODS:
            near = nearest(shortened(str(named)), METHODS, "hpcml train --help")
            raise ConfigError(f"{path}: no method {shortened(str(named))!r}; {near}")
        named = None if named is None else str(named)
        # A configuration of a method with losses serves the others with losses, too.
        if method is not None and named not in (None, method) and not (METHODS[named].losses and METHODS[method].losses):
            raise ConfigError(f"{path}: it is for the method {named!r}, not {method!r}")
        method = given or named
    if method is None:
        return tokens, []
    if given is None and (len(tokens) == 1 or tokens[1].startswith("-")):
        tokens = ["train", method, *tokens[1:]]
    known = TEXTS | kinds_of(METHODS[method].options)
    for path, keys in every:
        for key, value in keys.items():
            flag = key.replace("_", "-")
            if flag not in known:
                others = [name for name, each in METHODS.items() if flag in kinds_of(each.options)]
                near = nearest(shortened(key), known, f"hpcml train {method} --help")
                hint = f"it is for {', '.join(others)}" if others else near
                raise ConfigError(f"{path}: unknown key {shortened(key)!r}; {hint}")
            _check_value(path, key, value, known[flag])
    return tokens, [cyclopts.config.Dict(keys, source=str(path), use_commands_as_keys=False) for path, keys in every]


def kinds_of(options: type) -> dict[str, type]:
    """Return the kind of the values of each option of a dataclass, by its key: X of `X | None`, tuple of `tuple[X, ...]`."""
    kinds = {}
    for name, hint in get_type_hints(options).items():
        if get_origin(hint) in (Union, UnionType):
            (hint,) = (each for each in get_args(hint) if each is not type(None))
        kinds[name] = str if get_origin(hint) is Literal else get_origin(hint) or hint
    return {flag_of(field.name): kinds[field.name] for field in fields(options)}


def _check_value(path: Path, key: str, value: object, kind: type) -> None:
    """Raise ConfigError unless a value of TOML can be of that kind."""
    for each in value if kind is tuple and isinstance(value, list) else [value]:
        shown, fits = type(each).__name__, False
        if isinstance(each, str):
            check_text(each, f"{path}: {key}")
            fits = True
        elif isinstance(each, bool):
            shown, fits = str(each).lower(), kind is bool
        elif isinstance(each, float):
            shown, fits = f"{each:.17g}", kind is not bool and (kind is not int or each.is_integer())
        elif isinstance(each, int):
            fits = kind is not bool and abs(each) < LARGEST
            shown = f"{each}" if abs(each) < LARGEST else f"a number of {each.bit_length()} bits"
        if not fits:
            raise ConfigError(f"{path}: {key} = {shown}: expected {WORDS[kind]}")


def check_text(text: str, where: str) -> None:
    """Raise ConfigError for a text that no file can hold: with NUL, or not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: {shortened(ascii(text))} is not UTF-8; rename what it names") from None
    if "\0" in text:
        raise ConfigError(f"{where}: {shortened(ascii(text))} holds the character NUL; remove it")


def shortened(text: str) -> str:
    """A text on one line, with what is very long in it cut short."""
    return re.sub(rf"(\S{{{SHOWN}}})\S{{{SHOWN},}}", r"\1…", " ".join(text.split()))
