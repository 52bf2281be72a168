"""The commands in `hpcml --help`, and the commands `train`, `plan` and `convert`, which have one per method or source.

COMMANDS groups all commands; a test checks that none is missing. The entry of a method in `hpcml.methods.registry` has its group.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from cyclopts import App, Group

from hpcml.commands.operation import import_operation, make_command
from hpcml.errors import ConfigError, nearest
from hpcml.options import option_flag

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS: dict[str, tuple[str, ...]] = {  # the most frequent uses first
    "Get started": ("convert", "tune", "evaluate", "predict", "report"),
    "Data": ("info", "split", "select", "duplicates"),
    "Training": ("train", "retrain"),
    "Evaluation and decisions": ("cv", "threshold", "calibrate", "explain"),
    "Deployment": ("serve", "prune"),
    "Clusters": ("plan", "job", "check", "merge"),
    "Program": ("--help", "--version", "--install-completion"),
}
ABOUT = {
    "train": "Train a classifier for each label, or one for all classes.",
    "plan": "Estimate memory, disk space and time of a training run.",
    "convert": "Convert texts or tables of numbers to a dataset.",
}


def make_family_app(tokens: list[str]) -> App:
    """Return the command with the subcommand of its method or source, or with all of them. Raises ConfigError."""
    name, word = tokens[0], next(iter(tokens[1:2]), "")
    if name == "convert":
        from hpcml.conversion.sources import SOURCES

        what, sections = "SOURCE", {"Texts": True, "Texts or numbers": None, "Numbers": False}
        groups = {title: [each for each, source in SOURCES.items() if source.is_text is kind] for title, kind in sections.items()}
    else:
        from hpcml.methods.registry import GROUPS, METHODS

        what = "METHOD"
        groups = {title: [each for each, method in METHODS.items() if method.group == title] for title in GROUPS}
    names = list(chain.from_iterable(groups.values()))
    if word.startswith("-") and not {"--help", "-h", "--version"} & set(tokens):
        raise ConfigError(f"missing {what}: hpcml {name} {what} ...; `hpcml {name} --help` describes them: {', '.join(names)}")
    if word not in names and word and not word.startswith("-"):
        raise ConfigError(f"no {what.lower()} {word!r}; {nearest(word, names, f'hpcml {name} --help')}")

    app, kind = App(name=name, help=ABOUT[name]), import_operation(name)
    for each in [word] if word in names else names:
        member = {what.lower(): each}
        texts = {"data": METHODS[each].takes} if name == "train" else {}
        command = make_command(kind, texts, **member, options=kind.options_for(member)[0]())
        app.command(command, name=each, help=f"{kind.families()[each]}.\n\n{ABOUT[name]}")
    if word not in names:
        arrange(app, groups)
    return app


def explain_foreign_option(tokens: list[str]) -> None:
    from hpcml.methods.registry import METHODS, method_named, methods_with_option

    method = method_named(tokens[1])
    flags = {option_flag(option): option for each in METHODS.values() for option in each.option_names}
    for token in tokens[2:]:
        name = token.partition("=")[0].removeprefix("--")
        flag = name if name in flags else name.removeprefix("no-")
        if token.startswith("--") and flag in flags and flags[flag] not in method.option_names:
            users = ", ".join(methods_with_option(flags[flag]))
            raise ConfigError(f"--{name} has no effect on {method.name}, only on {users}; remove it")


def arrange(app: App, groups: Mapping[str, Iterable[str]]) -> None:
    """Group the commands of `app`, in this order. Names that it lacks are skipped."""
    formatter = partial(print_group, min(13, max(map(len, app))))
    for position, (title, names) in enumerate(groups.items()):
        group = Group(title, sort_key=position, help_formatter=formatter)
        for order, name in enumerate(names):
            if name in app:
                app[name].group, app[name].sort_key = group, order


def print_group(width: int, console: "Console", _: "ConsoleOptions", panel: "HelpPanel") -> None:
    """Print a group without a frame, so that all groups fit a screen; `width`: minimum width of the names."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(min_width=width + 2, no_wrap=True)
    table.add_column()
    for entry in panel.entries:
        first, *others = entry.all_options
        table.add_row(Text(f"  {first}" + "".join(f" ({name})" for name in others), "cyan"), entry.description)
    console.print(Text(str(panel.title), "bold"), table, sep="\n")
