"""Memory and disk of the single-pass learners, not their time; every rank reads all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcml.data.compact import CompactRows
from hpcml.methods.forecast import Cluster, Forecast, Generated, Machine, Measured, NoForecast, Sizes, Timer
from hpcml.methods.online.options import OnlineOptions
from hpcml.methods.online.source import labels_of
from hpcml.methods.online.state import LearnerState


class OnlineForecaster:
    """See `hpcml.methods.forecast.Forecaster`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Nothing: there is no model of the time of a pass."""
        return {}

    def pilot(self, samples: Sequence[CompactRows], options: OnlineOptions, timer: Timer) -> None:
        """Nothing: one pass is one pass."""

    def forecast(self, sizes: Sizes, cluster: Cluster, options: OnlineOptions, machine: Machine, pilot: None) -> Forecast:
        """Raises NoForecast."""
        if getattr(options, "live_features", None):
            raise NoForecast(f"no plan of {self.name} with --live-features: its memory is fixed by that option alone")
        busy, n_labels = cluster.ranks_per_node, sizes.n_positive.size
        mine = labels_of(sizes.n_positive, 0, cluster.n_ranks).size
        state = LearnerState(options, self.name, max(1, mine), 0)  # without room for features: how wide is a line of weights?
        weights = state.weights.shape[1] * state.weights.itemsize * (sizes.n_features + 1)
        n_vectors = len(state.array_names())
        kept = 1 if options.final else 1 + n_vectors
        found = Forecast(
            layout=f"each rank reads all rows, for {mine:,} labels at most",
            own_bytes={"weights": weights, "pages of the data file": 8 * sizes.n_values + 4 * sizes.n_pairs + 40 * sizes.n_rows},
            model_bytes=n_labels * (8 * kept * sizes.n_used + 64) + 8 * sizes.n_features,
            checkpoint_bytes=n_labels * 8 * n_vectors * sizes.n_used,
        )
        found.seconds = {
            "read the file": sizes.file_bytes * machine("disk.read", 1, busy),
            "train": math.nan,
            "write the model": found.model_bytes * machine("disk.write", 1, busy),
        }
        return found


PW, BW, MBW = (OnlineForecaster(name) for name in ("pw", "bw", "mbw"))
PERCEPTRON, PA, ROMMA = (OnlineForecaster(name) for name in ("perceptron", "pa", "romma"))
