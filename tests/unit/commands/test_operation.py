"""A command is one class: its fields are flags, parameters and documentation, and options without effect are rejected."""

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
from hpcml.cli.app import ABOUT
from hpcml.commands.operation import OUTPUT, Operation, PathLike, Strings, make_command, make_function
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
    """Eagerness, from 1 to 9 (see --how)."""
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
        """A text."""
        self.check_options("a dataset")
        return f"{self.data} {self.output} {self.zeal} {','.join(self.label)} {self.how}"


toy = make_function(Toy, "toy")


def parse(*tokens):
    app = App(name="hpcml")
    app.command(make_command(Toy), name="toy")
    command, bound, _ = app.parse_args(["toy", *tokens], exit_on_error=False, print_error=False)
    return command(*bound.args, **bound.kwargs)


def test_field_is_flag_parameter_and_documentation(capsys):
    operation = parse("data.h5", "-o", "out.h5", "--zeal", "3", "--label", "a", "b", "--how", "slow")
    assert operation == Toy(Path("data.h5"), Path("out.h5"), zeal=3, label=("a", "b"), how="slow")
    assert operation() == toy("data.h5", "out.h5", zeal=3, label=["a", "b"], how="slow") == "data.h5 out.h5 3 a,b slow"
    assert toy(data="data.h5", output="out.h5", label="a", comm=mpi.self_comm()) == "data.h5 out.h5 None a fast"
    assert list(inspect.signature(toy).parameters)[:3] == ["data", "output", "zeal"] and toy.__name__ == "toy"
    assert "zeal : int or None, default None\n    Eagerness, from 1 to 9 (see `how`).\n" in toy.__doc__
    assert "Returns\n-------\nstr\n    A text.\n" in toy.__doc__ and ">>> hpcml.toy(" in toy.__doc__
    app = App(name="hpcml")
    app.command(make_command(Toy), name="toy")
    app(["toy", "--help"], result_action="return_value")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Eagerness, from 1 to 9 (see --how)." in shown and "Play with data." in shown
    assert "Examples" not in shown and "comm" not in shown


@pytest.mark.parametrize(
    ("options", "flags", "parameters"),
    [
        ({"zeal": 0}, "--zeal 0: expected at least 1", "zeal=0: expected at least 1"),
        ({"zeal": 10}, "--zeal 10: expected at most 9", "zeal=10: expected at most 9"),
        ({"force": True}, "--force: has no effect without --report", "force=True: has no effect without report"),
        (
            {"report": Path("a"), "quietly": True},
            "--quietly: has no effect with --report",
            "quietly=True: has no effect with report",
        ),
        ({"indices": True}, "--indices: applies only to text", "indices=True: applies only to text"),
    ],
)
def test_rejects_an_option_without_effect_by_its_name_there(options, flags, parameters):
    operation = Toy(Path("a"), Path("b"), **options)
    with pytest.raises(OptionError, match=f"^{flags}"):
        operation.check_options()
        operation.execute(None)
    with pytest.raises(OptionError, match=f"^{parameters}"):
        toy("a", "b", **options)


def test_rejects_a_wrong_call():
    for options in ({"zeel": 3}, {"how": "later"}, {"zeal": "3"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            toy("a", "b", **options)
    for call in (lambda: toy("a"), lambda: toy("a", "b", "c"), lambda: toy("a", "b", data="c"), lambda: hpcml.convert(output="c")):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("name", cli.NAMES)
def test_builds_only_the_command_of_the_command_line(name):
    app = cli.build(name)
    assert [each for each in app if not each.startswith("-")] == [name]
    assert issubclass(cli.import_operation(name), Operation)
    if name in ABOUT:
        member = "csv" if name == "convert" else "dual"
        assert [each for each in cli.build(name, member)[name] if not each.startswith("-")] == [member]
        assert len(list(app[name])) > 15


@dataclass(frozen=True)
class Bounds:
    share: Annotated[float | None, Between(0, 1)] = None
    size: Annotated[float, Range(0)] = 1.0
    offset: Annotated[float, Range(-math.inf)] = 0.0
    several: Annotated[tuple[float, ...], Between(2)] = ()
    kind: Annotated[Literal["a", "b", "c"] | None, NotWith("size")] = None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"share": 0.0}, "--share 0.0: "),
        ({"share": 1.0}, "--share 1.0: "),
        ({"share": math.nan}, "--share nan: "),
        ({"share": 1e-9, "size": 0, "several": (2.1, 3.0)}, ""),
        ({"size": -1}, "--size -1: "),
        ({"size": math.inf}, "--size inf: "),
        ({"offset": math.nan}, "--offset nan: "),
        ({"offset": -1e300}, ""),
        ({"several": (3.0, 2.0)}, "--several 2.0: "),
        ({"kind": "d"}, "--kind d: "),
        ({"kind": "c"}, ""),
    ],
)
def test_rejects_values_outside_of_bounds_and_choices(options, error):
    with pytest.raises(OptionError, match=f"^{re.escape(error)}") if error else nullcontext():
        check_rules(Bounds(**options))
