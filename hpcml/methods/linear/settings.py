"""Options that differ between the labels of a run: λ, λ₁ and the weight of positive rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.kernels.lanes import WIDTHS
from hpcml.methods.linear.objective import Risk, parse_lambda
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import Turns, lanes_of, turns_of, warm_up
from hpcml.run.driver import Job
from hpcml.run.stop import Stop

Setting = dict[str, float]  # the value of each option that may differ


class Axis(NamedTuple):
    """An option that can be chosen for each label, by trying values."""

    option: str
    values: tuple[float, ...]  # that are tried at first, ascending; times the option's own value, if `base` is given
    step: float  # a further value is so many times the first or the last one
    base: Callable[[CompactRows, Any], float] | None = None  # the option's own value for some rows
    least: float = 0.0  # no further value is below


TENFOLD_STEP = math.sqrt(10.0)
TENFOLD = 0.1, 0.316, 1.0, 3.162, 10.0  # from a tenth to ten times
LAMBDA = Axis("lam", TENFOLD, TENFOLD_STEP, lambda rows, options: parse_lambda(options.lam, rows.scale, rows.n_global))


class Fitted(NamedTuple):
    """Weights of lanes: places (k) of labels among those asked for, and settings (k); −1: none."""

    places: np.ndarray
    settings: np.ndarray
    w: np.ndarray  # (n_columns width) flat
    width: int
    intercepts: np.ndarray  # that are no column


def at_setting(options: Any, setting: Setting) -> Any:
    """The options with a setting's values."""
    return replace(options, **{name: repr(float(value)) for name, value in setting.items()})


class Chosen(NamedTuple):
    """The choice for a run: settings[which[l]] for label l, and what else the model says."""

    settings: list[Setting]
    which: np.ndarray  # (n_labels)
    columns: dict[str, np.ndarray]  # (n_labels) float64 each, by the name of the model's column
    about: dict[str, Any]  # attributes of the model
    seconds: float  # that were spent on it


class OneByOne:
    """The path of a method that has none of its own: it solves setting after setting. Local."""

    def __init__(self, method: Any, risk: Risk, settings: Sequence[Setting], options: LinearOptions, n_lanes: int) -> None:
        """Raises ConfigError for a setting that makes no sense."""
        self.method, self.n_lanes = method, n_lanes
        self.options = [at_setting(options, setting) for setting in settings]
        self.risks = [risk.at(each) for each in self.options]

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        warm_up(self.method.solver, self.risks[0], self.options[0])

    def fit(self, labels: np.ndarray, stop: Stop) -> Iterator[Fitted]:
        """The weights of the labels at all settings. Raises what `Solver.solve` does."""
        for number, (risk, options) in enumerate(zip(self.risks, self.options, strict=True)):
            n_positive = risk.rows.n_positive[labels]
            some = np.flatnonzero((n_positive > 0) & (n_positive < risk.rows.n_global)).tolist()
            for finished in self.method.solver(risk, labels, self.n_lanes, options).solve(some, stop):
                for first in range(0, len(finished), WIDTHS[-1]):
                    done = finished[first : first + WIDTHS[-1]]
                    w, width, intercepts = lanes_of(done, risk.rows.n_columns)
                    places = np.array([label.label for label in done])
                    yield Fitted(places, np.full(len(done), number), w.astype(np.float32, copy=False), width, intercepts)


def solve_by_setting(
    method: Any,
    risk: Risk,
    labels: np.ndarray,
    n_lanes: int,
    options: LinearOptions,
    chosen: Chosen,
    places: Sequence[int],
    stop: Stop,
    sink: Job,
) -> Turns:
    """Collective over the group; see `Solver.solve`. Train the labels at `places`, setting by setting."""
    for number, setting in enumerate(chosen.settings):
        if here := [place for place in places if chosen.which[place] == number]:
            at = at_setting(options, setting)
            solver = method.solver(risk.at(at), labels, n_lanes, at)
            yield from turns_of(solver, risk, here, stop, sink)
