"""The program `hpcml`: its commands; heavy imports wait until they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import TYPE_CHECKING, Any

import cyclopts
from cyclopts import App

from hpcml.cli import about, data, look, score, study
from hpcml.cli.config_files import check_numbers, config_files, shortened
from hpcml.cli.convert import convert_app
from hpcml.cli.groups import COMMANDS, arrange
from hpcml.cli.plan import check_method, plan_app
from hpcml.cli.serve import serve
from hpcml.cli.train import explain, retrain, train_app, tune
from hpcml.conversion.sources import source_named
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard

QUIET = "--quiet"
HELP = f"""Train very many linear and boosted classifiers, on large sparse data, with MPI.

With {QUIET} a command says nothing but its result, warnings and errors."""


def build(tokens: Sequence[str] = ("convert", "plan")) -> tuple[App, App]:
    """Return the program and its `train`; `convert` and `plan` have their commands only if they are among `tokens`."""
    app, train = App(name="hpcml", version=about.versions, version_format="plaintext", help=HELP), train_app()
    command: Any
    app.command(convert_app(tokens))
    app.command(data.info)
    app.command(data.split)
    app.command(train)
    app.command(tune)
    app.command(retrain)
    app.command(plan_app(tokens))
    looks = (look.explain, look.report, look.duplicates)
    for command in (score.predict, score.evaluate, score.threshold, score.calibrate, score.prune, data.select, *looks):
        app.command(command)
    app.command(serve)
    study.add_commands(app)
    about.add_completion(app)
    arrange(app, COMMANDS)
    return app, train


def run(tokens: list[str], connect: Callable[[], mpi.Comm], guard: Guard | None = None) -> None:
    """Parse the command line, start MPI with `connect`, run the command; `guard` learns of a run.

    Raises ConfigError for a command line that makes no sense.
    """
    quiet = QUIET in tokens
    command, bound, given = parsed([token for token in tokens if token != QUIET])
    check_numbers(bound.arguments)
    more: dict[str, Any] = {}
    if "session" in given:  # help and version need no MPI
        signals = StopSignals() if guard is None else guard.signals
        if guard is not None and getattr(command, "resumable", False):  # it looks at signals
            guard.run = bound.arguments.get("output")
        if guard is not None:
            guard.waits = hasattr(command, "ends_itself")
        comm = connect()
        from hpcml.run.session import Session

        more["session"] = Session(comm, Log(comm.rank, quiet), signals)
    command(*bound.args, **bound.kwargs, **more)


def parsed(tokens: list[str]) -> tuple[Callable[..., Any], BoundArguments, dict[str, Any]]:
    """The command, its arguments, and those that it is given later. Raises ConfigError."""
    if tokens[:1] in (["train"], ["predict"]):  # standard input or output: as a Path it is "-" again
        pairs = zip(["", *tokens], tokens, strict=False)
        tokens = ["./-" if token == "-" and not before.startswith("--") else token for before, token in pairs]
    if tokens[:1] == ["plan"]:
        check_method(tokens)
    app, train = build() if about.INSTALL in tokens[:1] else build(tokens)
    try:
        tokens, train.config = config_files(tokens)
        return app.parse_args(tokens, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        if tokens[:1] == ["train"]:
            explain(tokens)
        if tokens[:1] == ["convert"] and len(tokens) > 1:
            source_named(tokens[1])
        text = shortened(str(error))
        if isinstance(error, cyclopts.UnknownOptionError) and "?" not in text:
            text += f" `{' '.join(('hpcml', *(error.command_chain or ())))} --help` lists the options."
        raise ConfigError(text) from None
    except OverflowError:
        raise ConfigError("a number on the command line is too large; expected one below 2**63") from None
