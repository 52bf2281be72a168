"""The program `hpcml`. Only the module of the command on the command line is imported.

The commands `train`, `plan` and `convert` have one per method or source. COMMANDS groups all commands; a test checks that none is
missing. The entry of a method in `hpcml.methods.registry` has its group.
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts
from cyclopts import App, Group

from hpcml.cli.config_files import check_text, read_config_files, shorten
from hpcml.commands.operation import OUTPUT, Operation, TrainingOperation, format_help, import_operation, make_command
from hpcml.errors import ConfigError, OptionError, nearest, nearest_name, option_flag, reason_and_hint
from hpcml.log import Log, say
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

    from hpcml import mpi
    from hpcml.cli.guard import Guard

QUIET, VERBOSE, INSTALL = "--quiet", "--verbose", "--install-completion"
HELP = f"""Train many linear and boosted classifiers on large sparse data, with MPI.

{QUIET}: print only results, warnings and errors. {VERBOSE}: print details."""
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
NAMES = [name for names in COMMANDS.values() for name in names if not name.startswith("-")]


def build(*tokens: str) -> App:
    """Return the program with the command of this command line, or with all commands (without options). Raises ConfigError."""
    name = next(iter(tokens), None)
    defaults = cyclopts.Parameter(show_default=lambda value: None if value in (None, (), False) else str(value))
    app = App(name="hpcml", version=format_versions, version_format="plaintext", help=HELP, default_parameter=defaults)
    for each in [name] if name in NAMES else NAMES:
        is_listed = name not in (None, each)
        if each in ABOUT:
            app.command(App(name=each, help=ABOUT[each]) if is_listed else make_family_app([each, *tokens[1:]]))
        else:
            kind = import_operation(each)
            app.command((lambda: None) if is_listed else make_command(kind), name=each, help=format_help(kind))
    if name not in NAMES:
        add_completion(app)
        arrange(app, COMMANDS)
    return app


def run(tokens: list[str], connect: "Callable[[], mpi.Comm]", guard: "Guard | None" = None) -> None:
    """Parse the command line, start MPI with `connect`, and run the command. Raises ConfigError before MPI starts."""
    quiet, verbose = QUIET in tokens, VERBOSE in tokens
    operation = parse(tokens)
    if quiet and verbose and isinstance(operation, Operation) and operation.needs_mpi:
        raise OptionError("verbose", None, "has no effect with", "quiet")
    if not isinstance(operation, Operation):  # help and version need no MPI
        return
    operation.check_options()
    if not operation.needs_mpi:
        say(operation.execute(None), sys.stdout)
        return
    if guard is not None:
        guard.waits = operation.ends_itself
        guard.run = getattr(operation, "output", None) if operation.can_resume() else None
    comm = connect()
    from hpcml.run.session import Session

    session = Session(comm, Log(comm.rank, quiet, verbose=verbose), StopSignals() if guard is None else guard.signals)
    result = operation.execute(session)
    text = operation.format_result(result)
    if isinstance(operation, TrainingOperation):  # also written to the log file of the run
        session.log(text, has_lines=True)
    elif text and comm.rank == 0:
        say(text, sys.stdout)
    operation.finish(session, result)


def parse(tokens: list[str]) -> Any:
    """Return the operation of a command line, or None if help or the version was printed. Raises ConfigError."""
    for token in tokens:
        check_text(token, "the command line")
    if tokens[:1] != ["job"]:  # these flags may belong to the command of the job
        tokens = [token for token in tokens if token not in (QUIET, VERBOSE)]
    name = next(iter(tokens), "")
    if name in ("train", "predict"):  # cyclopts takes a lone - for a flag; Path("./-") is Path("-")
        pairs = zip(["", *tokens], tokens, strict=False)
        tokens = ["./-" if token == "-" and not before.startswith("--") else token for before, token in pairs]
    configurations: list[cyclopts.config.Dict] = []
    if name == "train" and any(token.partition("=")[0] == "--config" for token in tokens):
        tokens, configurations = read_config_files(tokens)
    app = build() if name == INSTALL else build(*tokens) if tokens else build("")
    if configurations:
        app[name].config = configurations
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        if name in ("train", "plan"):
            explain_foreign_option(tokens)
        text, command_line = shorten(str(error)), " ".join(("hpcml", *(error.command_chain or ())))
        if isinstance(error, cyclopts.MissingArgumentError) and error.argument is not None and "?" not in text:
            option = error.keyword or error.argument.name
            raise ConfigError(f"{option}: missing, but required; `{command_line} --help` describes it") from None
        if isinstance(error, cyclopts.UnknownOptionError) and "?" not in text:
            text += f" `{command_line} --help` lists the options."
        raise ConfigError(text) from None
    except OverflowError:
        raise ConfigError("a number on the command line is too large; expected one below 2**63") from None
    operation = command(*bound.args, **bound.kwargs)
    return _add_command(operation) if name == "job" and operation is not None else operation


def _add_command(job: Any) -> Any:
    try:
        return replace(job, operation=parse(list(job.command))) if job.command else job
    except ConfigError as error:
        match = re.match(r"Unknown option: (--[\w-]+)\.(?: Did you mean (--[\w-]+)\?)?", str(error))
        near = nearest_name(match[1], [match[2] or "", *(f"--{option_flag(each.name)}" for each in fields(job))]) if match else None
        raise error if near is None else ConfigError(f"Unknown option: {match[1]}. Did you mean {near}?") from None


def format_versions() -> str:
    """Return the versions of hpcml, Python, the MPI library and the file formats. Does not start MPI."""
    os.environ["MPI4PY_RC_INITIALIZE"] = "0"  # under mpirun only rank 0 prints this
    from hpcml.files.hdf5 import VERSIONS
    from hpcml.mpi import library
    from hpcml.version import version

    formats = ", ".join(f"{name} {VERSIONS[name]}" for name in ("dataset", "model", "classifier"))
    return f"{version()}\nPython {platform.python_version()}\n{library()}\nfile formats: {formats}"


def add_completion(app: App) -> None:
    def install(*, shell: Literal["bash", "fish", "zsh"] | None = None, output: Annotated[Path | None, OUTPUT] = None) -> None:
        """Install tab completion for the shell.

        Parameters
        ----------
        shell:
            Shell to configure. Default: the current one.
        output:
            File for the script. Default: the folder of the shell, with a line in ~/.bashrc or ~/.zshrc that loads it.
        """
        from cyclopts.completion.detect import ShellDetectionError

        try:
            startup = [Path.home() / name for name in (".bashrc", ".zshrc")] if output is None else []
            sizes = {file: file.stat().st_size if file.is_file() else 0 for file in startup}
            path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
        except ShellDetectionError:
            raise ConfigError(f"{INSTALL}: unknown shell; name it with --shell bash, fish or zsh") from None
        except RuntimeError:
            raise ConfigError(f"{INSTALL}: unknown home folder; set HOME, or name a file with --output") from None
        except OSError as error:
            reason, hint = reason_and_hint(error)
            raise ConfigError(f"{INSTALL}: cannot write {error.filename or output}: {reason}{hint}") from None
        grown = [file for file, n in sizes.items() if file.is_file() and file.stat().st_size != n]
        changed = [f"{file}: added a line that loads it" for file in grown]
        say("; ".join([f"{path}: written", *changed, "start a new shell to use it"]), sys.stdout)

    app.command(install, name=INSTALL, show=True)


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
