"""The TOML files of `--config`. They are checked before the command line is parsed."""

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
from hpcml.options import LARGEST, option_flag

LONGEST = 60  # characters of a word in a message
COMMON_KEYS = {"data": str, "output": str}  # keys of every method
EXPECTED = {bool: "true or false", int: "an integer", float: "a number", str: "a text", Path: "a text", tuple: "a list of texts"}


def read_config_files(tokens: list[str]) -> tuple[list[str], list[cyclopts.config.Dict]]:
    """Return the tokens of `train`, with the method of a file, and the options of the files. Raises ConfigError, DataError."""
    from hpcml.methods.registry import METHODS

    paths = [Path(value) for flag, value in pairwise(tokens) if flag == "--config"]
    paths += [Path(token.partition("=")[2]) for token in tokens if token.startswith("--config=")]
    on_command_line = method = next((token for token in tokens[1:2] if token in METHODS), None)
    files = []
    for path in paths:
        text = read_small(path)
        try:
            files.append((path, tomllib.loads(text)))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not a TOML file: {shorten(str(error))}; expected lines KEY = VALUE") from None
    for path, keys in files:
        in_file = keys.pop("method", method)
        _check_value(path, "method", in_file or "", str)
        if in_file is not None and in_file not in METHODS:
            near = nearest(shorten(str(in_file)), METHODS, "hpcml train --help")
            raise ConfigError(f"{path}: no method {shorten(str(in_file))!r}; {near}")
        # Methods with losses share their options, so a configuration of one of them also serves the others.
        if method is not None and in_file not in (None, method) and not (METHODS[in_file].losses and METHODS[method].losses):
            raise ConfigError(f"{path}: written for the method {in_file!r}, not for {method!r}; use another file")
        method = on_command_line or in_file
    if method is None:
        return tokens, []
    if on_command_line is None and (len(tokens) == 1 or tokens[1].startswith("-")):
        tokens = ["train", method, *tokens[1:]]
    known = COMMON_KEYS | list_types(METHODS[method].options)
    for path, keys in files:
        for key, value in keys.items():
            flag = key.replace("_", "-")
            if flag not in known:
                others = [name for name, each in METHODS.items() if flag in list_types(each.options)]
                near = nearest(shorten(key), known, f"hpcml train {method} --help")
                hint = f"only {', '.join(others)} has it" if others else near
                raise ConfigError(f"{path}: unknown key {shorten(key)!r}; {hint}")
            _check_value(path, key, value, known[flag])
    return tokens, [cyclopts.config.Dict(keys, source=str(path), use_commands_as_keys=False) for path, keys in files]


def list_types(options: type) -> dict[str, type]:
    """Return the type of each option of a dataclass, by its key: X for `X | None`, tuple for `tuple[X, ...]`."""
    types = {}
    for name, hint in get_type_hints(options).items():
        if get_origin(hint) in (Union, UnionType):
            (hint,) = (each for each in get_args(hint) if each is not type(None))
        types[name] = str if get_origin(hint) is Literal else get_origin(hint) or hint
    return {option_flag(field.name): types[field.name] for field in fields(options)}


def _check_value(path: Path, key: str, value: object, kind: type) -> None:
    for each in value if kind is tuple and isinstance(value, list) else [value]:
        value_text, fits = type(each).__name__, False
        if isinstance(each, str):
            check_text(each, f"{path}: {key}")
            fits = True
        elif isinstance(each, bool):
            value_text, fits = str(each).lower(), kind is bool
        elif isinstance(each, float):
            value_text, fits = f"{each:.17g}", kind is not bool and (kind is not int or each.is_integer())
        elif isinstance(each, int):
            fits = kind is not bool and abs(each) < LARGEST
            value_text = f"{each}" if abs(each) < LARGEST else f"a number of {each.bit_length()} bits"
        if not fits:
            raise ConfigError(f"{path}: {key} = {value_text}: expected {EXPECTED[kind]}")


def check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: {shorten(ascii(text))} is not UTF-8; rename the file or the name") from None
    if "\0" in text:
        raise ConfigError(f"{where}: {shorten(ascii(text))} holds the character NUL; remove it")


def shorten(text: str) -> str:
    return re.sub(rf"(\S{{{LONGEST}}})\S{{{LONGEST},}}", r"\1…", " ".join(text.split()))
