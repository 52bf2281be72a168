"""Writes `hpcml/__init__.pyi`, in which type checkers and editors find the Python API: `python -m launch.stub`.

A function of a command has its real signature there: one for each method or source, with the options of that
one, or for each type of result. A test compares the file with what the commands declare.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hpcml
from hpcml.commands.operation import PythonParameter, parameters_of

STUB = Path(hpcml.__file__).with_suffix(".pyi")
HEAD = "# Written by `python -m launch.stub`, for type checkers and editors. Do not edit.\n"


def write_default(value: Any) -> str:
    """Return a default as ruff formats it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(write_default, value))}{',' * (len(value) == 1)})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def define(name: str, parameters: Iterable[PythonParameter], result: str, text: str) -> str:
    """Return a function of the stub, a parameter a line."""
    lines, is_positional = [f"def {name}("], True
    for each in parameters:
        if is_positional and each.place == inspect.Parameter.KEYWORD_ONLY:
            lines.append("    *,")
            is_positional = False
        default = "" if each.default is inspect.Parameter.empty else f" = {write_default(each.default)}"
        lines.append(f"    {each.name}: {' | '.join(each.types)}{default},")
    text = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return "\n".join([*lines, f") -> {result}:", f'    """{text.lstrip()}' + ("\n    " if "\n" in text else "") + '"""'])


def overloads(name: str, kind: Any) -> Iterator[str]:
    """Yield the definitions of the function of a command."""
    result, text = kind.execute.__annotations__["return"], inspect.getdoc(kind) or ""
    alike: dict[tuple[PythonParameter, ...], list[str]] = {}
    for family in kind.families():
        alike.setdefault(tuple(each._replace(help="", families=()) for each in parameters_of(kind, family)), []).append(family)
    for (first, *others), families in alike.items():
        chosen = first._replace(types=(f"Literal[{', '.join(map(json.dumps, families))}]",))
        yield define(name, [chosen, *others], result, " ".join(f"{kind.families()[family]}." for family in families))
    for option, special in kind.results.items():
        kept = [each for each in parameters_of(kind) if each.name == option or each.name not in kind.results]
        yield define(name, [required(each) if each.name == option else each for each in kept], special, text)
    if not alike and not kind.results:
        yield define(name, parameters_of(kind), result, text)


def required(option: PythonParameter) -> PythonParameter:
    """Return an option that must be given, and switched on."""
    types = ("Literal[True]",) if option.types == ("bool",) else tuple(name for name in option.types if name != "None")
    return option._replace(types=types, default=inspect.Parameter.empty)


def stub() -> str:
    """Return the text of the stub."""
    public = {name: getattr(hpcml, name) for name in hpcml.__all__ if name != "__version__"}
    made = {name: list(overloads(name, each.kind)) for name, each in public.items() if hasattr(each, "parameters")}
    body = "\n\n".join(f"@overload\n{each}" if len(every) > 1 else each for every in made.values() for each in every)
    modules = {"overload": "typing"}
    for path in {inspect.getfile(PythonParameter), *(inspect.getfile(public[name].kind) for name in made)}:
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
            modules |= {each.name: node.module or "" for each in node.names} if isinstance(node, ast.ImportFrom) else {}
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} & modules.keys()
    lines = [f"from {modules[name]} import {name}" for name in used - public.keys()]
    lines += [f"from {each.__module__} import {name} as {name}" for name, each in public.items() if name not in made]
    names = "".join(f"    {json.dumps(name)},\n" for name in hpcml.__all__)
    return "\n".join([HEAD, *sorted(lines), "", "__version__: str", f"__all__ = [\n{names}]", "", body, ""])


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
