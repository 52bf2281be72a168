"""`hpcml train`: a command for each method, and what is wrong about a method on its command line."""

from itertools import chain

from cyclopts import App

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.commands.operation import command_of
from hpcml.commands.train import Train
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, method_named, users_of
from hpcml.options import flag_of


def train_app(is_listed: bool) -> App:
    """Return `hpcml train`, with a command for each method unless it is only listed."""
    app = App(name="train", help="Train a model of each label, or one of all classes.")
    for name, method in () if is_listed else METHODS.items():
        command = command_of(Train, {"data": method.takes}, method=name, options=method.options())
        app.command(command, name=name, help=f"{method.title}.\n\nTrains into a run folder.")
    arrange(app, methods_by_group())
    return app


def explain(tokens: list[str]) -> None:
    """Raise ConfigError for what is wrong about the method on a command line of `hpcml train`."""
    name = next(iter(tokens[1:2]), "")
    if not name or name.startswith("-"):
        raise ConfigError(
            "missing METHOD: hpcml train METHOD DATA --output RUN; hpcml train says what each is for: "
            f"{', '.join(chain.from_iterable(methods_by_group().values()))}"
        )
    method = method_named(name)
    flags = {flag_of(option): option for each in METHODS.values() for option in each.option_names}
    for token in tokens[2:]:
        given = token.partition("=")[0].removeprefix("--")
        flag = given if given in flags else given.removeprefix("no-")
        if token.startswith("--") and flag in flags and flags[flag] not in method.option_names:
            raise ConfigError(f"--{given} has no effect on {name}, it is for {', '.join(users_of(flags[flag]))}; leave it out")
