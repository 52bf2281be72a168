"""The list of commands in the help, and those that have a command for each method or source: `train`, `plan`, `convert`.

A new command of `hpcml` gets its place in COMMANDS: a test tells of one that has none. A method of
`hpcml train` says its group in its entry in `hpcml.methods.registry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from cyclopts import App, Group

from hpcml.commands.operation import command_of
from hpcml.errors import ConfigError, nearest
from hpcml.options import flag_of

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS: dict[str, tuple[str, ...]] = {  # by what a person wants, the most wanted first
    "Start here": ("convert", "tune", "evaluate", "predict", "report"),
    "Data": ("info", "split", "select", "duplicates"),
    "Train": ("train", "retrain"),
    "Judge and decide": ("threshold", "calibrate", "cv"),
    "Use": ("serve", "prune"),
    "Look": ("explain",),
    "Cluster": ("plan", "job", "check", "merge"),
    "This program": ("--help", "--version", "--install-completion"),
}
ABOUT = {
    "train": "Train a model of each label, or one of all classes.",
    "plan": "Say what a training would take, before it is queued.",
    "convert": "Make a dataset from texts or numbers in any usual format.",
}


def family_app(tokens: list[str]) -> App:
    """Return the command at the beginning of a command line, with the command of the method or source that comes next.

    Without one it has the commands of all. Raises ConfigError if the next word is no method, or source.
    """
    name, word = tokens[0], next(iter(tokens[1:2]), "")
    if name == "convert":
        from hpcml.conversion.sources import SOURCES

        what, sections = "SOURCE", {"Texts": True, "Texts or numbers": None, "Numbers": False}
        groups = {title: [each for each, source in SOURCES.items() if source.is_text is kind] for title, kind in sections.items()}
    else:
        from hpcml.methods.registry import GROUPS, METHODS

        what = "METHOD"
        groups = {title: [each for each, method in METHODS.items() if method.group == title] for title in GROUPS}
    every = list(chain.from_iterable(groups.values()))
    if word.startswith("-") and not {"--help", "-h", "--version"} & set(tokens):
        about = f"hpcml {name} says what each is for: {', '.join(every)}"
        raise ConfigError(f"missing {what}: hpcml {name} {what} ...; {about}")
    if word not in every and word and not word.startswith("-"):
        raise ConfigError(f"no {what.lower()} {word!r}; {nearest(word, every, f'hpcml {name} --help')}")

    app = App(name=name, help=ABOUT[name])
    for each in [word] if word in every else every:
        command: Any
        if name == "convert":
            from hpcml.commands.convert import Convert
            from hpcml.conversion.sources import options_class

            command = command_of(Convert, source=each, options=options_class(SOURCES[each].options)())
            app.command(command, name=each, help=f"{SOURCES[each].about}.")
        elif name == "train":
            from hpcml.commands.train import Train

            command = command_of(Train, {"data": METHODS[each].takes}, method=each, options=METHODS[each].options())
            app.command(command, name=each, help=f"{METHODS[each].title}.\n\nTrains into a run folder.")
        else:
            from hpcml.commands.plan import PlanTraining
            from hpcml.planning.options import PlanOptions

            command = command_of(PlanTraining, method=each, wanted=PlanOptions(), options=METHODS[each].options())
            about = f"{METHODS[each].title}.\n\nSays what training would take: memory, disk and time, and the command for it."
            app.command(command, name=each, help=about)
    if word not in every:
        arrange(app, groups)
    return app


def explain(tokens: list[str]) -> None:
    """Raise ConfigError for an option of other methods on a command line of a method."""
    from hpcml.methods.registry import METHODS, method_named, users_of

    method = method_named(tokens[1])
    flags = {flag_of(option): option for each in METHODS.values() for option in each.option_names}
    for token in tokens[2:]:
        given = token.partition("=")[0].removeprefix("--")
        flag = given if given in flags else given.removeprefix("no-")
        if token.startswith("--") and flag in flags and flags[flag] not in method.option_names:
            users = ", ".join(users_of(flags[flag]))
            raise ConfigError(f"--{given} has no effect on {method.name}, it is for {users}; remove it")


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
