"""`hpcml plan`: what a training would take, and the command line of it."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.methods.forecast import Cluster, Forecast, Machine, Sizes
from hpcml.methods.registry import Method
from hpcml.mpi.memory import memory_of_node
from hpcml.options import default_of, flag_of
from hpcml.planning.machine import default_path, read_machine
from hpcml.planning.measure import busy_warning, processor_seconds
from hpcml.planning.options import PlanOptions
from hpcml.planning.sizes import LAWS, VALUES_PER_ROW, read_samples, sizes_from, sizes_of

SPARE = 1.5  # times the planned time that a job asks for
LEAST_MINUTES = 10
PILOT_VALUES = 1 << 23  # of the larger of the two samples of a pilot
BYTES = ("shared_bytes", "sent_bytes", "scratch_bytes", "model_bytes", "checkpoint_bytes")  # of a forecast


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


def cluster_of(comm: mpi.Comm, wanted: PlanOptions) -> Cluster:
    """Collective over `comm`. Nodes as the user says, else as those that this runs on.

    Raises ConfigError.
    """
    for flag, value in (("--nodes", wanted.nodes), ("--ranks-per-node", wanted.ranks_per_node)):
        if value is not None and not 1 <= value <= 10**6:
            raise ConfigError(f"{flag} {value}: expected a number from 1 to 1,000,000")
    memory, bandwidth = wanted.memory, wanted.bandwidth
    for flag, number in (("--memory", memory), ("--latency", wanted.latency), ("--bandwidth", bandwidth)):
        if number is not None and not 0 < number < math.inf:
            raise ConfigError(f"{flag} {number:g}: expected a number above 0")
    here = int(mpi.allreduce_max(comm, mpi.ranks_on_node(comm)))
    node_bytes = int(-mpi.allreduce_max(comm, -float(memory_of_node()))) if memory is None else int(memory * 1e9)
    bandwidth = None if bandwidth is None else bandwidth * 1e9
    return Cluster(wanted.nodes, wanted.ranks_per_node or here, node_bytes, wanted.latency, bandwidth)


def plan(comm: mpi.Comm, method: Method, data: Path | None, wanted: PlanOptions, options: Any, log: Log) -> Plan:
    """Collective over `comm`. The plan of a training. Raises ConfigError, DataError."""
    cluster = cluster_of(comm, wanted)
    options.validate()
    machine: Any = None
    with mpi.agreed(comm, "reading the machine's constants"):
        machine = read_machine(wanted.machine or default_path())
    if data is None:
        sizes, found = _sizes_without_data(wanted), None
    else:
        sizes, found = _measured(comm, method, data, wanted, options, log)
    unknown = [name for name in ("latency", "bandwidth") if getattr(cluster, name) is None]
    cluster = replace(cluster, **{name: machine.about.get(name) for name in unknown})
    forecast = method.load(method.forecast).forecast(sizes, cluster, options, machine, found)
    forecast.seconds = {"start": machine("start", 1, cluster.ranks_per_node), **forecast.seconds}
    _say_sources(forecast, data, wanted.values_per_row, machine, cluster)
    found = Plan(method.name, data, sizes, cluster, machine, forecast)
    found.command.extend(_commands(found, options))
    return found


def _measured(comm: mpi.Comm, method: Method, data: Path, wanted: PlanOptions, options: Any, log: Log) -> tuple[Sizes, Any]:
    """Collective over `comm`. The sizes of a dataset, and what a pilot found if one is wanted."""
    if any(value is not None for value in (wanted.rows, wanted.features, wanted.labels, wanted.values_per_row)):
        raise ConfigError("--rows, --features, --labels and --values-per-row have no effect on DATA; leave them out")
    sizes, names = sizes_of(comm, data, options)
    if not wanted.pilot:
        return sizes, None
    log("measuring a few labels on a sample of the rows")
    forecaster = method.load(method.forecast)

    def pilot() -> Any:
        return forecaster.pilot(read_samples(data, options, PILOT_VALUES, names), options, processor_seconds)

    found = mpi.run_on_root(comm, "measuring a pilot", pilot, sleep=True)
    if found is None:
        raise ConfigError(f"--pilot has no effect on {method.name} with these options; leave it out")
    return sizes, found


def _sizes_without_data(wanted: PlanOptions) -> Sizes:
    """The sizes of rows that nobody has yet. Raises ConfigError."""
    if wanted.rows is None or wanted.features is None or wanted.labels is None:
        raise ConfigError("plan what? name a dataset, or give --rows, --features and --labels")
    if wanted.pilot:
        raise ConfigError("--pilot has no effect without DATA; leave it out")
    return sizes_from(wanted.rows, wanted.features, wanted.labels, wanted.values_per_row)


def _say_sources(forecast: Forecast, data: Path | None, values: float | None, machine: Machine, cluster: Cluster) -> None:
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
        forecast.assumed = [*LAWS, f"{VALUES_PER_ROW if values is None else values:g} values a row", *forecast.assumed]
    if machine.beyond:
        beyond = ", ".join(sorted(machine.beyond))
        forecast.assumed.append(f"beyond what was measured on the machine, as at the nearest point: {beyond}")
    if cluster.nodes > 1 and int(about.get("nodes", 1)) == 1:
        forecast.assumed.append("all nodes are like the one that was measured, and share nothing but files")
    if "messages" in forecast.seconds:
        given_here = cluster.latency != about.get("latency")
        source = "as given" if given_here else f"as between {about['ranks']} ranks on {about['nodes']} node(s)"
        forecast.assumed.append(f"latency and bandwidth of messages {source}")


def flags(options: Any) -> list[str]:
    """The options that are not as by default, as words of a command line."""
    found: list[str] = []
    for option in fields(options):
        value = getattr(options, option.name)
        if value == default_of(option):
            continue
        name = flag_of(option.name)
        if isinstance(value, bool):
            found.append(f"--{name}" if value else f"--no-{name}")
        else:
            found += [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]
    return found


def _commands(plan: Plan, options: Any) -> list[str]:
    """The commands that start the training: with mpirun on one node, else Slurm, generously."""
    nodes, ranks, seconds = plan.cluster.nodes, plan.cluster.ranks_per_node, plan.seconds
    words = [plan.method, str(plan.data or "DATA.h5"), "-o", f"runs/{plan.method}", *flags(options)]
    if nodes == 1:
        start = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        return [shlex.join([*start, "hpcml", "train", *words])]
    memory = math.ceil(1.2 * plan.node_bytes / 2**30)
    asked = [f"--nodes={nodes}", f"--ntasks-per-node={ranks}", f"--mem={memory}G"]
    if not math.isnan(seconds):
        minutes = max(LEAST_MINUTES, math.ceil(SPARE * seconds / 60))
        asked.append(f"--time={minutes // 60:02}:{minutes % 60:02}:00")
    return [shlex.join(["sbatch", *asked, "slurm/run.sbatch", "train", *words])]


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
        **{name: getattr(forecast, name) for name in BYTES},
        "seconds": {name: _known(value) for name, value in forecast.seconds.items()},
        "total_seconds": _known(plan.seconds),
        "node_hours": _known(plan.seconds * plan.cluster.nodes / 3600),
        "measured": forecast.measured,
        "assumed": forecast.assumed,
        "command": plan.command,
    }


def _known(value: float) -> float | None:
    """None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value
