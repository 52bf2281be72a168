"""Dual coordinate ascent, row after row: for labels with so many features that all rows count.

Where Λ₂ > 0, the minimum has w = soft(v, Λ₁) / Λ₂ with v = Σ α x, and the α = −ℓ′ of the rows are
the maximum of a smooth dual (Shalev-Shwartz & Zhang 2014, proximal SDCA). A visit of a row finds
its best α, as if the features in use stayed the same. Most do; and steps for all features, as the
theory has them, are too short where few are in use. The intercept has no Λ₂: it is held to where
it was by ½ σ (b − b₀)², and after each pass b₀ becomes b (the proximal point method), so that
Σ α = 0 at the end. The rows come in runs of 16 that lie together, for the memory's sake, in an
order keyed by the seed and the pass.

A pass costs the same for every label. What it leaves is judged as Newton steps are.
"""

from __future__ import annotations

import math

import numpy as np

from hpcml import rng, slices
from hpcml.methods.elastic_net import ascent_kernels as kernels
from hpcml.methods.elastic_net.ascent_kernels import PROXIMAL, Duals
from hpcml.methods.elastic_net.judge import Judge, Label

RUN = 16  # rows; single rows take twice the time among 35,000 rows, 64 a few more passes
PASSES = 4  # between two judgements
ROUNDS = 12  # of so many passes at most, before Newton steps take over
STIFF = 1000.0  # times Λ₂ the mean squared norm of the rows may be


class Ascent:
    """One label after the other. Making one is local; raises MemoryError."""

    rounds = 0  # of the label so far
    b = 0.0

    def __init__(self, judge: Judge) -> None:
        rows = judge.risk.rows
        self.judge, self.strengths = judge, judge.strengths
        self.possible = rows.scale <= STIFF * judge.l2
        size = rows.n_local if self.possible else 0
        self.duals, self.v = Duals(*np.empty((4, size))), np.empty(rows.n_columns if self.possible else 0)
        if self.possible:
            kernels.squares_of(judge.risk.matrix, self.duals.squares)

    @property
    def going(self) -> bool:
        """Whether the label is in the middle of it, and not to be left to Newton steps."""
        return 0 < self.rounds < ROUNDS

    def go(self, label: Label) -> None:
        """Some passes over the rows, and the label's weights after them. Raises Stopped."""
        duals, (l1, l2) = self.duals, self.strengths
        if not self.rounds:
            duals.signs[:] = -1.0
            duals.signs[label.touched[: label.losses.n_positive]] = 1.0
            duals.values[:], duals.logits[:], self.v[:], self.b = 0.0, -math.inf, 0.0, label.b
        for number in range(PASSES * self.rounds, PASSES * (self.rounds + 1)):
            self._pass(number)
        self.rounds += 1
        columns = np.flatnonzero(np.abs(self.v) > l1)
        w = (self.v[columns] - np.clip(self.v[columns], -l1, l1)) / l2
        self.judge.take_weights(label, self.judge.gather(label, columns), columns, w, self.b)

    def _pass(self, number: int) -> None:
        """Visit all rows. Raises Stopped."""
        rows, stop = self.judge.risk.rows, self.judge.stop
        n = rows.n_local
        keys = rng.bits(self.judge.risk.seed, f"runs of rows, pass {number}", np.arange(-(-n // RUN)))
        order = (RUN * np.argsort(keys, kind="stable")[:, None] + np.arange(RUN)).ravel()
        order = order[order < n]
        for some in stop.slices(slices.row_slices(n, rows.data.size)):
            self.visit(order[some])
        self.b += float(self.duals.values.sum()) / PROXIMAL

    def visit(self, order: np.ndarray) -> None:
        """Visit these rows in this order. Local."""
        self.b = kernels.ascend(self.judge.risk.matrix, order, self.duals, self.v, self.b, self.strengths, self.judge.squared)
