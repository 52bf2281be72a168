"""What the single-pass learners take: every rank reads all rows, for its labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.data.shard import Shard
from hpcml.methods.forecast import Cluster, Forecast, Generated, Machine, Measured, NoForecast, Sizes, Timer
from hpcml.methods.online.learners import LEARNERS
from hpcml.methods.online.options import AdditiveOptions, BalancedOptions, MbwOptions, OnlineOptions, PaOptions, WinnowOptions
from hpcml.methods.online.source import labels_of
from hpcml.methods.online.state import State
from hpcml.partition import offsets

MANY = 16  # labels of a rank, beside one, that constants are measured with
OPTIONS: dict[str, type[OnlineOptions]] = {
    **{"pw": WinnowOptions, "bw": BalancedOptions, "mbw": MbwOptions},
    **{"perceptron": AdditiveOptions, "pa": PaOptions, "romma": AdditiveOptions},
}


class OnlineForecaster:
    """See `hpcml.methods.forecast.Forecaster`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Constants at one number of columns, with labels that few rows have."""
        rows = made.fewer
        seconds = {}
        for n_labels in (1, MANY):
            labels = np.arange(rows.n_labels - n_labels, rows.n_labels)
            state = State(OPTIONS[self.name](), self.name, rows.n_labels, rows.n_columns, labels)
            shard = _shard(rows)
            state.learn(shard, shard.rows[:0])
            state.learn(shard, shard.rows)
            seconds[n_labels] = min(timer(partial(state.learn, shard, shard.rows)) for _ in range(2)) / rows.data.size
        more = max(0.0, seconds[MANY] - seconds[1]) / (MANY - 1)
        return {
            f"{self.name}.value": (made.rows.n_columns, max(0.0, seconds[1] - more)),
            f"{self.name}.label": (made.rows.n_columns, more),
        }

    def pilot(self, samples: Sequence[CompactRows], options: OnlineOptions, timer: Timer) -> None:
        """Nothing: one pass is one pass."""

    def forecast(self, sizes: Sizes, cluster: Cluster, options: OnlineOptions, machine: Machine, pilot: None) -> Forecast:
        """Raises NoForecast."""
        for flag, given in (("live-features", getattr(options, "live_features", None)), ("voted", options.voted)):
            if given:
                raise NoForecast(f"no time model for {self.name} with --{flag}")
        busy, n_labels = cluster.ranks_per_node, sizes.n_positive.size
        mine = labels_of(sizes.n_positive, 0, cluster.n_ranks).size
        state = State(options, self.name, max(1, mine), 0)  # without room for features: how wide is a line of weights?
        weights = state.weights.shape[1] * state.weights.itemsize * (sizes.n_features + 1)
        n_vectors = len(state.array_names())
        kept = 1 if options.final else 1 + n_vectors
        found = Forecast(
            layout=f"each rank reads all rows, for {mine:,} labels at most",
            own_bytes={"weights": weights, "pages of the data file": 8 * sizes.n_values + 4 * sizes.n_pairs + 40 * sizes.n_rows},
            model_bytes=n_labels * (8 * kept * sizes.n_used + 64) + 8 * sizes.n_features,
            checkpoint_bytes=n_labels * 8 * n_vectors * sizes.n_used,
        )
        per_value = machine(f"{self.name}.value", sizes.n_columns, busy) + mine * machine(
            f"{self.name}.label", sizes.n_columns, busy
        )
        found.seconds = {
            "read the file": sizes.file_bytes * machine("disk.read", 1, busy),
            "train": sizes.n_values * per_value,
            "write the model": found.model_bytes * machine("disk.write", 1, busy),
        }
        found.assumed.append("few rows change a label's model; the time grows by as much with every label of a rank")
        if options.shuffle:
            found.assumed.append("rows in random order take no longer")
        return found


def _shard(rows: CompactRows) -> Shard:
    """The rows, as those of a file."""
    n = rows.n_global
    owners = np.repeat(np.arange(rows.n_labels), np.diff(rows.label_indptr))
    order = np.argsort(rows.label_rows, kind="stable")
    y_indptr = offsets(np.bincount(rows.label_rows, minlength=n))
    y_indices = owners[order].astype(np.int32)
    return Shard(0, np.arange(n), rows.indptr, rows.indices, rows.data, y_indptr, y_indices, n, 0, rows.n_columns, rows.n_labels)


PW, BW, MBW = (OnlineForecaster(name) for name in ("pw", "bw", "mbw"))
PERCEPTRON, PA, ROMMA = (OnlineForecaster(name) for name in ("perceptron", "pa", "romma"))
assert set(OPTIONS) == set(LEARNERS)
