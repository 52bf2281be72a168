"""`hpcml plan`: what a training would take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.methods.forecast import Cluster, Forecast, Machine, Sizes
from hpcml.methods.registry import Method
from hpcml.mpi.memory import memory_of_node
from hpcml.planning.machine import default_path, read_machine
from hpcml.planning.measure import busy_warning, processor_seconds
from hpcml.planning.sizes import LAWS, VALUES_PER_ROW, samples_of, sizes_from, sizes_of

PILOT_VALUES = 1 << 23  # of the larger of the two samples of a pilot


@dataclass(frozen=True)
class Given:
    """Figures that the user gives in place of data."""

    rows: int | None = None
    features: int | None = None
    labels: int | None = None
    values_per_row: float | None = None


@dataclass(frozen=True)
class Plan:
    """A forecast, and what it is of."""

    method: str
    data: Path | None
    sizes: Sizes
    cluster: Cluster
    machine: Machine
    forecast: Forecast
    command: list[str] = field(default_factory=list)

    @property
    def program_bytes(self) -> int:
        """Of a rank before it has any rows."""
        return int(self.machine.about["program_bytes"])

    @property
    def rank_bytes(self) -> int:
        """Resident memory of a rank, the rows that it shares with others of its node included."""
        return self.program_bytes + sum(self.forecast.own_bytes.values()) + self.forecast.shared_bytes

    @property
    def node_bytes(self) -> int:
        """Of a node: what its ranks hold, shared rows once."""
        own = self.program_bytes + sum(self.forecast.own_bytes.values())
        return self.cluster.ranks_per_node * own + self.forecast.shared_bytes

    @property
    def seconds(self) -> float:
        """From the start of the job to its end; NaN if something is not known."""
        return sum(self.forecast.seconds.values())


@mpi.collective
def cluster_of(
    comm: mpi.Comm, nodes: int, ranks_per_node: int | None, memory: float | None, latency: float | None, bandwidth: float | None
) -> Cluster:
    """Collective over `comm`. Nodes as the user says, else as those that this runs on.

    Raises ConfigError.
    """
    for flag, value in (("--nodes", nodes), ("--ranks-per-node", ranks_per_node)):
        if value is not None and not 1 <= value <= 10**6:
            raise ConfigError(f"{flag} {value}: expected a number from 1 to 1,000,000")
    for flag, number in (("--memory", memory), ("--latency", latency), ("--bandwidth", bandwidth)):
        if number is not None and not 0 < number < math.inf:
            raise ConfigError(f"{flag} {number:g}: expected a number above 0")
    here = int(mpi.allreduce_max(comm, mpi.ranks_on_node(comm)))
    node_bytes = int(-mpi.allreduce_max(comm, -float(memory_of_node()))) if memory is None else int(memory * 1e9)
    return Cluster(nodes, ranks_per_node or here, node_bytes, latency, None if bandwidth is None else bandwidth * 1e9)


@mpi.collective
def plan(
    comm: mpi.Comm,
    method: Method,
    data: Path | None,
    given: Given,
    cluster: Cluster,
    options: Any,
    file: Path | None,
    pilot: bool,
    log: Log,
) -> Plan:
    """Collective over `comm`. The plan of a training. Raises ConfigError, DataError."""
    options.validate()
    forecaster = method.load(method.forecast)
    machine: Any = None
    with mpi.agreed(comm, "reading the machine's constants"):
        machine = read_machine(file or default_path())
    numbers = [getattr(given, name) is not None for name in ("rows", "features", "labels")]
    found = None
    if data is not None:
        if any(numbers) or given.values_per_row is not None:
            raise ConfigError("--rows, --features, --labels and --values-per-row have no effect on DATA; leave them out")
        sizes, names = sizes_of(comm, data, options)
        if pilot:
            log("measuring a few labels on a sample of the rows")
            samples = samples_of(comm, data, options, PILOT_VALUES, True, names)
            with mpi.resting(comm, "measuring a pilot"):
                found = forecaster.pilot(samples, options, processor_seconds) if comm.rank == 0 else None
            found = comm.bcast(found)
            if found is None:
                raise ConfigError(f"--pilot has no effect on {method.name} with these options; leave it out")
    else:
        if not all(numbers):
            raise ConfigError("plan what? name a dataset, or give --rows, --features and --labels")
        if pilot:
            raise ConfigError("--pilot has no effect without DATA; leave it out")
        sizes = sizes_from(given.rows or 0, given.features or 0, given.labels or 0, given.values_per_row)
    cluster = _with_messages(cluster, machine)
    forecast = forecaster.forecast(sizes, cluster, options, machine, found)
    forecast.seconds = {"start": machine("start", 1, cluster.ranks_per_node), **forecast.seconds}
    _say_sources(forecast, data, given, machine, cluster)
    return Plan(method.name, data, sizes, cluster, machine, forecast)


def _with_messages(cluster: Cluster, machine: Machine) -> Cluster:
    """With the machine's latency and bandwidth where none are given."""
    about = machine.about
    return Cluster(
        cluster.nodes,
        cluster.ranks_per_node,
        cluster.node_bytes,
        about.get("latency") if cluster.latency is None else cluster.latency,
        about.get("bandwidth") if cluster.bandwidth is None else cluster.bandwidth,
    )


def _say_sources(forecast: Forecast, data: Path | None, given: Given, machine: Machine, cluster: Cluster) -> None:
    """Name the figures that are measured, and those that are assumed."""
    about = machine.about
    where = f"{about['processor']}, {about['date']}, hpcml {about['hpcml']}"
    forecast.measured.insert(0, f"what a value, a row and a column cost: on {where}")
    if about.get("quick"):
        forecast.assumed.append("the machine's constants were measured with --quick: they may be wrong by a factor")
    if warning := busy_warning(machine):
        forecast.assumed.append(warning)
    if data is not None:
        forecast.measured.insert(0, f"rows, columns and labels: of {data}")
    else:
        per_row = VALUES_PER_ROW if given.values_per_row is None else given.values_per_row
        forecast.assumed = [*LAWS, f"{per_row:g} values a row", *forecast.assumed]
    if machine.beyond:
        forecast.assumed.append(
            f"beyond what was measured on the machine, as at the nearest point: {', '.join(sorted(machine.beyond))}"
        )
    if cluster.nodes > 1 and int(about.get("nodes", 1)) == 1:
        forecast.assumed.append("all nodes are like the one that was measured, and share nothing but files")
    if "messages" in forecast.seconds:
        given_here = cluster.latency != about.get("latency")
        source = "as given" if given_here else f"as between {about['ranks']} ranks on {about['nodes']} node(s)"
        forecast.assumed.append(f"latency and bandwidth of messages {source}")


def as_json(plan: Plan) -> dict[str, Any]:
    """All of it, for programs."""
    sizes, forecast = plan.sizes, plan.forecast
    return {
        "method": plan.method,
        "rows": sizes.n_rows,
        "features": sizes.n_features,
        "columns": sizes.n_columns,
        "values": sizes.n_values,
        "labels": int(sizes.n_positive.size),
        "trained_labels": sizes.n_trained,
        "nodes": plan.cluster.nodes,
        "ranks_per_node": plan.cluster.ranks_per_node,
        "layout": forecast.layout,
        "rank_bytes": plan.rank_bytes,
        "node_bytes": plan.node_bytes,
        "own_bytes": {"program": plan.program_bytes, **forecast.own_bytes},
        "shared_bytes": forecast.shared_bytes,
        "sent_bytes": forecast.sent_bytes,
        "scratch_bytes": forecast.scratch_bytes,
        "model_bytes": forecast.model_bytes,
        "checkpoint_bytes": forecast.checkpoint_bytes,
        "seconds": {name: None if math.isnan(value) else value for name, value in forecast.seconds.items()},
        "total_seconds": None if math.isnan(plan.seconds) else plan.seconds,
        "node_hours": None if math.isnan(plan.seconds) else plan.seconds * plan.cluster.nodes / 3600,
        "measured": forecast.measured,
        "assumed": forecast.assumed,
        "command": plan.command,
    }
