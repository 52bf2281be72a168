"""Memory, time and messages of the methods that step along a subgradient: PROBE, and Pegasos.

A step is a pass over the rows, and sweeps over the columns. What a pass costs if all rows violate
the margin is measured on the machine. Later passes are shorter, for most rows violate no more, or
are dormant: how much is measured by a pilot, or assumed.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.methods.forecast import Cluster, Forecast, Generated, Machine, Measured, NoForecast, Sizes, Timer, sent
from hpcml.methods.linear import forecast as linear
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.panel import Panel
from hpcml.methods.linear.solver import Finished
from hpcml.methods.linear.warm_up import warm_up
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.train import METHOD, PEGASOS_METHOD, probe
from hpcml.options import flag_of
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

REPEATS = 3  # of a measurement, whose least counts: what another process does only adds to it
STEEPEST = 0.5  # power of the number of rows by which steps grow at most
LEAST_VALUES = 1 << 19  # of the rows of a pilot: fewer would measure Python
PILOT_LABELS = 2 * LANES  # lanes are taken by others, as in training
DRAWN_LABELS, FEWEST_DRAWS = 10_000, 3  # in all draws of labels' steps
OF_PATH = ("loss", "lam", "bias", "epsilon", "dormant", "max_steps")  # options that change the steps
WEIGHT_BYTES, SUM_BYTES = 4, 8  # that travel: of a weight, and of a number of a subgradient


@dataclass(frozen=True)
class Steps:
    """How many steps labels take, and how long a step of all labels in lanes takes."""

    steps: float  # of the mean label
    share: float  # of a pass in which all rows violate
    source: str
    spread: tuple[float, ...] = (1.0,)  # steps of labels of a pilot, beside the mean
    power: float = 0.0  # of the number of rows, by which they grow
    by_lanes: tuple[float, ...] = ()  # `share` with 1, 2, … labels in lanes, by a pilot
    n_rows: int = 1  # of a pilot

    def grown(self, n_rows: int) -> Steps:
        """On so many rows."""
        return replace(self, steps=(n_rows / self.n_rows) ** self.power * self.steps)

    def shares(self, n_lanes: int) -> np.ndarray:
        """(n_lanes) `share` with 1, 2, … labels in lanes."""
        found = self.by_lanes or (self.share,)
        return np.interp(np.arange(n_lanes), np.arange(len(found)), found)

    def slowest(self, n_labels: int, n_groups: int, turns: np.ndarray) -> tuple[float, float]:
        """Passes and seconds of the last group, if a step takes `turns` with 1, 2, … labels.

        The mean of draws: a label takes the steps of any one of a pilot.
        """
        random, found = np.random.default_rng(0), list[np.ndarray]()
        for _ in range(max(FEWEST_DRAWS, DRAWN_LABELS // max(1, n_labels))):
            steps = self.steps * random.choice(self.spread, n_labels)
            found.append(np.max([_passes(steps[group::n_groups], turns) for group in range(n_groups)], axis=0))
        passes, seconds = np.mean(found, axis=0)
        return float(passes), float(seconds)


def _passes(steps: np.ndarray, turns: np.ndarray) -> tuple[float, float]:
    """Passes and seconds until labels of so many steps are done; free lanes take the next."""
    lanes = [0.0] * turns.size
    for each in steps.tolist():
        heapq.heapreplace(lanes, lanes[0] + each)
    ends = np.sort(lanes)
    return float(ends[-1]), float(np.diff(ends, prepend=0.0) @ turns[::-1])


DEFAULT = Steps(150.0, 0.6, "124 to 168 steps a label on Reuters-21578, 20 Newsgroups and docstrings, 0.6 of a full pass each")


class ProbeForecaster:
    """See `hpcml.methods.forecast.Forecaster`."""

    def __init__(self, method: LinearMethod) -> None:
        self.method = method

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Constants at one number of columns."""
        whole, few = _Step(made.rows), _Step(made.fewer)
        n, n_few, d = made.rows.data.size, made.fewer.data.size, made.rows.n_columns
        passes, pass_of_few = whole.passes(timer), few.passes(timer)
        value = max(0.0, passes - pass_of_few) / (n - n_few)
        column = max(0.0, pass_of_few - n_few * value) + few.steps(timer)
        w = np.zeros(d, np.float32)
        last = min(timer(lambda: whole.objective.value(w, 0)) for _ in range(2))
        return {
            "probe.value": (made.rows.n_columns, value),
            "probe.column": (d, column / d),
            "probe.last": (made.rows.n_columns, last / n),
        }

    def pilot(self, samples: Sequence[CompactRows], options: Any, timer: Timer) -> Steps | None:
        """Labels of all frequencies on two samples, which show how steps grow with the rows."""
        samples = linear.with_labels(samples)
        number = next((k for k, rows in enumerate(samples) if k > 0 and rows.data.size >= LEAST_VALUES), len(samples) - 1)
        found = self._steps_of(samples[number], options, timer)
        if number == 0:
            return found
        before = self._steps_of(samples[number - 1], options, timer)
        ratio = found.n_rows / before.n_rows
        power = math.log(found.steps / before.steps) / math.log(ratio) if ratio > 1 else 0.0
        return replace(found, power=float(np.clip(power, 0.0, STEEPEST)), spread=found.spread + before.spread)

    def _steps_of(self, rows: CompactRows, options: Any, timer: Timer) -> Steps:
        """Of some labels of a sample."""
        objective = Objective(rows, options, Profile())
        labels = linear.trainable(rows)
        chosen = labels[np.linspace(0, labels.size - 1, min(PILOT_LABELS, labels.size)).astype(int)]
        solver = probe(objective, chosen, LANES, options)
        warm_up(probe, objective, options)
        whole = _Step(rows, options)
        full, rest = whole.passes(timer), whole.steps(timer)
        finished, seconds = list[Finished](), defaultdict[int, list[float]](list)
        turns = solver.solve(range(chosen.size), NEVER)
        while len(finished) < chosen.size:
            before = len(finished)
            spent = timer(lambda: finished.extend(next(turns)))
            if len(finished) == before:  # else a label's last look is in it
                seconds[len(solver.training)].append(spent)
        steps = np.array([done.steps for done in finished])
        lanes = sorted(seconds)
        shares = [max(0.0, float(np.mean(seconds[n])) - rest) / full for n in lanes]
        return Steps(
            steps=float(steps.mean()),
            share=DEFAULT.share,
            source=f"a pilot of {chosen.size} labels on {rows.n_global:,} rows",
            spread=tuple(steps / steps.mean()),
            by_lanes=tuple(np.interp(np.arange(1, LANES + 1), lanes, shares)) if lanes else (),
            n_rows=rows.n_global,
        )

    def forecast(self, sizes: Sizes, cluster: Cluster, options: LinearOptions, machine: Machine, pilot: Steps | None) -> Forecast:
        """Raises NoForecast."""
        if options.precision != "single":
            raise NoForecast(f"no time model for --precision {options.precision}: constants are of single precision")
        layout = linear.layout_of(self.method, sizes, cluster, options)
        found = linear.begin(self.method, sizes, cluster, options, machine, layout)
        work = self._work(sizes, options, pilot, found)
        busy, d = cluster.ranks_per_node, sizes.n_columns
        values = (sizes.n_values + sizes.n_rows * bool(options.bias)) / layout.shards
        width = panel_widths(layout.n_lanes, options.precision)[0] / LANES
        turns = values * machine("probe.value", d, busy) * work.shares(layout.n_lanes)
        turns += width * d * machine("probe.column", d, busy)
        steps, found.seconds["train"] = work.slowest(sizes.n_trained, layout.n_groups, turns)
        labels = -(-sizes.n_trained // layout.n_groups)
        found.seconds["train"] += labels * values * machine("probe.last", d, busy)
        if layout.shards > 1:
            travels = layout.n_lanes * d * (SUM_BYTES + WEIGHT_BYTES) / 2  # a sum is a Reduce_scatter and an Allgather
            found.sent_bytes = steps * sent(layout.shards, travels)
            found.seconds["messages"] = steps * cluster.exchange(layout.shards, travels)
            found.assumed.append("messages do not overlap with passes")
        found.checkpoint_bytes = layout.n_groups * layout.n_lanes * (2 * WEIGHT_BYTES * d + sizes.n_rows)
        return found

    def _work(self, sizes: Sizes, options: LinearOptions, pilot: Steps | None, found: Forecast) -> Steps:
        """Steps of a label. Raises NoForecast."""
        if pilot is not None:
            pilot = pilot.grown(sizes.n_rows)
            found.measured.append(
                f"{pilot.steps:.0f} steps a label, {min(pilot.spread) * pilot.steps:.0f} to {max(pilot.spread) * pilot.steps:.0f}: "
                f"{pilot.source}"
            )
            return pilot
        usual = ProbeOptions()
        other = [flag_of(name) for name in OF_PATH if getattr(options, name) != getattr(usual, name)]
        if other:
            raise NoForecast(f"no time model for probe with --{other[0]}, unless the data are at hand: add --pilot")
        found.assumed.append(DEFAULT.source)
        return DEFAULT


class PegasosForecaster(ProbeForecaster):
    """Of a method that takes as many steps as it is told."""

    def pilot(self, samples: Sequence[CompactRows], options: Any, timer: Timer) -> None:
        """Nothing depends on the data."""

    def _work(self, sizes: Sizes, options: LinearOptions, pilot: Steps | None, found: Forecast) -> Steps:
        return Steps(float(options.step_limit), 1.0, "")


class _Step:
    """A step of 16 labels at w = 0, where every row violates."""

    def __init__(self, rows: CompactRows, options: ProbeOptions | None = None) -> None:
        options = options or ProbeOptions(loss="hinge", bias=False, dormant=False)
        self.objective = Objective(rows, options, Profile())
        self.panel = Panel(self.objective, LANES)
        label = int(rows.n_positive.argmax())
        for lane in range(LANES):
            self.panel.enter(lane, label)
        self.objective.evaluate([self.panel])

    def passes(self, timer: Timer) -> float:
        """Seconds of a pass, in which no row is dormant yet."""
        return min(timer(lambda: self.objective.evaluate([self.panel])) for _ in range(REPEATS))

    def steps(self, timer: Timer) -> float:
        """Seconds of what follows a pass."""

        def step() -> None:
            self.panel.gather()
            self.panel.keep(np.ones(LANES, dtype=np.bool_))
            self.panel.step(np.zeros(LANES))

        return min(timer(step) for _ in range(REPEATS))


FORECAST, PEGASOS = ProbeForecaster(METHOD), PegasosForecaster(PEGASOS_METHOD)
