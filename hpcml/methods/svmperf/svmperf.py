"""SVMperf: 1-slack cutting planes (Joachims 2006, Algorithm 3), on the passes that PROBE makes.

A step costs one pass, which gives R(w_t) and the plane a_t = Σ ∂ℓ / m, b_t = R(w_t) − a_t·w_t, so that R(w) ≥ ξ(w) = max(0, max_k
a_k·w + b_k). The next w minimises λ/2‖w‖² + ξ(w); the label is done when R(w) − ξ(w) is small. `CuttingPlanes` chooses the next w
from the planes' inner products. Each rank keeps its own columns of every plane, in the precision of the weights: the program solved
is that of the stored planes. A plane rounded to float32 misplaces the lower bound by some 10⁻⁷ of f, as rounding w does.

A label's planes go into no checkpoint: after a resume it begins again, to the same bits.

**ε.** The program SVMperf minimises ½‖w‖² + C ξ₁₀₀ and counts losses in percent: ξ₁₀₀ = 100 ξ. With
C = 1/(100λ) that is f(w)/λ, the same minimiser. It stops when 100 R(w) ≤ ξ₁₀₀ + ε, in our scaling
when R(w) − ξ(w) ≤ ε/100 (the article's own ε is that ε/100; see the footnote in Smith, Kim & Wilbur
2012). As λ/2‖w‖² + ξ(w) is the dual value when α is optimal, R(w) − ξ(w) is then f(w) −
lower_bound: ε = 0.1 promises f(w) − min f ≤ 0.001, in units of f and not relative to it.
"""

from __future__ import annotations

import math

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, HpcmlError
from hpcml.methods.linear.block_kernels import CHUNK
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, Panel, panel_widths
from hpcml.methods.linear.panel_kernels import VIOLATORS, VISITED
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.svmperf import kernels
from hpcml.methods.svmperf.options import SvmperfOptions
from hpcml.run.stop import Stop

try:
    import daqp
except ImportError:
    raise ConfigError("svmperf needs the package daqp; install it with: pip install 'hpcml[svmperf]'") from None

ROOM = 16  # planes to make room for at first; doubled when they are used up
IDLE_LIMIT = 50  # SVMperf drops a plane after so many solves without it
NEGLIGIBLE = 1e-11  # a smaller α is the solver's rounding of 0
DAQP = {"eps_prox": -1e-6, "primal_tol": 1e-12, "eta_prox": 1e-12, "iter_limit": 10_000}  # < 0: regularise if singular


class CuttingPlanes:
    """A label in a lane: its planes' inner products K, offsets b and duals α, and their vectors a_k.

    Attributes
    ----------
    lam : float, λ
    gram : (n_planes, n_planes), K = (a_j·a_k)
    offsets, alpha : (n_planes,)
    idle : (n_planes,) int64, how many solves in a row gave α_k = 0
    vectors : (room, own columns), of which the first n_planes are the a_k, of the columns that this rank steps
    label : its place among the labels of the run
    """

    def __init__(self, lam: float, label: int = 0, n_columns: int = 0, dtype: np.dtype | type = np.float64) -> None:
        self.lam, self.label, self.vectors = lam, label, np.empty((0, n_columns), dtype)
        self.f_min, self.history = math.inf, list[tuple[float, ...]]()
        self.gram = np.zeros((0, 0))
        self.offsets = np.zeros(0)
        self.alpha = np.zeros(0)
        self.idle = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, products: np.ndarray, offset: float) -> None:
        """Append a plane; products (n_planes + 1,): a·a_k in order, then a·a. Raises ValueError."""
        n = len(self)
        if products.shape != (n + 1,):
            raise ValueError(f"a new plane has inner products of shape {products.shape}, but {n} planes need ({n + 1},)")
        self.gram = np.pad(self.gram, (0, 1))
        self.gram[n, :] = self.gram[:, n] = products
        self.offsets = np.append(self.offsets, offset)
        self.alpha = np.append(self.alpha, 0.0)
        self.idle = np.append(self.idle, 0)

    def solve(self) -> np.ndarray:
        """α (n_planes,), which maximises α·b − αᵀKα/2λ with α ≥ 0, Σα ≤ 1; w is −(1/λ) Σ α_k a_k.

        It starts afresh each time, so that a run that resumes gets the same bits. HpcmlError if the solver gives up.
        """
        n = len(self)
        lower, upper = np.zeros(n + 1), np.ones(n + 1)  # the bounds of α, then of Σα
        alpha, _, flag, _ = daqp.solve(self.gram / self.lam, -self.offsets, np.ones((1, n)), upper, lower, **DAQP)
        if flag < 1 or not np.isfinite(alpha).all():
            raise HpcmlError(f"the quadratic program of {n} cutting planes was not solved (DAQP flag {flag}): try another method")
        alpha = np.where(alpha > NEGLIGIBLE, alpha, 0.0)  # feasible whatever the solver did: lower_bound rests on it
        self.alpha = alpha / max(1.0, alpha.sum())
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        return self.alpha

    def drop(self, idle: int = IDLE_LIMIT) -> np.ndarray:
        """Forget the planes with α = 0 in the last `idle` solves; their indexes, ascending."""
        keep = self.idle < idle
        self.gram = self.gram[np.ix_(keep, keep)]
        self.offsets, self.alpha, self.idle = self.offsets[keep], self.alpha[keep], self.idle[keep]
        return np.flatnonzero(~keep)

    @property
    def lower_bound(self) -> float:
        """The dual value of α, ≤ min f for any feasible α."""
        return float((self.alpha * (self.offsets + self._descent() / 2)).sum())

    @property
    def slack(self) -> float:
        """ξ(w) at the w of α, from the inner products alone."""
        return float((self.offsets + self._descent()).max(initial=0.0))

    def _descent(self) -> np.ndarray:
        """a_k·w = −(Kα)_k/λ, (n_planes,); not by BLAS, whose bits depend on its threads."""
        return -(self.gram * self.alpha).sum(axis=1) / self.lam

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

    The model is the iterate with the least objective; `phi` in the history is (f_min − lower bound) / f_min.
    """

    def __init__(self, objective: Objective, labels: np.ndarray, n_lanes: int, options: SvmperfOptions) -> None:
        """Raises MemoryError."""
        super().__init__(objective, panel_widths(n_lanes, options.precision), labels)
        self.limit, self.max_steps = options.svmperf_epsilon / 100, options.step_limit

    def _begin(self, panel: Panel, label: int) -> CuttingPlanes:
        return CuttingPlanes(self.objective.lam, label, panel.counts[self.objective.comm.rank] // panel.width, panel.w.dtype)

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        objective, seconds = self.objective, stop.seconds
        objective.evaluate([panel for _, panel in panels], stop)
        finished = []
        for p, panel in panels:
            # The values at w_t; the lanes that are done, and how.
            f, grad_sq = panel.gather()
            losses, improved, done = panel.mean_losses(), np.zeros(panel.width, dtype=np.bool_), list[tuple[int, int]]()
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
            with objective.profile("compute"):
                panel.keep(improved)
            for lane, status in done:
                training = self.training.pop((p, lane))
                w = panel.whole(lane, panel.best)
                with objective.profile("finish"):
                    least = objective.value(w, int(panel.labels[lane]), stop)
                panel.leave(lane)
                finished.append(Finished(training.label, w, least, status, len(training.history), 1.0, training.history))

            # The planes at w_t of the other lanes, and their w_{t+1}.
            lanes = {lane: self.training[p, lane] for lane in panel.active.tolist()}
            if not lanes:
                continue
            if any(len(training) == len(training.vectors) for training in lanes.values()):
                with mpi.agreed(objective.comm, "making room for the cutting planes"):
                    for training in lanes.values():
                        training.make_room()
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
        return finished


METHOD = LinearMethod(solver=SvmperfSolver)
