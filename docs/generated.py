"""The parts of the pages that come from the registry of methods: mkdocs calls `on_page_markdown` for every page."""

import re
from dataclasses import Field, fields

from hpcml.methods.registry import METHODS, Method
from hpcml.options import default_of, flag_of, help_of

TABLE = "<!-- table of methods -->"
OPTIONS = re.compile(r"<!-- options of ([\w-]+) -->")


def cell(text: str) -> str:
    """A text in a table."""
    return text.replace("|", "\\|")


def table_of_methods() -> str:
    """A line for each method."""
    lines = ["| method | what it is | minimises | scikit-learn classifier |", "|---|---|---|---|"]
    for name, method in METHODS.items():
        classifier = f"`{method.estimator.partition(':')[2]}`" if method.estimator else ""
        lines.append(f"| `{name}` | {cell(method.about)} | {', '.join(method.losses)} | {classifier} |")
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


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with its tables."""
    markdown = markdown.replace(TABLE, table_of_methods())
    return OPTIONS.sub(lambda found: table_of_options(METHODS[found[1]]), markdown)
