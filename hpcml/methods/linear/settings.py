"""Options that differ between the labels of a run: λ, λ₁ and the weight of positive rows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.kernels.lanes import WIDTHS
from hpcml.methods.linear.objective import Risk, parse_lambda
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import Turns, lanes_of, warm_up
from hpcml.run.stop import Stop

Setting = dict[str, float]  # the value of each option that may differ


class Axis(NamedTuple):
    option: str
    values: tuple[float, ...]  # initial values, ascending; multiples of the option's own value if there is a `base`
    step: float  # factor between the first or last value and the next one
    base: Callable[[CompactRows, Any], float] | None = None  # the option's own value for given rows
    least: float = 0.0  # lower limit of further values


TENFOLD_STEP = math.sqrt(10.0)
TENFOLD = 0.1, 0.316, 1.0, 3.162, 10.0
LAMBDA = Axis("lam", TENFOLD, TENFOLD_STEP, lambda rows, options: parse_lambda(options.lam, rows.scale, rows.n_global))


class Fitted(NamedTuple):
    places: np.ndarray  # (k) index among the labels passed to `fit`
    settings: np.ndarray  # (k) index, or −1
    w: np.ndarray  # (n_columns width) flat
    width: int
    intercepts: np.ndarray  # (k) if not a column


def at_setting(options: Any, setting: Setting) -> Any:
    return replace(options, **{name: repr(float(value)) for name, value in setting.items()})


class Chosen(NamedTuple):
    """Result of tuning: label l uses settings[which[l]]."""

    settings: list[Setting]
    which: np.ndarray  # (n_labels)
    columns: dict[str, np.ndarray]  # (n_labels) float64 each, columns of the model
    about: dict[str, Any]  # attributes of the model
    seconds: float  # spent on tuning


class SolverFitter:
    def __init__(self, method: Any, risk: Risk, settings: Sequence[Setting], options: LinearOptions, n_lanes: int) -> None:
        self.method, self.n_lanes = method, n_lanes
        self.options = [at_setting(options, setting) for setting in settings]
        self.risks = [risk.at(each) for each in self.options]

    def warm_up(self) -> None:
        warm_up(self.method.solver, self.risks[0], self.options[0])

    def fit(self, labels: np.ndarray, stop: Stop) -> Iterator[Fitted]:
        for number, (risk, options) in enumerate(zip(self.risks, self.options, strict=True)):
            n_positive = risk.rows.n_positive[labels]
            trainable = np.flatnonzero((n_positive > 0) & (n_positive < risk.rows.n_global)).tolist()
            for finished in self.method.solver(risk, labels, self.n_lanes, options).solve(trainable, stop):
                for first in range(0, len(finished), WIDTHS[-1]):
                    done = finished[first : first + WIDTHS[-1]]
                    w, width, intercepts = lanes_of(done, risk.rows.n_columns)
                    indices = np.array([label.label for label in done])
                    yield Fitted(indices, np.full(len(done), number), w.astype(np.float32, copy=False), width, intercepts)


def solve_by_setting(
    method: Any,
    risk: Risk,
    labels: np.ndarray,
    n_lanes: int,
    options: LinearOptions,
    chosen: Chosen,
    waiting: Sequence[int],
    stop: Stop,
) -> Turns:
    """Train the waiting labels, setting by setting. Collective over the group; see `Solver.solve`."""
    for number, setting in enumerate(chosen.settings):
        if group := [label for label in waiting if chosen.which[label] == number]:
            own_options = at_setting(options, setting)
            solver = method.solver(risk.at(own_options), labels, n_lanes, own_options)
            yield from solver.solve(group, stop)
