"""The parts of the pages that come from the registry of methods: mkdocs calls `on_page_markdown` for every page."""

import re
from dataclasses import Field, fields
from importlib import import_module

from hpcml.methods.registry import METHODS, Can, Method
from hpcml.options import default_of, flag_of, help_of, texts_behind

TABLE = "<!-- table of methods -->"
CLASSIFIERS = "<!-- classifiers -->"
OPTIONS = re.compile(r"<!-- options of ([\w-]+) -->")


def cell(text: str) -> str:
    """A text in a table."""
    return text.replace("|", "\\|")


def table_of_methods() -> str:
    """A line for each method."""
    lines = ["| method | what it is | minimises | scikit-learn classifier | can |", "|---|---|---|---|---|"]
    texts = texts_behind(Can)
    for name, method in METHODS.items():
        can = [text for what, text in texts.items() if getattr(method.can, what)] + ["`hpcml plan`"] * bool(method.forecast)
        classifier = f"`{method.estimator.partition(':')[2]}`" if method.estimator else ""
        lines.append(f"| `{name}` | {cell(method.about)} | {', '.join(method.losses)} | {classifier} | {', '.join(can)} |")
    return "\n".join(lines)


def shown_default(option: Field) -> str:
    """The value of an option that nobody gives, unless its help says that."""
    value = default_of(option)
    if value is None or value is False or value == ():
        return ""
    return f"`{'on' if value is True else ' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def flag(option: Field) -> str:
    """As it is written on the command line."""
    name = flag_of(option.name)
    return f"`--no-{name}`" if "--no-" in repr(option.type) else f"`--{name}`"


def table_of_options(method: Method) -> str:
    """A line for each option of the method."""
    lines = ["| option | default | what it does |", "|---|---|---|"]
    texts = help_of(method.options)
    lines += [f"| {flag(option)} | {shown_default(option)} | {cell(texts[option.name])} |" for option in fields(method.options)]
    return "\n".join(lines)


def classifiers() -> str:
    """The reference of each classifier, with a table of its parameters, which are known when it is imported."""
    found, lines = dict.fromkeys(method.estimator for method in METHODS.values() if method.estimator), list[str]()
    for path in found:
        module, _, name = path.partition(":")
        described = getattr(import_module(module), name).described
        lines += [f"::: {module}.{name}", "", "| parameter | type | what it is |", "|---|---|---|"]
        lines += [f"| `{parameter}` | {cell(kind)} | {cell(text)} |" for parameter, kind, text in described] + [""]
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with its tables."""
    markdown = markdown.replace(TABLE, table_of_methods()).replace(CLASSIFIERS, classifiers())
    return OPTIONS.sub(lambda found: table_of_options(METHODS[found[1]]), markdown)
