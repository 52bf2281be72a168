"""Generate the parts of the pages that come from the code, and the line with readers and reading time.

mkdocs calls `on_page_markdown` for every page.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Iterator
from dataclasses import Field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cyclopts import App
from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
from rich.console import Console, ConsoleOptions

import hpcml
from hpcml import errors
from hpcml.cli import app as program
from hpcml.methods.method import SUPPORT, Method
from hpcml.methods.registry import METHODS
from hpcml.options import default_value, option_flag, option_help

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

READER = re.compile(r"^<!-- for: (.+) -->$", re.MULTILINE)
OPTIONS = re.compile(r"<!-- options of ([\w-]+) -->")
WORDS_A_MINUTE = 200
FOLDED = re.compile(r"<details.*?</details>", re.DOTALL)  # not part of the reading time


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table_of_methods() -> str:
    lines = ["| method | what it is | minimises | scikit-learn classifier | can |", "|---|---|---|---|---|"]
    for name, method in METHODS.items():
        can = [text for feature, text in SUPPORT.items() if feature in method.supports]
        classifier = f"`{method.estimator.partition(':')[2]}`" if method.estimator else ""
        lines.append(f"| `{name}` | {cell(method.about)} | {', '.join(method.losses)} | {classifier} | {', '.join(can)} |")
    return "\n".join(lines)


def format_option_default(option: Field) -> str:
    """Return the default of an option, or an empty text if its help states the default."""
    value = default_value(option)
    if value is None or value is False or value == ():
        return ""
    return f"`{'on' if value is True else ' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def flag(option: Field) -> str:
    name = option_flag(option.name)
    return f"`--no-{name}`" if "--no-" in repr(option.type) else f"`--{name}`"


def table_of_options(method: Method) -> str:
    lines = ["| option | default | what it does |", "|---|---|---|"]
    texts = option_help(method.options)
    lines += [
        f"| {flag(option)} | {format_option_default(option)} | {cell(texts[option.name])} |" for option in fields(method.options)
    ]
    return "\n".join(lines)


def classifiers() -> str:
    paths, lines = dict.fromkeys(method.estimator for method in METHODS.values() if method.estimator), list[str]()
    for path in paths:
        module, _, name = path.partition(":")
        described = getattr(import_module(module), name).described
        lines += [f"::: {module}.{name}", "", "| parameter | type | what it is |", "|---|---|---|"]
        lines += [f"| `{parameter}` | {cell(kind)} | {cell(text)} |" for parameter, kind, text in described] + [""]
    return "\n".join(lines)


def functions() -> str:
    """Return the reference of each public function; that of a command is generated from its class."""
    public = {name: getattr(hpcml, name) for name in hpcml.__all__ if name.islower() and not name.startswith("_")}
    return "\n\n".join(
        reference(name, function) if hasattr(function, "kind") else f"::: {function.__module__}.{name}"
        for name, function in public.items()
    )


def reference(name: str, function: Any) -> str:
    """Return the reference of a command's function: its docstring and a table of its parameters."""
    about, _, rest = function.__doc__.partition("\nParameters\n----------\n")
    _, _, rest = rest.partition("\n\nReturns\n")
    required = [each.name for each in function.parameters if each.default is inspect.Parameter.empty]
    lines = [f"### hpcml.{name}({', '.join(required)}, …)", "", about, "", "| parameter | default | what it is |", "|---|---|---|"]
    for each in function.parameters:
        default = "required" if each.name in required else f"`{each.default!r}`"
        lines += [] if each.families else [f"| `{each.name}` | {default} | {cell(each.help)} |"]
    if function.kind.families():
        lines.append(f"| `**options` | | {option_help(function.kind)['options']} |")
    returns, _, rest = rest.partition("\n\nRaises\n")
    kind, *returned = returns.splitlines()[1:]
    raises, _, example = rest.partition("\n\nExamples\n--------\n")
    errors, reasons = raises.splitlines()[1::2], raises.splitlines()[2::2]
    lines += ["", f"Returns `{kind}`: {' '.join(map(str.strip, returned))}", ""]
    lines += [f"Raises `{error}`: {reason.strip()}" for error, reason in zip(errors, reasons, strict=True)]
    return "\n".join([*lines, "", *(["```python", example, "```"] if example else [])])


def table_of_errors() -> str:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HpcmlError)]
    lines = ["| error | exit code | what |", "|---|---|---|"]
    lines += [f"| `{kind.__name__}` | {kind.exit_code} | {cell((kind.__doc__ or '').splitlines()[0])} |" for kind in kinds]
    return "\n".join(lines)


class Panels(DefaultFormatter):
    """Collects the panels of a help text instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[HelpEntry] = []

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        self.entries += panel.entries if panel.format == "parameter" else []


def list_commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Yield every command with its words; `convert` is one command, methods of `train` and `plan` are none."""
    for name in app:
        if name.startswith("-"):
            continue
        if app[name].default_command is None and name not in ("train", "plan"):
            yield from [((*path, name), app[name])] if name == "convert" else []
            yield from list_commands(app[name], (*path, name))
        else:
            yield (*path, name), app[name]


def format_entry(entry: HelpEntry) -> str:
    name = " ".join(f"`{flag}`" for flag in entry.all_options) or f"`{entry.positional_label}`"
    text = getattr(entry.description, "primary_renderable", None)
    default = "required" if entry.required else "" if entry.default in (None, "False", "()") else f"`{entry.default}`"
    return f"| {name} | {cell(default)} | {cell(' '.join(getattr(text, 'markup', '').split()))} |"


def commands() -> str:
    app, lines = program.build(), list[str]()
    for path, command in list_commands(app):
        lines += [f"## {' '.join(path)}", "", " ".join(re.split(r"\n\s*Parameters\n", str(command.help))[0].split()), ""]
        if command.default_command is None:
            methods = ", ".join(f"`{name}`" for name in command if not name.startswith("-"))
            what = "SOURCE" if path == ("convert",) else "METHOD"
            lines += [f"`hpcml {' '.join(path)} {what}`, where {what} is {methods}.", ""]
            continue
        command.help_formatter = panels = Panels()
        app.help_print(list(path), console=Console(file=io.StringIO()))
        lines += ["| option | default | what it does |", "|---|---|---|", *map(format_entry, panels.entries), ""]
    return "\n".join(lines)


def words(text: str) -> int:
    """Return the number of words of a page: sequences without spaces that contain a letter or a digit, also in tables and code."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def add_reader_line(markdown: str) -> str:
    """Add a line with the readers and the reading time below the title, from `<!-- for: … -->`."""
    minutes = -(-words(FOLDED.sub("", markdown)) // WORDS_A_MINUTE)
    return READER.sub(lambda match: f"*For {match[1]}. {minutes} minute{'s' * (minutes > 1)} to read.*", markdown, count=1)


GENERATED_PARTS = {
    "<!-- table of methods -->": table_of_methods,
    "<!-- classifiers -->": classifiers,
    "<!-- commands -->": commands,
    "<!-- functions -->": functions,
    "<!-- table of errors -->": table_of_errors,
}


def on_page_markdown(markdown: str, page: Page | None = None, **_: object) -> str:
    markdown = add_reader_line(markdown)
    for mark, make in GENERATED_PARTS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return OPTIONS.sub(lambda match: table_of_options(METHODS[match[1]]), markdown)
