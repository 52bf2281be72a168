"""The commands `hpcml plan METHOD`, for methods that can be planned, and `hpcml bench machine`."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.cli.session import OUTPUT, Here, ReplaceJson, say_once
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, Method, method_named
from hpcml.options import Flag
from hpcml.planning.options import PlanOptions


def _command(method: Method) -> Callable[..., None]:
    def plan(
        data: Path | None = None,
        /,
        *,
        wanted: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
        options: method.options = method.options(),  # type: ignore[name-defined]  # noqa: B008 - frozen
        json: Path | None = None,
        force: ReplaceJson = False,
        session: Here,
    ) -> None:
        """Say what training would take: memory, disk, messages and hours, and the command for it.

        Parameters
        ----------
        data:
            A dataset made with `hpcml convert`. Without it give --rows, --features and --labels.
        json:
            Write the plan to this file.
        """
        from hpcml.planning.plan import as_json
        from hpcml.planning.plan import plan as work
        from hpcml.planning.report import format_plan, write_json

        if force and json is None:
            raise ConfigError("--force has no effect without --json; leave it out")
        found = work(session.comm, method, data, wanted, options, session.log)
        if json is not None:
            write_json(session.comm, json, as_json(found), force, data)
        say_once(session, format_plan(found))

    return plan


def plan_app(tokens: Collection[str]) -> App:
    """`hpcml plan`; if it is among `tokens`, with a command for each method that can be planned."""
    app = App(name="plan", help="Say what a training would take, before it is queued.")
    for name, method in METHODS.items() if "plan" in tokens else ():
        if method.forecast:
            about = f"{method.title}.\n\nSays what training would take: memory, disk, messages and hours, and the command for it."
            app.command(_command(method), name=name, help=about)
    arrange(app, methods_by_group())
    return app


def check_method(tokens: list[str]) -> None:
    """Raise ConfigError if the first word after `hpcml plan` is no method that can be planned."""
    name = next(iter(tokens[1:2]), "")
    known = [name for name, method in METHODS.items() if method.forecast]
    if name.startswith("-") and not {"--help", "-h"} & set(tokens):
        raise ConfigError(f"plan which method? hpcml plan METHOD DATA; methods: {', '.join(known)}")
    if name and not name.startswith("-") and not method_named(name).forecast:
        raise ConfigError(f"no time model for {name}; there are some for {', '.join(known)}")


def bench_machine(
    *,
    output: Annotated[Path | None, Parameter(name=OUTPUT)] = None,
    folder: Path = Path(),
    quick: Flag = False,
    force: Flag = False,
    session: Here,
) -> None:
    """Measure what `hpcml plan` must know of this machine, with the real kernels, in about a
    minute; with mpirun on all ranks.

    Parameters
    ----------
    output:
        The file to write. Default: machine.json in ~/.cache/hpcml, for `hpcml plan`.
    folder:
        Where runs will lie: its disk is measured, with a file that is removed again.
    quick:
        A few seconds' worth, to try it out: the constants may be wrong by a factor.
    force:
        Replace the file if it exists.
    """
    from hpcml.planning.machine import default_path, write_to
    from hpcml.planning.measure import measure_machine
    from hpcml.planning.report import format_machine

    path = output or default_path()
    found = write_to(session.comm, path, output is None, force, lambda: measure_machine(session.comm, folder, quick, session.log))
    say_once(session, format_machine(found, path))
