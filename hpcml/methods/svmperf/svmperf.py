"""SVMperf: 1-slack cutting planes (Joachims 2006, Algorithm 3), on the passes that PROBE makes.

A step costs one pass, which gives R(w_t) and the plane a_t = Σ ∂ℓ / m, b_t = R(w_t) − a_t·w_t;
`CuttingPlanes` chooses the next w from the planes' inner products. Each rank keeps its own columns
of every plane, in the precision of the weights: the program solved is that of the stored planes. A
plane rounded to float32 misplaces the lower bound by some 10⁻⁷ of f, as rounding w does.

A label's planes go into no checkpoint: after a resume it begins again, to the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from hpcml import mpi
from hpcml.methods.linear.block_kernels import CHUNK
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, Panel, panel_widths
from hpcml.methods.linear.panel_kernels import VIOLATORS, VISITED
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.svmperf import kernels
from hpcml.methods.svmperf.cutting import CuttingPlanes, violation_limit
from hpcml.methods.svmperf.options import SvmperfOptions
from hpcml.run.stop import Stop

ROOM = 16  # planes to make room for at first; doubled when they are used up


class Cutting(CuttingPlanes):
    """A label in a lane: its planes with their vectors, of the columns that this rank steps."""

    def __init__(self, label: int, lam: float, n_columns: int, dtype: np.dtype) -> None:
        super().__init__(lam)
        self.label = label  # its place among the labels of the run
        self.vectors = np.empty((0, n_columns), dtype)  # (room, own columns): the first len(self) are the a_k
        self.f_min, self.history = math.inf, list[tuple[float, ...]]()

    def make_room(self) -> None:
        """Let there be room for one plane more. Raises MemoryError."""
        n = len(self)
        if n == len(self.vectors):
            vectors = np.empty((max(ROOM, 2 * n), self.vectors.shape[1]), self.vectors.dtype)
            vectors[:n] = self.vectors
            self.vectors = vectors

    def add_vector(self, panel: Panel, lane: int) -> np.ndarray:
        """Store own columns of a_t; products per chunk with all planes, and w_t: (chunks, n + 2)."""
        n = len(self)
        np.divide(panel.lane(panel.g_own, lane), panel.objective.rows.n_global, out=self.vectors[n], casting="same_kind")
        w = np.ascontiguousarray(panel.lane(panel.w[panel.own], lane))
        out = np.empty((-(-w.size // CHUNK), n + 2))
        kernels.products(self.vectors[: n + 1], w, out)
        return out

    def next_weights(self) -> np.ndarray:
        """Own columns of w_{t+1} = −(1/λ) Σ α_k a_k; drops idle planes. Raises HpcmlError."""
        n = len(self)
        w = np.empty(self.vectors.shape[1], self.vectors.dtype)
        kernels.combine(self.vectors[:n], -self.solve() / self.lam, w)
        if (gone := self.drop()).size:
            self.vectors[: len(self)] = np.delete(self.vectors[:n], gone, axis=0)
        return w


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
        return Cutting(label, self.objective.lam, panel.counts[self.objective.comm.rank] // panel.width, panel.w.dtype)

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
            gap = (training.f_min - training.lower_bound) / training.f_min
            rows = float(panel.sums[VISITED, lane]), float(panel.sums[VIOLATORS, lane])
            line = (len(training.history) + 1, float(f[lane]), gap, 0, math.nan, math.sqrt(grad_sq[lane]), *rows, seconds)
            training.history.append(line)
            if losses[lane] - training.slack <= self.limit:
                done.append((lane, CONVERGED))
            elif len(training.history) >= self.max_steps:
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
        return Finished(training.label, w, f, status, len(training.history), 1.0, training.history)

    def _cut(self, panel: Panel, lanes: dict[int, Cutting]) -> None:
        """Collective. Add the planes at w_t of these lanes and move on to their w_{t+1}."""
        if not lanes:
            return
        if any(len(training) == len(training.vectors) for training in lanes.values()):
            with mpi.agreed(self.objective.comm, "making room for the cutting planes"):
                for training in lanes.values():
                    training.make_room()
        objective = self.objective
        with objective.profile("compute"):
            chunks = [training.add_vector(panel, lane) for lane, training in lanes.items()]
        with objective.profile("communicate"):
            sums = panel.total(np.hstack(chunks))
        with objective.profile("compute"):
            weights, losses = {}, panel.mean_losses()
            for lane, training in lanes.items():
                *products, at_w = sums[: len(training) + 2]
                sums = sums[len(products) + 1 :]
                training.add(np.array(products), losses[lane] - at_w)  # b_t = R − a_t·w_t
                weights[lane] = training.next_weights()
        panel.replace(weights)


METHOD = LinearMethod(solver=SvmperfSolver)
