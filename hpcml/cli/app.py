"""The program `hpcml`. Only the module of the command on the command line is imported."""

import os
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts
from cyclopts import App

from hpcml.cli.config_files import check_text, read_config_files, shorten
from hpcml.cli.families import ABOUT, COMMANDS, arrange, explain_foreign_option, make_family_app
from hpcml.commands.operation import OUTPUT, Operation, TrainingOperation, format_help, import_operation, make_command
from hpcml.errors import ConfigError, OptionError, nearest_name, option_flag, reason_and_hint
from hpcml.log import Log, say
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard

QUIET, VERBOSE, INSTALL = "--quiet", "--verbose", "--install-completion"
HELP = f"""Train many linear and boosted classifiers on large sparse data, with MPI.

{QUIET}: print only results, warnings and errors. {VERBOSE}: print details."""
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
