"""The program `hpcml`: its commands, of which only the one that is asked for is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import BoundArguments
from typing import TYPE_CHECKING, Any

import cyclopts
from cyclopts import App

from hpcml.cli import about
from hpcml.cli.config_files import check_numbers, check_text, config_files, shortened
from hpcml.cli.groups import COMMANDS, arrange
from hpcml.commands.operation import Operation, command_of, help_text
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard

QUIET = "--quiet"
HELP = f"""Train very many linear and boosted classifiers, on large sparse data, with MPI.

With {QUIET} a command says nothing but its result, warnings and errors."""
NAMES = [name for names in COMMANDS.values() for name in names if not name.startswith("-")]


def operation_named(name: str) -> type[Operation[Any]]:
    """Return the class of a command: the one of its module in `hpcml.commands`."""
    module = import_module(f"hpcml.commands.{name}")
    (kind,) = (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)
    return kind


def build(name: str | None = None) -> App:
    """Return the program with the command of this name; with all commands if it is None.

    For another name, the commands are only listed.
    """
    app = App(name="hpcml", version=about.versions, version_format="plaintext", help=HELP)
    for each in [name] if name in NAMES else NAMES:
        add_command(app, each, is_listed=name not in (None, each))
    about.add_completion(app)
    arrange(app, COMMANDS)
    return app


def add_command(app: App, name: str, is_listed: bool) -> None:
    """Add a command to `app`; one that is only listed has its help and no options."""
    if name == "train":
        from hpcml.cli.train import train_app

        app.command(train_app(is_listed))
    elif name == "plan":
        from hpcml.cli.plan import plan_app

        app.command(plan_app(is_listed))
    elif name == "convert":
        from hpcml.cli.convert import convert_app

        app.command(convert_app(is_listed))
    else:
        kind = operation_named(name)
        app.command((lambda: None) if is_listed else command_of(kind), name=name, help=help_text(kind))


def run(tokens: list[str], connect: Callable[[], mpi.Comm], guard: Guard | None = None) -> None:
    """Parse the command line, start MPI with `connect`, run the command; `guard` learns of a run.

    Raises ConfigError for a command line that makes no sense.
    """
    quiet = QUIET in tokens
    command, bound = parsed([token for token in tokens if token != QUIET])
    operation = command(*bound.args, **bound.kwargs)
    if not isinstance(operation, Operation):  # help and version need no MPI
        return
    check_numbers(vars(operation))
    operation.check_options()
    if guard is not None:
        guard.waits = operation.ends_itself
        guard.run = getattr(operation, "output", None) if operation.can_resume() else None
    comm = connect()
    from hpcml.run.session import Session

    session = Session(comm, Log(comm.rank, quiet), StopSignals() if guard is None else guard.signals)
    result = operation.execute(session)
    operation.print_result(session, result)
    operation.finish(session, result)


def parsed(tokens: list[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """Return what makes the operation, and its arguments. Raises ConfigError."""
    for token in tokens:
        check_text(token, "the command line")
    name = next(iter(tokens), "")
    if name in ("train", "predict"):  # standard input or output: as a Path it is "-" again
        pairs = zip(["", *tokens], tokens, strict=False)
        tokens = ["./-" if token == "-" and not before.startswith("--") else token for before, token in pairs]
    if name == "plan":
        from hpcml.cli.plan import check_method

        check_method(tokens)
    app = build(None if name == about.INSTALL else name)
    try:
        if name == "train":
            tokens, app["train"].config = config_files(tokens)
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        return command, bound
    except cyclopts.CycloptsError as error:
        if name == "train":
            from hpcml.cli.train import explain

            explain(tokens)
        if name == "convert" and len(tokens) > 1:
            from hpcml.conversion.sources import source_named

            source_named(tokens[1])
        text = shortened(str(error))
        if isinstance(error, cyclopts.UnknownOptionError) and "?" not in text:
            text += f" `{' '.join(('hpcml', *(error.command_chain or ())))} --help` lists the options."
        raise ConfigError(text) from None
    except OverflowError:
        raise ConfigError("a number on the command line is too large; expected one below 2**63") from None
