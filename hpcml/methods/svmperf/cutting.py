"""The 1-slack cutting-plane method of a label (Joachims 2006, Algorithm 3), without vectors.

A plane at w_t is a_t = a subgradient of R at w_t and b_t = R(w_t) − a_t·w_t, so that R(w) ≥ ξ(w) =
max(0, max_k a_k·w + b_k). The next w minimises λ/2‖w‖² + ξ(w); a step is over when R(w) − ξ(w) is
small.

**ε.** The program SVMperf minimises ½‖w‖² + C ξ₁₀₀ and counts losses in percent: ξ₁₀₀ = 100 ξ. With
C = 1/(100λ) that is f(w)/λ, the same minimiser. It stops when 100 R(w) ≤ ξ₁₀₀ + ε, in our scaling
when R(w) − ξ(w) ≤ ε/100 (the article's own ε is that ε/100; see the footnote in Smith, Kim & Wilbur
2012). As λ/2‖w‖² + ξ(w) is the dual value when α is optimal, R(w) − ξ(w) is then f(w) −
lower_bound: ε = 0.1 promises f(w) − min f ≤ 0.001, in units of f and not relative to it.
"""

from __future__ import annotations

import numpy as np

from hpcml.errors import ConfigError, HpcmlError

try:
    import daqp
except ImportError:
    raise ConfigError("svmperf needs the package daqp; install it with: pip install 'hpcml[svmperf]'") from None

EPSILON = 0.1  # ε: SVMperf's default, in percent of the rows
IDLE_LIMIT = 50  # SVMperf drops a plane after so many solves without it
NEGLIGIBLE = 1e-11  # a smaller α is the solver's rounding of 0
DAQP = {"eps_prox": -1e-6, "primal_tol": 1e-12, "eta_prox": 1e-12, "iter_limit": 10_000}  # < 0: regularise if singular


def violation_limit(epsilon: float = EPSILON) -> float:
    """The R(w) − ξ(w) at which SVMperf's `epsilon` stops (percent → share)."""
    return epsilon / 100


class CuttingPlanes:
    """The planes' inner products K, offsets b and duals α; the caller keeps the vectors a_k.

    Attributes
    ----------
    lam : float, λ
    gram : (n_planes, n_planes), K = (a_j·a_k)
    offsets, alpha : (n_planes,)
    idle : (n_planes,) int64, how many solves in a row gave α_k = 0
    """

    def __init__(self, lam: float) -> None:
        self.lam = lam
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

        It starts afresh each time, so that a run that resumes gets the same bits. HpcmlError if the
        solver gives up.
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
