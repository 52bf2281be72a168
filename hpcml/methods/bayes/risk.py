"""What labels share: the rows as sets of features, weights by counts, what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hpcml import slices
from hpcml.data.compact import CompactRows
from hpcml.errors import ConfigError
from hpcml.methods.bayes import kernels
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.linear.objective import Risk
from hpcml.model.combination import BOOSTED, STAGED, Combination
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

WIDEST = 2**31 - 1  # columns of a sparse model


def combination_of(options: BernoulliNBOptions, n_columns: int) -> Combination | None:
    """Return how the parts of a label are combined; None of a method with one part."""
    if isinstance(options, BoostedBayesOptions):
        return Combination(BOOSTED, options.rounds, n_columns)
    if isinstance(options, StagedBayesOptions | StagedSvmOptions):
        return Combination(STAGED, options.stages, n_columns, options.cut, (1.0, *[options.factor] * (options.stages - 1)))
    return None


class BayesRisk(Risk):
    """The rows (a feature is present where it is not 0), the smoothing, the least weight."""

    shares_columns = False  # every feature is counted for itself

    def __init__(self, rows: CompactRows, options: BernoulliNBOptions, profile: Profile) -> None:
        """Raises ConfigError if the parts are too wide for a model."""
        super().__init__(rows, options, profile)
        self.smoothing, self.min_weight = options.smoothing, options.min_weight
        self.about = {"binary": True, "smoothing": options.smoothing, "min_weight": options.min_weight}
        self.combination = combination_of(options, rows.n_columns)
        if self.combination is not None:
            self.n_parts = self.combination.n_parts
            self.row_width(rows.n_columns)  # an error now, not after hours
            self.about |= self.combination.about

    def is_left_out(self, number: int, columns: np.ndarray) -> np.ndarray:
        """Which columns are hidden from label `number`: its own heading, and for all."""
        return np.zeros(columns.size, np.bool_) if self.headings is None else self.headings.hides(number, columns)

    def row_width(self, n_columns: int) -> int:
        """A weight of each column and part, and the rule's numbers. Raises ConfigError."""
        if self.combination is None:
            return n_columns
        parts = self.combination.n_parts
        numbers = 2 + 2 * self.rows.n_global if self.combination.kind == BOOSTED else 1
        width = parts * (n_columns + numbers)
        if width > WIDEST:
            raise ConfigError(
                f"{parts} times {n_columns:,} features are too many for a model; choose fewer rounds, stages or features"
            )
        return width


class Weights(NamedTuple):
    """Weights of columns (ascending), and a bias: the score of a row that has none of them."""

    columns: np.ndarray
    values: np.ndarray
    bias: float = 0.0


NONE = Weights(np.zeros(0, np.int64), np.zeros(0))


class Counter:
    """Counts of features, and weights from them, label by label. Local; raises MemoryError."""

    def __init__(self, risk: BayesRisk) -> None:
        n_columns = risk.rows.n_columns
        self.risk, self.rows = risk, risk.rows
        self.stop: Stop = NEVER  # of the labels that are being trained
        self.counts, self.met = np.zeros(n_columns, np.int64), np.empty(n_columns, np.int64)
        self.sums = np.zeros(n_columns)
        self.place = np.full(n_columns, -1, np.int64)

    def count(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns (ascending) that some rows have, and how many of the rows have each."""
        indptr, indices = self.rows.indptr, self.rows.indices
        columns = np.sort(self.met[: kernels.count(indptr, indices, rows, self.counts, self.met, 0)])
        counts = self.counts[columns]
        self.counts[columns] = 0
        return columns, counts

    def counts_of(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """How many of some rows have each of the columns."""
        found, counts = self.count(rows)
        self.counts[found] = counts
        out = self.counts[columns]
        self.counts[found] = 0
        return out

    def summed(self, columns: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The sum, for each column, of the weights of `rows` that have it. Raises Stopped."""
        try:
            for some in self._slices(rows):
                kernels.add_weights(self.rows.indptr, self.rows.indices, rows[some], weights[some], self.sums)
            return self.sums[columns]
        finally:
            self.sums[:] = 0.0

    def scores(self, found: Weights, rows: np.ndarray) -> np.ndarray:
        """The sums of the weights that rows have: the bits of `hpcml predict`. Raises Stopped."""
        out = np.empty(rows.size)
        self.sums[found.columns] = found.values
        try:
            for some in self._slices(rows):
                kernels.score(self.rows.indptr, self.rows.indices, rows[some], self.sums, out[some])
        finally:
            self.sums[found.columns] = 0.0
        return out

    def matrix(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """indptr and indices (places in `columns`) of the columns that some rows have."""
        arrays, indptr = (self.rows.indptr, self.rows.indices, rows, self.place), np.zeros(rows.size + 1, np.int64)
        self.place[columns] = np.arange(columns.size)
        kernels.select(*arrays, indptr, np.zeros(0, np.int32))
        indices = np.empty(int(indptr[-1]), np.int32)
        kernels.select(*arrays, indptr, indices)
        self.place[columns] = -1
        return indptr, indices

    def _slices(self, rows: np.ndarray) -> Iterator[slice]:
        """Slices of `rows`, between which the rank looks whether it is to stop."""
        n_values = rows.size * self.rows.data.size // max(1, self.rows.n_local)
        yield from self.stop.slices(slices.row_slices(rows.size, n_values))

    def weights(
        self, number: int, columns: np.ndarray, positive: np.ndarray, negative: np.ndarray, n_positive: float, n_negative: float
    ) -> Weights:
        """The weights of columns, without small ones and what is left out for label `number`.

        `positive` of the `n_positive` rows with the label have a column, `negative` of the
        `n_negative` others; or so much weight.
        """
        w, absent = np.empty((2, columns.size))
        counts = positive.astype(np.float64), negative.astype(np.float64)
        kernels.log_odds(*counts, float(n_positive), float(n_negative), self.risk.smoothing, w, absent)
        kept = (np.abs(w) >= self.risk.min_weight) & (w != 0) & ~self.risk.is_left_out(number, columns)
        return Weights(columns[kept], w[kept], float(np.add.accumulate(np.append(0.0, absent[kept]))[-1]))

    def of_all_rows(self, number: int, columns: np.ndarray, counts: np.ndarray, n_positive: int) -> Weights:
        """A label's weights by all rows; `counts` of its rows have the columns."""
        others = self.rows.counts[columns] - counts
        return self.weights(number, columns, counts, others, n_positive, self.rows.n_global - n_positive)
