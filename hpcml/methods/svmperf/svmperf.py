"""SVMperf: 1-slack cutting planes (Joachims 2006, Algorithm 3), on the passes that PROBE makes.

A step costs one pass, which gives R(w_t) and the plane a_t = Σ ∂ℓ / m, b_t = R(w_t) − a_t·w_t;
`CuttingPlanes` chooses the next w from the planes' inner products. Each rank keeps its own columns
of every plane, in the precision of the weights: the program solved is that of the stored planes. A
plane rounded to float32 misplaces the lower bound by some 10⁻⁷ of f, as rounding w does.

A label's planes go into no checkpoint: after a resume it begins again, to the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hpcml import mpi
from hpcml.methods.linear.block_kernels import CHUNK
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panel import Panel
from hpcml.methods.linear.panel_kernels import VIOLATORS, VISITED
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.svmperf import kernels
from hpcml.methods.svmperf.cutting import CuttingPlanes, violation_limit
from hpcml.methods.svmperf.options import SvmperfOptions
from hpcml.run.stop import Stop

ROOM = 16  # planes to make room for at first; doubled when they are used up


@dataclass
class Cutting:
    """A label in a lane. `label` is its place among the labels of the run."""

    label: int
    planes: CuttingPlanes
    vectors: np.ndarray  # (room, own columns): the first len(planes) are the a_k
    f_min: float = math.inf
    history: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The number of passes so far."""
        return len(self.history)


class SvmperfSolver(PanelSolver):
    """The labels of the cutting-plane method; those in training begin again after a resume.

    The model is the iterate with the least objective; `phi` in the history is (f_min − lower bound)
    / f_min.
    """

    def __init__(self, objective: Objective, labels: np.ndarray, n_lanes: int, options: SvmperfOptions) -> None:
        """Raises MemoryError."""
        super().__init__(objective, panel_widths(n_lanes, options.precision), labels)
        self.limit, self.max_steps = violation_limit(options.svmperf_epsilon), options.step_limit

    def _begin(self, panel: Panel, label: int) -> Cutting:
        vectors = np.empty((0, panel.counts[self.objective.comm.rank] // panel.width), panel.w.dtype)
        return Cutting(label, CuttingPlanes(self.objective.lam), vectors)

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        seconds = stop.seconds
        self.objective.evaluate([panel for _, panel in panels], stop)
        finished = []
        for p, panel in panels:
            done = self._judge(p, panel, seconds)
            finished += [self._finish(p, panel, lane, status, stop) for lane, status in done]
            self._cut(panel, {lane: self.training[p, lane] for lane in panel.active.tolist()})
        return finished

    def _judge(self, p: int, panel: Panel, seconds: float) -> list[tuple[int, int]]:
        """Collective. Take the values at w_t; the lanes that are done, and how."""
        f, grad_sq = panel.gather()
        losses, improved, done = panel.mean_losses(), np.zeros(panel.width, dtype=np.bool_), []
        for lane in panel.active.tolist():
            training = self.training[p, lane]
            improved[lane] = f[lane] < training.f_min
            training.f_min = min(float(f[lane]), training.f_min)
            gap = (training.f_min - training.planes.lower_bound) / training.f_min
            rows = float(panel.sums[VISITED, lane]), float(panel.sums[VIOLATORS, lane])
            line = (training.step + 1, float(f[lane]), gap, 0, math.nan, math.sqrt(grad_sq[lane]), *rows, seconds)
            training.history.append(line)
            if losses[lane] - training.planes.slack <= self.limit:
                done.append((lane, CONVERGED))
            elif training.step >= self.max_steps:
                done.append((lane, STEP_LIMIT))
        with self.objective.profile("compute"):
            panel.keep(improved)
        return done

    def _finish(self, p: int, panel: Panel, lane: int, status: int, stop: Stop) -> Finished:
        """Collective. Take a label out of its lane."""
        training = self.training.pop((p, lane))
        w = panel.whole(lane, panel.best)
        with self.objective.profile("finish"):
            f = self.objective.value(w, int(panel.labels[lane]), stop)
        panel.leave(lane)
        return Finished(training.label, w, f, status, training.step, 1.0, training.history)

    def _cut(self, panel: Panel, lanes: dict[int, Cutting]) -> None:
        """Collective. Add the planes at w_t of these lanes and move on to their w_{t+1}."""
        if not lanes:
            return
        if any(len(training.planes) == len(training.vectors) for training in lanes.values()):
            with mpi.agreed(self.objective.comm, "making room for the cutting planes"):
                for training in lanes.values():
                    make_room(training)
        objective = self.objective
        with objective.profile("compute"):
            chunks = [add_plane(training, panel, lane) for lane, training in lanes.items()]
        with objective.profile("communicate"):
            sums = panel.total(np.hstack(chunks))
        with objective.profile("compute"):
            weights, losses = {}, panel.mean_losses()
            for lane, training in lanes.items():
                *products, at_w = sums[: len(training.planes) + 2]
                sums = sums[len(products) + 1 :]
                training.planes.add(np.array(products), losses[lane] - at_w)  # b_t = R − a_t·w_t
                weights[lane] = next_weights(training)
        panel.replace(weights)


def make_room(training: Cutting) -> None:
    """Let there be room for one plane more. Raises MemoryError."""
    n = len(training.planes)
    if n == len(training.vectors):
        vectors = np.empty((max(ROOM, 2 * n), training.vectors.shape[1]), training.vectors.dtype)
        vectors[:n] = training.vectors
        training.vectors = vectors


def add_plane(training: Cutting, panel: Panel, lane: int) -> np.ndarray:
    """Store own columns of a_t; products per chunk with all planes, and w_t: (chunks, n + 2)."""
    n = len(training.planes)
    np.divide(panel.slopes(lane), panel.objective.rows.n_global, out=training.vectors[n], casting="same_kind")
    w = np.ascontiguousarray(panel.lane(panel.w[panel.own], lane))
    out = np.empty((-(-w.size // CHUNK), n + 2))
    kernels.products(training.vectors[: n + 1], w, out)
    return out


def next_weights(training: Cutting) -> np.ndarray:
    """Own columns of w_{t+1} = −(1/λ) Σ α_k a_k; drops idle planes. Raises HpcmlError."""
    planes, n = training.planes, len(training.planes)
    w = np.empty(training.vectors.shape[1], training.vectors.dtype)
    kernels.combine(training.vectors[:n], -planes.solve() / planes.lam, w)
    gone = planes.drop()
    if gone.size:
        training.vectors[: len(planes)] = np.delete(training.vectors[:n], gone, axis=0)
    return w


METHOD = LinearMethod(name="svmperf", solver=SvmperfSolver)
