"""Forecasts of a method, for plans: memory, time and messages, by sizes, ranks and a machine.

A method's room has a `Forecaster`; its line in the registry names it. Times are sums of products:
work that the method does (values that a pass reads, columns that a sweep writes) times what a unit
of it costs on the machine, as `hpcml bench machine` has measured it with the method's own kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.errors import ConfigError

Curve = list[list[float]]  # [x, value], x ascending


class NoForecast(ConfigError):
    """The method, with these options, has no model of its time or memory."""


@dataclass(frozen=True)
class Sizes:
    """Of the rows to train on, and of the labels to train."""

    n_rows: int
    n_features: int
    n_values: int  # of the file's rows
    n_columns: int  # that have a weight, if features of one row share a column
    n_used: int  # features that some row has
    n_positive: np.ndarray  # (labels) int64: rows of each label that is to be trained
    n_labels: int  # of the file
    n_pairs: int  # of a row and a label
    file_bytes: int

    @property
    def n_trained(self) -> int:
        """Labels that have positive and negative rows."""
        return int(np.count_nonzero((self.n_positive > 0) & (self.n_positive < self.n_rows)))


@dataclass(frozen=True)
class Cluster:
    """Where it would run."""

    nodes: int
    ranks_per_node: int
    node_bytes: int  # memory of a node
    latency: float | None = None  # seconds of a message, α
    bandwidth: float | None = None  # bytes a second from a rank to another, β

    @property
    def n_ranks(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks_per_node

    def exchange(self, n_ranks: int, nbytes: float) -> float:
        """Seconds of a sum of so many bytes that all get (α–β model, Rabenseifner's algorithm).

        2 ⌈log₂ p⌉ α + 2 (p − 1)/p n/β. NaN if α and β are not known.
        """
        if n_ranks == 1:
            return 0.0
        if self.latency is None or self.bandwidth is None:
            return math.nan
        return 2 * math.ceil(math.log2(n_ranks)) * self.latency + sent(n_ranks, nbytes) / self.bandwidth


def sent(n_ranks: int, nbytes: float) -> float:
    """Bytes that each of some ranks sends for such a sum that all get: 2 (p − 1)/p n."""
    return 2 * (n_ranks - 1) / n_ranks * nbytes


@dataclass
class Machine:
    """Constants of a machine: curves by name, for each number of busy ranks on a node."""

    about: dict[str, Any]
    curves: dict[str, dict[str, Curve]]  # ranks (text) → name → curve
    beyond: set[str] = field(default_factory=set)  # constants that were asked for outside of what was measured

    def __call__(self, name: str, at: float, n_ranks: int) -> float:
        """A constant at `at` (log scale), with so many ranks of a node busy. Raises ConfigError."""
        counts = sorted(map(int, self.curves))
        if not counts or any(name not in self.curves[str(count)] for count in counts):
            raise ConfigError(f"the machine's file has no {name}; make it again with `hpcml bench machine --force`")
        found = []
        for count in counts:
            x, y = np.array(self.curves[str(count)][name]).T
            if not x[0] / 2 <= at <= x[-1] * 2:
                self.beyond.add(name)
            found.append(float(np.interp(math.log(max(at, 1e-9)), np.log(x), y)))
        if n_ranks > counts[-1]:
            self.beyond.add(f"more than {counts[-1]} busy ranks on a node")
        return float(np.interp(n_ranks, counts, found))


@dataclass
class Forecast:
    """What a training costs. Bytes are of the rank, or node, with most; NaN: not known."""

    layout: str  # how ranks share the work, in words
    own_bytes: dict[str, int]  # of a rank, by what they hold
    shared_bytes: int = 0  # of a node: rows that its ranks map
    seconds: dict[str, float] = field(default_factory=dict)  # by phase
    sent_bytes: float = 0.0  # by each rank
    scratch_bytes: int = 0  # on TMPDIR of each node
    model_bytes: int = 0
    checkpoint_bytes: int = 0
    measured: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


class Generated(Protocol):
    """Rows that constants are measured on: all of one set, and fewer with the same columns."""

    @property
    def rows(self) -> CompactRows:
        """All of them."""

    @property
    def fewer(self) -> CompactRows:
        """Some of them."""


Timer = Callable[[Callable[[], object]], float]  # seconds of a call
Measured = Mapping[str, tuple[float, float]]  # name → (x, seconds of a unit)


class Forecaster(Protocol):
    """A method's own part of a plan."""

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Constants, measured with the method's kernels on generated rows. Local."""

    def pilot(self, samples: Sequence[Any], options: Any, timer: Timer) -> Any:
        """Figures of the data, measured on samples of its rows; None if none are needed. Local."""

    def forecast(self, sizes: Sizes, cluster: Cluster, options: Any, machine: Machine, pilot: Any) -> Forecast:
        """Raises NoForecast."""
