"""A command is one class: its fields are flags, parameters and documentation, and an option without effect is refused."""

from __future__ import annotations

import inspect
import math
import re
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from cyclopts import App

import hpcml
from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.cli.families import ABOUT
from hpcml.commands.operation import OUTPUT, Operation, PathLike, Strings, command_of, function
from hpcml.errors import ConfigError, OptionError
from hpcml.options import Between, Flag, NotWith, Only, Range, Several, check_rules


@dataclass(frozen=True)
class Toy(Operation[str]):
    """Play with data.

    Examples
    --------
    >>> hpcml.toy("data.h5", "out.h5")
    """

    data: PathLike
    """Data to play with."""
    output: Annotated[PathLike, OUTPUT]
    """File to make."""
    _: KW_ONLY
    zeal: Annotated[int | None, Range(1, 9)] = None
    """Eagerness, from 1 to 9."""
    label: Annotated[Strings, Several] = ()
    """Labels."""
    how: Literal["fast", "slow"] = "fast"
    """Speed."""
    report: PathLike | None = None
    """File of the report."""
    quietly: Annotated[Flag, NotWith("report")] = False
    """Make no report."""
    indices: Annotated[Flag, Only("text")] = False
    """Indices of the text."""
    force: Annotated[Flag, Only("report")] = False
    """Replace the report."""

    def execute(self, session) -> str:
        """What was played, a text."""
        self.check_options("a dataset")
        return f"{self.data} {self.output} {self.zeal} {','.join(self.label)} {self.how}"


toy = function(Toy, "toy")


def parse(*tokens):
    """The operation of a command line."""
    app = App(name="hpcml")
    app.command(command_of(Toy), name="toy")
    command, bound, _ = app.parse_args(["toy", *tokens], exit_on_error=False, print_error=False)
    return command(*bound.args, **bound.kwargs)


def test_one_field_is_a_flag_a_parameter_and_documentation(capsys):
    said = "data.h5 out.h5 3 a,b slow"
    operation = parse("data.h5", "-o", "out.h5", "--zeal", "3", "--label", "a", "b", "--how", "slow")
    assert operation == Toy(Path("data.h5"), Path("out.h5"), zeal=3, label=("a", "b"), how="slow")
    assert operation() == toy("data.h5", "out.h5", zeal=3, label=["a", "b"], how="slow") == said
    assert toy(data="data.h5", output="out.h5", label="a", comm=mpi.self_comm()) == "data.h5 out.h5 None a fast"
    assert list(inspect.signature(toy).parameters)[:3] == ["data", "output", "zeal"] and toy.__name__ == "toy"
    assert "zeal\n    Eagerness, from 1 to 9.\n" in toy.__doc__ and "Returns\n-------\n" in toy.__doc__
    app = App(name="hpcml")
    app.command(command_of(Toy), name="toy")
    app(["toy", "--help"], result_action="return_value")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Eagerness, from 1 to 9." in shown and "Play with data." in shown and "Examples" not in shown and "comm" not in shown


@pytest.mark.parametrize(
    ("given", "flags", "parameters"),
    [
        ({"zeal": 0}, "--zeal 0: expected at least 1", "zeal=0: expected at least 1"),
        ({"zeal": 10}, "--zeal 10: expected at most 9", "zeal=10: expected at most 9"),
        (
            {"force": True},
            "--force: has no effect without --report; remove it",
            "force=True: has no effect without report; remove it",
        ),
        (
            {"report": Path("a"), "quietly": True},
            "--quietly: has no effect with --report; remove it",
            "quietly=True: has no effect with report; remove it",
        ),
        ({"indices": True}, "--indices: applies only to text; remove it", "indices=True: applies only to text; remove it"),
    ],
)
def test_an_option_without_effect_is_refused(given, flags, parameters):
    operation = Toy(Path("a"), Path("b"), **given)
    with pytest.raises(OptionError) as error:
        operation.check_options()
        operation.execute(None)
    assert str(error.value) == flags
    with pytest.raises(OptionError) as error:
        toy("a", "b", **given)
    assert str(error.value) == parameters


def test_python_says_what_is_wrong_with_a_call():
    with pytest.raises(ConfigError, match="toy has no option 'zeel'; did you mean 'zeal'"):
        toy("a", "b", zeel=3)
    with pytest.raises(ConfigError, match="how=later: expected fast or slow"):
        toy("a", "b", how="later")
    with pytest.raises(ConfigError, match="zeal='3': expected a number"):
        toy("a", "b", zeal="3")
    for call in (lambda: toy("a"), lambda: toy("a", "b", "c"), lambda: toy("a", "b", data="c"), lambda: hpcml.convert(output="c")):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("name", cli.NAMES)
def test_only_the_command_that_is_asked_for_is_made(name):
    app = cli.build(name)
    assert [each for each in app if not each.startswith("-")] == [name]
    if name not in ABOUT:
        assert issubclass(cli.operation_named(name), Operation)
    else:
        member = "csv" if name == "convert" else "dual"
        assert [each for each in cli.build(name, member)[name] if not each.startswith("-")] == [member] and len(
            list(app[name])
        ) > 15


@dataclass(frozen=True)
class Bounds:
    """Options with bounds."""

    share: Annotated[float | None, Between(0, 1)] = None
    size: Annotated[float, Range(0)] = 1.0
    offset: Annotated[float, Range(-math.inf)] = 0.0
    several: Annotated[tuple[float, ...], Between(2)] = ()
    kind: Annotated[Literal["a", "b", "c"] | None, NotWith("size")] = None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"share": 0.0}, "--share 0.0: expected a number between 0 and 1"),
        ({"share": 1.0}, "--share 1.0: expected a number between 0 and 1"),
        ({"share": math.nan}, "--share nan: expected a number between 0 and 1"),
        ({"share": 1e-9, "size": 0, "several": (2.1, 3.0)}, ""),
        ({"size": -1}, "--size -1: expected at least 0"),
        ({"size": math.inf}, "--size inf: expected a finite number of at least 0"),
        ({"offset": math.nan}, "--offset nan: expected a finite number"),
        ({"offset": -1e300}, ""),
        ({"several": (3.0, 2.0)}, "--several 2.0: expected a number above 2"),
        ({"kind": "d"}, "--kind d: expected a, b or c"),
        ({"kind": "c"}, ""),
    ],
)
def test_bounds_and_choices(given, text):
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$") if text else nullcontext():
        check_rules(Bounds(**given))
