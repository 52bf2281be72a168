"""How the help lists commands: in groups, by what a person wants, the most wanted first.

A new command of `hpcml` gets its place in COMMANDS: a test tells of one that has none. A method of
`hpcml train` says its group in its entry in `hpcml.methods.registry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from cyclopts import App, Group

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS: dict[str, tuple[str, ...]] = {
    "Start here": ("convert", "tune", "evaluate", "predict", "report"),
    "Data": ("info", "split", "select", "duplicates"),
    "Train": ("train", "retrain"),
    "Judge and decide": ("threshold", "calibrate", "cv"),
    "Use": ("serve", "prune"),
    "Look": ("explain",),
    "Cluster": ("plan", "check", "merge"),
    "This program": ("--help", "--version", "--install-completion"),
}


def arrange(app: App, groups: Mapping[str, Iterable[str]]) -> None:
    """Put commands of `app` into groups, in this order; those that it lacks are passed over."""
    as_list = partial(print_list, min(13, max(map(len, app))))
    for place, (title, names) in enumerate(groups.items()):
        group = Group(title, sort_key=place, help_formatter=as_list)
        for order, name in enumerate(names):
            if name in app:
                app[name].group, app[name].sort_key = group, order


def print_list(width: int, console: Console, _: ConsoleOptions, panel: HelpPanel) -> None:
    """Print a group without a frame, so that all fit a screen; names have `width`, or more."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(min_width=width + 2, no_wrap=True)
    table.add_column()
    for entry in panel.entries:
        first, *others = entry.all_options
        table.add_row(Text(f"  {first}" + "".join(f" ({name})" for name in others), "cyan"), entry.description)
    console.print(Text(str(panel.title), "bold"), table, sep="\n")
