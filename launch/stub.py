"""Write `hpcml/__init__.pyi`, the Python API for type checkers and editors: `python -m launch.stub`.

The function of a command gets its real signature: one for each method or source with its options, or one for each type of result. A
test compares the file with the declarations of the commands.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import hpcml
from hpcml.commands.operation import PythonParameter, list_parameters
from hpcml.methods.registry import METHODS

STUB = Path(hpcml.__file__).with_suffix(".pyi")
HEAD = "# Written by `python -m launch.stub`, for type checkers and editors. Do not edit.\n"


def format_default(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(format_default, value))}{',' * (len(value) == 1)})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def define(name: str, parameters: Iterable[PythonParameter], result: str, text: str) -> str:
    lines = [f"def {name}("]
    for each in parameters:
        if each.kind == inspect.Parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = "" if each.default is inspect.Parameter.empty else f" = {format_default(each.default)}"
        lines.append(f"    {each.name}: {' | '.join(each.types)}{default},")
    end = "\n" if "\n" in text else ""
    return "\n".join([*lines, f") -> {result}:", textwrap.indent(f'"""{text}{end}"""', "    ")])


def working_function(kind: Any, family: str) -> Callable[..., Any]:
    """Return the function that is annotated with the type of the result, which for `train` is that of the method."""
    return METHODS[family].load(METHODS[family].train) if family in METHODS else kind.execute


def result_of(function: Callable[..., Any]) -> str:
    kind = function.__annotations__["return"]
    return kind if isinstance(kind, str) else kind.__name__


def definitions(name: str, kind: Any) -> Iterator[str]:
    """Yield the function of a command: several times if it has methods or sources, or results of several types."""
    result, text = kind.execute.__annotations__["return"], inspect.getdoc(kind) or ""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for family in kind.families():
        parameters = [each._replace(help="", families=()) for each in list_parameters(kind, family)]
        returned = result_of(working_function(kind, family))
        alike.setdefault((returned, *parameters), []).append(family)
    for (returned, first, *others), families in alike.items():
        chosen = first._replace(types=(f"Literal[{', '.join(map(json.dumps, families))}]",))
        yield define(name, [chosen, *others], returned, " ".join(f"{kind.families()[family]}." for family in families))
    for option, returned in kind.results.items():
        deciding = kind.results.keys() - ({"comm"} if option not in ("comm", "") else set())  # comm decides what the others leave
        options = [restrict(each, each.name == option) if each.name in deciding else each for each in list_parameters(kind)]
        yield define(name, [each for each in options if each.types], returned, text)
    if not alike and not kind.results:
        yield define(name, list_parameters(kind), result, text)


def restrict(option: PythonParameter, is_given: bool) -> PythonParameter:
    """Return an option that must be given, or that has no other value than its default, if that has a type of its own."""
    if is_given:
        types = ("Literal[True]",) if option.types == ("bool",) else tuple(name for name in option.types if name != "None")
        return option._replace(types=types, default=inspect.Parameter.empty)
    return option._replace(types={None: ("None",), False: ("Literal[False]",)}.get(option.default, ()))


def imports_of(path: str) -> dict[str, str]:
    nodes = [node for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    return {each.name: node.module or "" for node in nodes for each in node.names}


def stub() -> str:
    public = {name: getattr(hpcml, name) for name in hpcml.__all__ if name != "__version__"}
    kinds = {name: each.kind for name, each in public.items() if hasattr(each, "parameters")}
    modules = {"overload": "typing"} | imports_of(inspect.getfile(PythonParameter))
    for kind in kinds.values():
        modules |= imports_of(inspect.getfile(kind))
        for work in (working_function(kind, family) for family in kind.families()):
            modules |= {each.__name__: each.__module__ for each in [work.__globals__.get(result_of(work))] if each}
    functions = {name: list(definitions(name, kind)) for name, kind in kinds.items()}
    body = "\n\n".join(f"@overload\n{each}" if len(every) > 1 else each for every in functions.values() for each in every)
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} & modules.keys()
    lines = [f"from {modules[name]} import {name}" for name in used - public.keys()]
    lines += [f"from {each.__module__} import {name} as {name}" for name, each in public.items() if name not in kinds]
    names = "".join(f"    {json.dumps(name)},\n" for name in hpcml.__all__)
    return "\n".join([HEAD, *sorted(lines), "", "__version__: str", f"__all__ = [\n{names}]", "", body, ""])


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
