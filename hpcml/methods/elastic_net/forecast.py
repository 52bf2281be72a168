"""Memory, time and messages of the elastic net by stochastic gradient descent.

The exact solver has no model: its time follows the features that it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.methods.elastic_net.delayed import DelayedSolver
from hpcml.methods.elastic_net.judge import ElasticRisk
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.elastic_net.train import METHOD
from hpcml.methods.forecast import Cluster, Forecast, Generated, Machine, Measured, NoForecast, Sizes, Timer
from hpcml.methods.linear import forecast as linear
from hpcml.methods.linear.layout import LANES
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

REPEATS = 2  # of a measurement, whose least counts: what another process does only adds to it


class ElasticForecaster:
    """See `hpcml.methods.forecast.Forecaster`."""

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Constants at one number of columns."""
        (index, passes, judging), (_, pass_of_few, _) = (_least(rows, timer) for rows in (made.rows, made.fewer))
        n, n_few, d = made.rows.data.size, made.fewer.data.size, made.rows.n_columns
        value = max(0.0, passes - pass_of_few) / (n - n_few)
        return {
            "elastic.index": (made.rows.n_columns, index / n),
            "elastic.value": (made.rows.n_columns, value),
            "elastic.column": (d, max(0.0, pass_of_few - n_few * value) / d),
            "elastic.judge": (made.rows.n_columns, judging / n / LANES),
        }

    def pilot(self, samples: Sequence[CompactRows], options: ElasticNetOptions, timer: Timer) -> None:
        """Nothing: as many passes as the user says."""

    def forecast(self, sizes: Sizes, cluster: Cluster, options: ElasticNetOptions, machine: Machine, pilot: None) -> Forecast:
        """Raises NoForecast."""
        if options.solver == "newton":
            raise NoForecast(
                "no time model for elastic-net --solver newton: it follows the features that each label needs; there is one for "
                "--solver fobos and sgd"
            )
        if options.rate == "adagrad" or options.precision != "single":
            raise NoForecast("no time model for elastic-net with --rate adagrad or --precision double")
        sizes = replace(sizes, n_columns=sizes.n_used)  # no two features share a column
        layout = linear.layout_of(METHOD, sizes, cluster, options)
        found = linear.begin(METHOD, sizes, cluster, options, machine, layout)
        busy, d = cluster.ranks_per_node, sizes.n_columns
        labels = -(-sizes.n_trained // layout.n_groups)
        n_panels = -(-labels // layout.n_lanes)
        one_pass = sizes.n_values * machine("elastic.value", sizes.n_columns, busy) + d * machine("elastic.column", d, busy)
        found.seconds["load"] += sizes.n_values * machine("elastic.index", sizes.n_columns, busy) / busy
        found.seconds["train"] = n_panels * options.passes * one_pass
        found.seconds["train"] += labels * sizes.n_values * machine("elastic.judge", sizes.n_columns, busy)
        found.assumed.append("the last look at a label reads all rows, as where most of its weights are not 0")
        found.assumed.append("the model as large as if no weight were 0")
        return found


def _least(rows: CompactRows, timer: Timer) -> list[float]:
    """The least of several measurements, of each."""
    return [min(each) for each in zip(*(_seconds(rows, timer) for _ in range(REPEATS)), strict=True)]


def _seconds(rows: CompactRows, timer: Timer) -> tuple[float, float, float]:
    """Of indexing rows, of a pass of 16 rare labels, and of judging these at its end."""
    options = ElasticNetOptions(solver="fobos", loss="logistic", passes=3)
    risk = ElasticRisk(rows, options, Profile())
    index = timer(lambda: risk.prepare(mpi.self_comm()))
    labels = np.flatnonzero(rows.n_positive > 0)[-LANES:]
    turns = DelayedSolver(risk, labels, LANES, options).solve(range(labels.size), NEVER)
    next(turns)
    one_pass = timer(lambda: next(turns))
    both = timer(lambda: next(turns))  # the last pass, and the judgement
    return index, one_pass, max(0.0, both - one_pass)


FORECAST = ElasticForecaster()
