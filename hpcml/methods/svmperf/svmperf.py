"""SVMperf: 1-slack cutting planes (Joachims 2006, Algorithm 3), on PROBE's passes.

A step makes one pass, which gives R(w_t) and the plane a_t = Σ ∂ℓ / m, b_t = R(w_t) − a_t·w_t, so that R(w) ≥ ξ(w) = max(0, max_k
a_k·w + b_k). The next w minimises λ/2‖w‖² + ξ(w); the label is done when R(w) − ξ(w) is small. `CuttingPlanes` computes the next w
from the planes' inner products. Each rank stores its columns of every plane, in the precision of the weights, and the stored planes
define the program. A plane rounded to float32 changes the lower bound by about 10⁻⁷ of f, as rounding w does.

Planes are not checkpointed: a resumed label restarts and gets the same bits.

**ε.** SVMperf minimises ½‖w‖² + C ξ₁₀₀ with losses in percent, ξ₁₀₀ = 100 ξ. For C = 1/(100λ) this is f(w)/λ. It stops when 100
R(w) ≤ ξ₁₀₀ + ε, that is R(w) − ξ(w) ≤ ε/100 (the article's own ε is that ε/100; see the footnote in Smith, Kim & Wilbur 2012). As
λ/2‖w‖² + ξ(w) is the dual value when α is optimal, R(w) − ξ(w) is then f(w) − lower_bound: ε = 0.1 guarantees f(w) − min f ≤ 0.001,
in units of f.
"""

import math

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, HpcmlError
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, Panel, panel_widths
from hpcml.methods.linear.panel_kernels import CHUNK, VIOLATORS, VISITED
from hpcml.methods.linear.panels import PanelSolver
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.svmperf import kernels
from hpcml.methods.svmperf.options import SvmperfOptions
from hpcml.run.stop import Stop

try:
    import daqp
except ImportError:
    raise ConfigError("svmperf needs the package daqp; install it with: pip install 'hpcml[svmperf]'") from None

ROOM = 16  # initial capacity for planes; doubled when full
IDLE_LIMIT = 50  # solves with α = 0 after which a plane is dropped, as in SVMperf
NEGLIGIBLE = 1e-11  # a smaller α is a rounded 0
DAQP = {"eps_prox": -1e-6, "primal_tol": 1e-12, "eta_prox": 1e-12, "iter_limit": 10_000}  # eps_prox < 0: regularise if singular


class CuttingPlanes:
    """The cutting planes of a label: inner products K = (a_j·a_k) in `gram`, offsets b, duals α, and vectors a_k (own columns)."""

    def __init__(self, lam: float, label: int = 0, n_columns: int = 0, dtype: np.dtype | type = np.float64) -> None:
        self.lam, self.label, self.vectors = lam, label, np.empty((0, n_columns), dtype)
        self.f_min, self.history = math.inf, list[tuple[float, ...]]()
        self.gram = np.zeros((0, 0))
        self.offsets = np.zeros(0)
        self.alpha = np.zeros(0)
        self.idle = np.zeros(0, dtype=np.int64)  # consecutive solves with α_k = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, products: np.ndarray, offset: float) -> None:
        """Append a plane; products (n_planes + 1,): a·a_k in order, then a·a."""
        n = len(self)
        self.gram = np.pad(self.gram, (0, 1))
        self.gram[n, :] = self.gram[:, n] = products
        self.offsets = np.append(self.offsets, offset)
        self.alpha = np.append(self.alpha, 0.0)
        self.idle = np.append(self.idle, 0)

    def solve(self) -> np.ndarray:
        """Return α ≥ 0, Σα ≤ 1 (n_planes,), which maximises α·b − αᵀKα/2λ; no warm start. Raises HpcmlError if it fails."""
        n = len(self)
        lower, upper = np.zeros(n + 1), np.ones(n + 1)  # the bounds of α, then of Σα
        alpha, _, flag, _ = daqp.solve(self.gram / self.lam, -self.offsets, np.ones((1, n)), upper, lower, **DAQP)
        if flag < 1 or not np.isfinite(alpha).all():
            raise HpcmlError(
                f"svmperf: the quadratic program of {n} cutting planes was not solved (DAQP flag {flag}); use another method"
            )
        alpha = np.where(alpha > NEGLIGIBLE, alpha, 0.0)  # lower_bound needs a feasible α
        self.alpha = alpha / max(1.0, alpha.sum())
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        return self.alpha

    def drop(self, idle: int = IDLE_LIMIT) -> np.ndarray:
        """Remove planes with α = 0 in the last `idle` solves; return their ascending indices."""
        keep = self.idle < idle
        self.gram = self.gram[np.ix_(keep, keep)]
        self.offsets, self.alpha, self.idle = self.offsets[keep], self.alpha[keep], self.idle[keep]
        return np.flatnonzero(~keep)

    @property
    def lower_bound(self) -> float:
        """Dual value of α; at most min f for any feasible α."""
        return float((self.alpha * (self.offsets + self._descent() / 2)).sum())

    @property
    def slack(self) -> float:
        return float((self.offsets + self._descent()).max(initial=0.0))

    def _descent(self) -> np.ndarray:
        """Return a_k·w = −(Kα)_k/λ (n_planes,), without BLAS, whose bits depend on its threads."""
        return -(self.gram * self.alpha).sum(axis=1) / self.lam

    def make_room(self) -> None:
        n = len(self)
        if n == len(self.vectors):
            vectors = np.empty((max(ROOM, 2 * n), self.vectors.shape[1]), self.vectors.dtype)
            vectors[:n] = self.vectors
            self.vectors = vectors

    def add_vector(self, panel: Panel, lane: int) -> np.ndarray:
        """Store own columns of a_t; return its products with all planes and w_t, by chunk (chunks, n + 2)."""
        n = len(self)
        np.divide(panel.lane(panel.g_own, lane), panel.objective.rows.n_global, out=self.vectors[n], casting="same_kind")
        w = np.ascontiguousarray(panel.lane(panel.w[panel.own], lane))
        out = np.empty((-(-w.size // CHUNK), n + 2))
        kernels.products(self.vectors[: n + 1], w, out)
        return out

    def next_weights(self) -> np.ndarray:
        """Return own columns of w_{t+1} = −(1/λ) Σ α_k a_k and drop idle planes. Raises HpcmlError."""
        n = len(self)
        w = np.empty(self.vectors.shape[1], self.vectors.dtype)
        kernels.combine(self.vectors[:n], -self.solve() / self.lam, w)
        if (dropped := self.drop()).size:
            self.vectors[: len(self)] = np.delete(self.vectors[:n], dropped, axis=0)
        return w


class SvmperfSolver(PanelSolver):
    """Trains labels by cutting planes; a resumed run restarts unfinished labels.

    The model is the iterate with the smallest objective; `phi` in the history is (f_min − lower bound) / f_min.
    """

    def __init__(self, objective: Objective, labels: np.ndarray, n_lanes: int, options: SvmperfOptions) -> None:
        super().__init__(objective, panel_widths(n_lanes, options.precision), labels)
        self.limit, self.max_steps = options.svmperf_epsilon / 100, options.step_limit

    def _begin(self, panel: Panel, label: int) -> CuttingPlanes:
        return CuttingPlanes(self.objective.lam, label, panel.counts[self.objective.comm.rank] // panel.width, panel.w.dtype)

    def _step(self, panels: list[tuple[int, Panel]], stop: Stop) -> list[Finished]:
        objective, seconds = self.objective, stop.seconds
        objective.evaluate([panel for _, panel in panels], stop)
        finished = []
        for p, panel in panels:
            # Objectives at w_t, and finished lanes with their status.
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
                panel.store_best(improved)
            for lane, status in done:
                training = self.training.pop((p, lane))
                w = panel.gather_weights(lane, panel.best)
                with objective.profile("finish"):
                    least = objective.value(w, int(panel.labels[lane]), stop)
                panel.release(lane)
                finished.append(Finished(training.label, w, least, status, len(training.history), 1.0, training.history))

            # New planes at w_t and next weights of the other lanes.
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
            panel.set_weights(weights)
        return finished


METHOD = LinearMethod(solver=SvmperfSolver)
