"""The program `hpcml`. Only the module of the command on the command line is imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import cyclopts
from cyclopts import App

from hpcml.cli import about
from hpcml.cli.config_files import check_text, read_config_files, shorten
from hpcml.cli.families import ABOUT, COMMANDS, arrange, explain_foreign_option, import_operation, make_family_app
from hpcml.commands.operation import Operation, TrainingOperation, format_help, make_command
from hpcml.errors import ConfigError, OptionError, nearest_name, option_flag
from hpcml.log import Log, say
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard

QUIET, VERBOSE = "--quiet", "--verbose"
HELP = f"""Train many linear and boosted classifiers on large sparse data, with MPI.

{QUIET}: print only results, warnings and errors. {VERBOSE}: print details."""
NAMES = [name for names in COMMANDS.values() for name in names if not name.startswith("-")]


def build(*tokens: str) -> App:
    """Return the program with the command of this command line, or with all commands if there are no tokens.

    For an unknown command, all commands are listed with their help and without options. Raises ConfigError.
    """
    name = next(iter(tokens), None)
    defaults = cyclopts.Parameter(show_default=lambda value: None if value in (None, (), False) else str(value))
    app = App(name="hpcml", version=about.format_versions, version_format="plaintext", help=HELP, default_parameter=defaults)
    for each in [name] if name in NAMES else NAMES:
        is_listed = name not in (None, each)
        if each in ABOUT:
            app.command(App(name=each, help=ABOUT[each]) if is_listed else make_family_app([each, *tokens[1:]]))
        else:
            kind = import_operation(each)
            app.command((lambda: None) if is_listed else make_command(kind), name=each, help=format_help(kind))
    if name not in NAMES:
        about.add_completion(app)
        arrange(app, COMMANDS)
    return app


def run(tokens: list[str], connect: Callable[[], mpi.Comm], guard: Guard | None = None) -> None:
    """Parse the command line, start MPI with `connect`, and run the command; `guard` gets the run folder.

    Raises ConfigError for an invalid command line, before MPI starts.
    """
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
    app = build() if name == about.INSTALL else build(*tokens) if tokens else build("")
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
            if name == "predict" and {"--labels", "--probabilities"} & set(tokens):
                text += " predict writes labels above their thresholds by default; see --all-scores and --top."
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
