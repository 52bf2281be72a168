"""The commands `hpcml plan METHOD`."""

from collections.abc import Callable, Collection
from pathlib import Path

from cyclopts import App

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.cli.session import Here, ReplaceJson, say_once
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, Method, method_named
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
        """Say what training would take: memory, disk and time, and the command for it.

        Parameters
        ----------
        data:
            A dataset made with `hpcml convert`. Without it give --rows, --features and --labels; then the time stays unknown.
        json:
            Write the plan to this file.
        """
        from hpcml.planning.plan import as_json
        from hpcml.planning.plan import plan as work
        from hpcml.planning.report import format_plan, write_json

        if force and json is None:
            raise ConfigError("--force has no effect without --json; leave it out")
        found = work(session, method, data, wanted, options)
        if json is not None:
            write_json(session.comm, json, as_json(found), force, data)
        say_once(session, format_plan(found))

    return plan


def plan_app(tokens: Collection[str]) -> App:
    """`hpcml plan`; if it is among `tokens`, with a command for each method."""
    app = App(name="plan", help="Say what a training would take, before it is queued.")
    for name, method in METHODS.items() if "plan" in tokens else ():
        about = f"{method.title}.\n\nSays what training would take: memory, disk and time, and the command for it."
        app.command(_command(method), name=name, help=about)
    arrange(app, methods_by_group())
    return app


def check_method(tokens: list[str]) -> None:
    """Raise ConfigError if the first word after `hpcml plan` is no method."""
    name = next(iter(tokens[1:2]), "")
    if name.startswith("-") and not {"--help", "-h"} & set(tokens):
        raise ConfigError(f"plan which method? hpcml plan METHOD DATA; methods: {', '.join(METHODS)}")
    if name and not name.startswith("-"):
        method_named(name)
