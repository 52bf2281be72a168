"""Solvers whose labels share passes over the rows, in panels of lanes.

A group is the ranks that share rows; labels are distributed over groups, which never wait for each other within a step. A label's
path depends only on the label, so it does not matter which group trains it and which labels share its panel.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.errors import HpcmlError, Stopped
from hpcml.methods.linear.objective import Objective, Panel
from hpcml.methods.linear.panel_kernels import VIOLATORS, VISITED
from hpcml.methods.linear.solver import CONVERGED, HISTORY, STEP_LIMIT, Finished, Packed, Solver, Turns
from hpcml.run.stop import Stop

ROWS = HISTORY.index("active_rows")


class Step(NamedTuple):
    """Step after an evaluation: w_{t+1} = w_t − eta g; store w_t if `improved`, stop if `done`."""

    eta: float
    improved: bool
    done: bool


class LabelProgress:
    """State of a label besides its weights; subclasses are dataclasses of numbers."""

    step: int
    f_min: float
    phi: float
    cycle: int

    def advance(self, f: float, grad_sq: float) -> Step:
        raise NotImplementedError

    def pack(self) -> np.ndarray:
        return np.array(list(vars(self).values()), np.float64)

    def unpack(self, values: np.ndarray) -> None:
        for (name, own), value in zip(vars(self).items(), values.tolist(), strict=True):
            setattr(self, name, type(own)(value))


@dataclass
class LabelInLane:
    label: int  # index in the run
    progress: LabelProgress
    visited: float = 0.0  # rows, over all steps
    history: list[tuple[float, ...]] = field(default_factory=list)


Lanes = dict[int, tuple[LabelProgress, Step, bool, tuple[float, ...]]]  # per lane: progress, step, done, line of the history


class PanelSolver(Solver):
    """Panels whose lanes labels enter and leave. All methods are collective over `objective.comm`."""

    def __init__(self, objective: Objective, widths: list[int], labels: np.ndarray) -> None:
        self.objective, self.labels = objective, labels
        self.panels = [Panel(objective, width) for width in widths]
        self.training: dict[tuple[int, int], Any] = {}  # state of the label in a (panel, lane)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        waiting = deque(labels)
        try:
            while self.training or waiting:
                for p, panel in enumerate(self.panels):
                    for lane in np.flatnonzero(panel.labels < 0).tolist() if waiting else ():
                        if waiting:
                            label = waiting.popleft()
                            panel.assign(lane, int(self.labels[label]))
                            self.training[p, lane] = self._begin(panel, label)
                yield self._step([(p, panel) for p, panel in enumerate(self.panels) if panel.active.size], stop)
        except (HpcmlError, GeneratorExit):  # agreed, so all ranks are here
            self._settle()
            raise
        self._settle()

    def _settle(self) -> None:
        """Wait for pending messages: MPI must not write into deallocated panels."""
        for panel in self.panels:
            panel.wait_for_weights()

    def _begin(self, panel: Panel, label: int) -> Any:
        raise NotImplementedError

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        """Make one step of the panels with labels. If it raises Stopped, `training` is unchanged."""
        raise NotImplementedError


class FirstOrderSolver(PanelSolver):
    packs = True

    def __init__(
        self,
        objective: Objective,
        widths: list[int],
        labels: np.ndarray,
        begin: Callable[[], LabelProgress],
        max_steps: int,
        radius: float = math.inf,
    ) -> None:
        """`begin` returns the initial progress of a label; weights are projected onto the ball of this radius."""
        super().__init__(objective, widths, labels)
        self.begin, self.max_steps, self.radius = begin, max_steps, radius

    def _begin(self, panel: Panel, label: int) -> LabelInLane:
        return LabelInLane(label, self.begin())

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        seconds, n_global, finished = stop.seconds, self.objective.rows.n_global, list[Finished]()
        advanced: list[Lanes] = []  # by panel
        leaving: list[dict[int, tuple[np.ndarray, float]]] = []  # by panel: best weights and their f, by lane
        try:  # only the rows' states change before all passes are complete
            self.objective.evaluate([panel for _, panel in panels], stop)
            for p, panel in panels:
                f, grad_sq = (values.tolist() for values in panel.gather())
                lanes: Lanes = {}
                for lane in panel.active.tolist():
                    progress = copy(self.training[p, lane].progress)
                    step = progress.advance(f[lane], grad_sq[lane])
                    rows = float(panel.sums[VISITED, lane]), float(panel.sums[VIOLATORS, lane])
                    norm, n = math.sqrt(grad_sq[lane]), progress.step
                    line: tuple[float, ...] = (n, f[lane], progress.phi, progress.cycle, step.eta, norm, *rows, seconds)
                    lanes[lane] = progress, step, step.done or n >= self.max_steps, line
                advanced.append(lanes)
            for (_, panel), lanes in zip(panels, advanced, strict=True):
                best: dict[int, tuple[np.ndarray, float]] = {}
                for lane, (_, step, is_done, _) in lanes.items():
                    if is_done:
                        w = panel.gather_weights(lane, panel.w if step.improved else panel.best)
                        with self.objective.profile("finish"):
                            best[lane] = w, self.objective.value(w, int(panel.labels[lane]), stop)
                leaving.append(best)
        except Stopped:
            for _, panel in panels:
                panel.rewind()
            raise
        for (p, panel), lanes, best in zip(panels, advanced, leaving, strict=True):
            eta, improved = np.zeros(panel.width), np.zeros(panel.width, dtype=np.bool_)
            for lane, (progress, step, is_done, line) in lanes.items():
                training = self.training[p, lane]
                training.progress, training.visited = progress, training.visited + line[ROWS]
                training.history.append(line)
                eta[lane], improved[lane] = 0.0 if is_done else step.eta, step.improved
            with self.objective.profile("compute"):
                panel.store_best(improved)
            for lane, (w, f) in best.items():
                training, status = self.training.pop((p, lane)), CONVERGED if lanes[lane][1].done else STEP_LIMIT
                panel.release(lane)
                n_steps = training.progress.step
                share = training.visited / (n_steps * n_global)
                finished.append(Finished(training.label, w, f, status, n_steps, share, training.history))
            panel.step(eta, self.radius)
        return finished

    def pack(self) -> list[Packed]:
        self._settle()
        packed = []
        for (p, lane), training in sorted(self.training.items()):
            panel = self.panels[p]
            rows = np.concatenate(mpi.allgather_arrays(self.objective.comm, np.ascontiguousarray(panel.lane(panel.state, lane))))
            numbers = np.concatenate([[training.label, training.visited], training.progress.pack()])
            history = np.array(training.history, dtype=np.float64).reshape(-1, len(HISTORY))
            w, best = (panel.gather_weights(lane, array) for array in (panel.w, panel.best))
            packed.append(Packed(w, best, rows, numbers, history))
        return packed

    def unpack(self, packed: Packed) -> None:
        p = next(p for p, panel in enumerate(self.panels) if (panel.labels < 0).any())
        panel, objective = self.panels[p], self.objective
        lane = int(np.flatnonzero(panel.labels < 0)[0])
        training = LabelInLane(int(packed.numbers[0]), self.begin(), float(packed.numbers[1]))
        training.progress.unpack(packed.numbers[2:])
        training.history = [tuple(line) for line in packed.history[: training.progress.step].tolist()]
        panel.assign(lane, int(self.labels[training.label]))
        panel.lane(panel.w, lane)[:] = packed.w
        own = slice(panel.own.start // panel.width, panel.own.stop // panel.width)
        panel.lane(panel.best, lane)[:] = packed.best[own]
        first = objective.rows.first
        panel.lane(panel.state, lane)[:] = packed.rows[first : first + objective.rows.n_local]
        panel.steps[lane] = training.progress.step
        panel.update_norms()
        self.training[p, lane] = training
