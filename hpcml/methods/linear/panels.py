"""Solvers whose labels share passes over the rows, in panels of lanes that they enter and leave.

A group is the ranks that share the rows; the labels are scattered over the groups. Groups never
wait for one another inside a step, and a label's path depends on nothing but the label, so it does
not matter which group trains it or beside which others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.errors import HpcmlError, Stopped
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.panel import Panel
from hpcml.methods.linear.panel_kernels import VIOLATORS, VISITED
from hpcml.methods.linear.solver import CONVERGED, HISTORY, STEP_LIMIT, Finished, Packed, Solver, Turns
from hpcml.run.stop import Stop


class Step(NamedTuple):
    """After an evaluation: w_{t+1} = w_t − eta g; remember w_t if `improved`, stop if `done`."""

    eta: float
    improved: bool
    done: bool


class LabelProgress:
    """A label's progress between two evaluations: all a method needs besides w and the best w.

    A subclass is a dataclass of numbers.
    """

    step: int
    f_min: float
    phi: float
    cycle: int

    def advance(self, f: float, grad_sq: float) -> Step:
        """Take f(w_t) and ‖g(w_t)‖², return the step to w_{t+1}."""
        raise NotImplementedError

    def pack(self) -> np.ndarray:
        """The state as float64 numbers, always as many."""
        return np.array(list(vars(self).values()), np.float64)

    def unpack(self, values: np.ndarray) -> None:
        """Take up the state that `pack` gave."""
        for (name, own), value in zip(vars(self).items(), values.tolist(), strict=True):
            setattr(self, name, type(own)(value))


class Rule(NamedTuple):
    """A first-order method: how a label begins, and where its weights must stay."""

    begin: Callable[[], LabelProgress]
    radius: float  # the weights are projected on this ball


@dataclass
class LabelInLane:
    """A label in a lane. `label` is its place among the labels of the run."""

    label: int
    progress: LabelProgress
    visited: float = 0.0  # rows, over all steps
    history: list[tuple[float, ...]] = field(default_factory=list)


class Advance(NamedTuple):
    """What an evaluation at w_t leads to: the progress, the step, whether the label leaves."""

    progress: LabelProgress
    f: float
    grad_sq: float
    step: Step
    done: bool


class PanelSolver(Solver):
    """Panels of lanes that the labels of a rank group enter and leave; a subclass trains them.

    All methods are collective over `objective.comm`. `training` holds what a label in a (panel,
    lane) needs besides its weights.
    """

    def __init__(self, objective: Objective, widths: list[int], labels: np.ndarray) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError."""
        self.objective, self.labels = objective, labels
        self.panels = [Panel(objective, width) for width in widths]
        self.training: dict[tuple[int, int], Any] = {}

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group; see `Solver`. A turn is a pass, and a step of all labels."""
        waiting = deque(labels)
        try:
            while self.training or waiting:
                self._fill(waiting)
                yield self._step([(p, panel) for p, panel in enumerate(self.panels) if panel.active.size], stop)
        except (HpcmlError, GeneratorExit):  # agreed, so all ranks are here
            self._settle()
            raise
        self._settle()

    def _fill(self, waiting: deque[int]) -> None:
        for p, panel in enumerate(self.panels):
            for lane in np.flatnonzero(panel.labels < 0).tolist():
                if waiting:
                    label = waiting.popleft()
                    panel.enter(lane, int(self.labels[label]))
                    self.training[p, lane] = self._begin(panel, label)

    def _settle(self) -> None:
        """Wait for what is on its way: MPI must not write into panels that are gone."""
        for panel in self.panels:
            panel.wait_for_weights()

    def _begin(self, panel: Panel, label: int) -> Any:
        """The state in which a label enters a lane."""
        raise AssertionError("a subclass says")

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        """One step of the panels with labels. Stopped leaves `training` as before the step."""
        raise AssertionError("a subclass says")


class FirstOrderSolver(PanelSolver):
    """The labels of a first-order method."""

    packs = True

    def __init__(self, objective: Objective, widths: list[int], rule: Rule, labels: np.ndarray, max_steps: int) -> None:
        """Raises MemoryError."""
        super().__init__(objective, widths, labels)
        self.rule, self.max_steps = rule, max_steps

    def _begin(self, panel: Panel, label: int) -> LabelInLane:
        return LabelInLane(label, self.rule.begin())

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        seconds = stop.seconds
        try:  # nothing but the rows' bytes changes before all passes are complete
            self.objective.evaluate([panel for _, panel in panels], stop)
            advances = [dict(self._advance(p, panel)) for p, panel in panels]
            values = [
                {lane: self._value(panel, lane, advance, stop) for lane, advance in lanes.items() if advance.done}
                for (_, panel), lanes in zip(panels, advances, strict=True)
            ]
        except Stopped:
            for _, panel in panels:
                panel.rewind()
            raise
        finished = []
        for (p, panel), lanes, leaving in zip(panels, advances, values, strict=True):
            eta, improved = np.zeros(panel.width), np.zeros(panel.width, dtype=np.bool_)
            for lane, advance in lanes.items():
                self._record(self.training[p, lane], panel, lane, advance, seconds)
                eta[lane], improved[lane] = 0.0 if advance.done else advance.step.eta, advance.step.improved
            with self.objective.profile("compute"):
                panel.keep(improved)
            finished += [self._finish(p, panel, lane, lanes[lane], *values) for lane, values in leaving.items()]
            panel.step(eta, self.rule.radius)
        return finished

    def _advance(self, p: int, panel: Panel) -> list[tuple[int, Advance]]:
        """Collective. What the values at w_t lead to in every lane that holds a label."""
        f, grad_sq = panel.gather()
        found = []
        for lane in panel.active.tolist():
            progress = copy(self.training[p, lane].progress)
            step = progress.advance(float(f[lane]), float(grad_sq[lane]))
            done = step.done or progress.step >= self.max_steps
            found.append((lane, Advance(progress, float(f[lane]), float(grad_sq[lane]), step, done)))
        return found

    def _value(self, panel: Panel, lane: int, advance: Advance, stop: Stop) -> tuple[np.ndarray, float]:
        """Collective. The best weights of a label that leaves, and f there."""
        w = panel.whole(lane, panel.w if advance.step.improved else panel.best)
        with self.objective.profile("finish"):
            return w, self.objective.value(w, int(panel.labels[lane]), stop)

    def _record(self, training: LabelInLane, panel: Panel, lane: int, advance: Advance, seconds: float) -> None:
        """Take a label's step, and add it to the label's history."""
        visited, violators = float(panel.sums[VISITED, lane]), float(panel.sums[VIOLATORS, lane])
        training.visited += visited
        training.progress = progress = advance.progress
        line = (progress.step, advance.f, progress.phi, progress.cycle, advance.step.eta, math.sqrt(advance.grad_sq))
        training.history.append((*line, visited, violators, seconds))

    def _finish(self, p: int, panel: Panel, lane: int, advance: Advance, w: np.ndarray, f: float) -> Finished:
        """Take a label out of its lane. Collective."""
        training = self.training.pop((p, lane))
        panel.leave(lane)
        steps, status = training.progress.step, CONVERGED if advance.step.done else STEP_LIMIT
        share = training.visited / (steps * self.objective.rows.n_global)
        return Finished(training.label, w, f, status, steps, share, training.history)

    def pack(self) -> list[Packed]:
        """Collective. The labels in training; what was on its way has arrived."""
        self._settle()
        return [self._packed(*key) for key in sorted(self.training)]

    def _packed(self, p: int, lane: int) -> Packed:
        """Collective. What a label in training needs to continue."""
        panel, training = self.panels[p], self.training[p, lane]
        rows = np.concatenate(mpi.allgather_arrays(self.objective.comm, np.ascontiguousarray(panel.lane(panel.state, lane))))
        numbers = np.concatenate([[training.label, training.visited], training.progress.pack()])
        history = np.array(training.history, dtype=np.float64).reshape(-1, len(HISTORY))
        return Packed(panel.whole(lane, panel.w), panel.whole(lane, panel.best), rows, numbers, history)

    def unpack(self, packed: Packed) -> None:
        """Collective. Put a label into an idle lane."""
        p = next(p for p, panel in enumerate(self.panels) if (panel.labels < 0).any())
        panel, objective = self.panels[p], self.objective
        lane = int(np.flatnonzero(panel.labels < 0)[0])
        training = LabelInLane(int(packed.numbers[0]), self.rule.begin(), float(packed.numbers[1]))
        training.progress.unpack(packed.numbers[2:])
        training.history = [tuple(line) for line in packed.history[: training.progress.step].tolist()]
        panel.enter(lane, int(self.labels[training.label]))
        panel.lane(panel.w, lane)[:] = packed.w
        own = slice(panel.own.start // panel.width, panel.own.stop // panel.width)
        panel.lane(panel.best, lane)[:] = packed.best[own]
        first = objective.rows.first
        panel.lane(panel.state, lane)[:] = packed.rows[first : first + objective.rows.n_local]
        panel.steps[lane] = training.progress.step
        panel.measure()
        self.training[p, lane] = training
