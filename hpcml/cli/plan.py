"""`hpcml plan`: a command for each method that can be planned."""

from cyclopts import App

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.commands.operation import command_of
from hpcml.commands.plan import PlanTraining
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, method_named
from hpcml.planning.options import PlanOptions


def plan_app(is_listed: bool) -> App:
    """Return `hpcml plan`, with a command for each method that can be planned unless it is only listed."""
    app = App(name="plan", help="Say what a training would take, before it is queued.")
    for name, method in () if is_listed else METHODS.items():
        if method.forecast:
            about = f"{method.title}.\n\nSays what training would take: memory, disk, messages and hours, and the command for it."
            command = command_of(PlanTraining, method=method, wanted=PlanOptions(), options=method.options())
            app.command(command, name=name, help=about)
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
