"""Write `hpcml/__init__.pyi`, the Python API for type checkers, editors and `help`: `python -m launch.stub`.

The function of a command gets its real signature: one for each method or source with its options, or one for each type of result.
A definition with all parameters follows, for `help`. A test compares the file with the declarations of the commands.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from cyclopts import Parameter

import hpcml
from hpcml.commands import operation
from hpcml.commands.operation import FLAG_ONLY, RUN_ONLY, STUB, Operation, TrainingOperation
from hpcml.methods.registry import METHODS
from hpcml.options import Or, default_value, option_help

RUN_TYPES = {"comm": "Comm", "log": "Log", "signals": "StopSignals"}
FLAG = re.compile(r"`[^`]*`|--(no-)?([a-z][a-z0-9-]*)")  # a flag in a help text; commands in backticks keep theirs
LITERAL, ITERABLE = re.compile(r"^Literal\[(.*)\]$"), re.compile(r"^Iterable\[(.*)\]$")
RAISES = {
    "ConfigError": "If an option is invalid, or does not apply to the model or the data.",
    "DataError": "If a file is damaged, or cannot be read or written.",
    "NonFiniteError": "If a score, a loss or a gradient is not a finite number.",
}
INTERRUPTED = {"Interrupted": "After a signal or the time limit, when a checkpoint has been written (`resume` continues)."}
HEAD = "# Written by `python -m launch.stub`, for type checkers, editors and `help`. Do not edit.\n# fmt: off\n"


class PythonParameter(NamedTuple):
    """A parameter of a Python function; `families` are the methods or sources with this option."""

    name: str
    kind: Any  # kind of inspect.Parameter
    types: tuple[str, ...]
    default: Any
    help: str
    families: tuple[str, ...] = ()


def list_parameters(kind: Any, *families: str) -> Iterator[PythonParameter]:
    """Yield the parameters of a function, with the options of these families (default: all); `...` if defaults differ."""
    parameters = sorted(list_fields(kind), key=lambda each: (each.kind, each.name in RUN_ONLY))
    for each in parameters:
        if each.name != "options":
            yield each
        elif not kind.families():
            yield from list_fields(kind.options_for({})[0])
        else:
            by_name: dict[str, dict[str, PythonParameter]] = {}
            for family in families or kind.families():
                for option in list_fields(kind.options_for({parameters[0].name: family})[0]):
                    by_name.setdefault(option.name, {})[family] = option
            yield from map(merge_families, by_name.values())


def list_fields(kind: Any) -> Iterator[PythonParameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint, default = field.name, hints[field.name], default_value(field)
        if name in FLAG_ONLY:
            continue
        is_keyword = field.kw_only or not issubclass(kind, Operation)
        kind_of_parameter = inspect.Parameter.KEYWORD_ONLY if is_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        losses = getattr(kind, "losses", ()) if name == "loss" else ()
        types = [RUN_TYPES[name], "None"] if name in RUN_TYPES else name_types(Literal[losses] if losses else hint)
        texts = [each.help for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter) and each.help]
        default = inspect.Parameter.empty if default is MISSING else default
        text = FLAG.sub(name_parameter, texts[0] if texts else option_help(kind)[name])
        yield PythonParameter(name, kind_of_parameter, tuple(types), default, text)


def name_parameter(flag: re.Match[str]) -> str:
    name = "lam" if flag[2] == "lambda" else (flag[2] or "").replace("-", "_")
    return f"`{name}{'=False' if flag[1] else ''}`" if name else flag[0]


def merge_families(option: dict[str, PythonParameter]) -> PythonParameter:
    first, texts = next(iter(option.values())), dict[str, list[str]]()
    for family, each in option.items():
        texts.setdefault(each.help, []).append(family)
    text = " ".join(f"For {', '.join(families)}: {text}" for text, families in texts.items())
    default = first.default if all(each.default == first.default for each in option.values()) else ...
    types = dict.fromkeys(name for each in option.values() for name in each.types)
    return PythonParameter(first.name, first.kind, tuple(types), default, text, tuple(option))


def name_types(hint: Any, *others: str) -> list[str]:
    """Return the names of the types that a function takes: also `str` for a path, and one value for several."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        others = next((each.types for each in hint.__metadata__ if isinstance(each, Or)), ())
        return name_types(parts[0], *others)
    if kind is Literal:
        return [f"Literal[{', '.join(map(json.dumps, parts))}]"]
    if kind is tuple:
        each = name_types(parts[0], *others)
        return [*each, f"Iterable[{' | '.join(each)}]"]
    if parts:
        return [name for part in parts for name in name_types(part, *others)]
    names = {Path: ["Path", "str", *others], str: ["str", *others], NoneType: ["None"]}
    return names.get(hint, [getattr(hint, "__name__", "Any")])


def write_docstring(kind: Any, parameters: Iterable[PythonParameter]) -> str:
    """Return a numpydoc docstring; the docstring of `execute` describes the result."""
    text, returns = inspect.getdoc(kind) or "", inspect.getdoc(kind.execute) or ""
    about, *examples = re.split(r"\n(?=Examples\n)", text)
    lines = [about.rstrip(), "", "Collective over `comm`.", "", "Parameters", "----------"]
    for each in parameters:
        types = [LITERAL.sub(r"{\1}", ITERABLE.sub(r"iterable of \1", name)) for name in each.types]
        default = {inspect.Parameter.empty: "", ...: ", optional"}.get(each.default, f", default {each.default!r}")
        lines += [f"{each.name} : {' or '.join(types)}{default}", textwrap.indent(textwrap.fill(each.help, 96), "    ")]
    lines += ["", "Returns", "-------", kind.execute.__annotations__["return"]]
    lines += textwrap.indent(returns.replace(" Collective over the session.", ""), "    ").splitlines()
    lines += ["", "Raises", "------"]
    for error, reason in (RAISES | (INTERRUPTED if issubclass(kind, TrainingOperation) else {})).items():
        lines += [error, f"    {reason}"]
    return "\n".join([*lines, "", *examples]).rstrip()


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
    text = text.replace("\\", "\\\\")
    end = "\n" if "\n" in text else ""
    return "\n".join([*lines, f") -> {result}:", textwrap.indent(f'"""{text}{end}"""', "    ")])


def working_function(kind: Any, family: str) -> Callable[..., Any]:
    """Return the function that is annotated with the type of the result, which for `train` is that of the method."""
    return METHODS[family].load(METHODS[family].train) if family in METHODS else kind.execute


def result_of(function: Callable[..., Any]) -> str:
    kind = function.__annotations__["return"]
    return kind if isinstance(kind, str) else kind.__name__


def definitions(name: str, kind: Any) -> Iterator[str]:
    """Yield the function of a command; before it one for each of its methods or sources, or of several types of its result."""
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
        yield define(name, [each for each in options if each.types], returned, inspect.getdoc(kind) or "")
    parameters = list(list_parameters(kind))
    yield define(name, parameters, kind.execute.__annotations__["return"], write_docstring(kind, parameters))


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
    kinds = {name: each.kind for name, each in public.items() if inspect.isfunction(each) and hasattr(each, "kind")}
    modules = {"overload": "typing", "TYPE_CHECKING": "typing"} | imports_of(inspect.getfile(operation))
    for kind in kinds.values():
        modules |= {kind.execute.__annotations__["return"]: kind.__module__} | imports_of(inspect.getfile(kind))
        for work in (working_function(kind, family) for family in kind.families()):
            modules |= {each.__name__: each.__module__ for each in [work.__globals__.get(result_of(work))] if each}
    functions = {name: list(definitions(name, kind)) for name, kind in kinds.items()}
    body = "\n\n".join(
        f"@overload\n{each}" if len(every) > 2 else each for every in functions.values() for each in (every[:-1] or every)
    )
    body += "\n\nif not TYPE_CHECKING:  # with all parameters\n"
    body += textwrap.indent("\n\n".join(every[-1] for every in functions.values() if len(every) > 1), "    ")
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} & modules.keys()
    lines = [f"from {modules[name]} import {name}" for name in used - public.keys()]
    lines += [f"from {each.__module__} import {name} as {name}" for name, each in public.items() if name not in kinds]
    names = "".join(f"    {json.dumps(name)},\n" for name in hpcml.__all__)
    return "\n".join([HEAD, *sorted(lines), "", "__version__: str", f"__all__ = [\n{names}]", "", body, ""])


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
