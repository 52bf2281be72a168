"""`hpcml plan`: a command for each method."""

from cyclopts import App

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.commands.operation import command_of
from hpcml.commands.plan import PlanTraining
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, method_named
from hpcml.planning.options import PlanOptions


def plan_app(is_listed: bool) -> App:
    """Return `hpcml plan`, with a command for each method unless it is only listed."""
    app = App(name="plan", help="Say what a training would take, before it is queued.")
    for name, method in () if is_listed else METHODS.items():
        about = f"{method.title}.\n\nSays what training would take: memory, disk and time, and the command for it."
        command = command_of(PlanTraining, method=name, wanted=PlanOptions(), options=method.options())
        app.command(command, name=name, help=about)
    arrange(app, methods_by_group())
    return app


def check_method(tokens: list[str]) -> None:
    """Raise ConfigError if the first word after `hpcml plan` is no method."""
    name = next(iter(tokens[1:2]), "")
    if name.startswith("-") and not {"--help", "-h"} & set(tokens):
        raise ConfigError(f"plan which method? hpcml plan METHOD DATA; methods: {', '.join(METHODS)}")
    if name and not name.startswith("-"):
        method_named(name)
