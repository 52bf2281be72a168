"""`hpcml plan`: what a training would take, and the command line of it."""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, OptionError
from hpcml.files.report import ReportedResult, picked
from hpcml.kernels.processor import processor_name
from hpcml.kernels.rows import count_labels
from hpcml.log import duration, plural, size
from hpcml.methods.registry import Method
from hpcml.mpi.limits import bytes_of_process
from hpcml.mpi.memory import OWN_BYTES, memory_of_node
from hpcml.options import check_rules, default_of, flag_of
from hpcml.planning.memory import Cluster, Requirements, requirements_of
from hpcml.planning.options import PlanOptions
from hpcml.planning.pilot import Measured, run_pilot
from hpcml.planning.sizes import LAWS, VALUES_PER_ROW, Sizes, sizes_from, sizes_of, sizes_of_classes
from hpcml.run.session import Session

SPARE = 1.5  # times the planned time that a job asks for
LEAST_MINUTES = 10
NO_TIME = "only a pilot measures it: give DATA, without --no-pilot (`hpcml convert synthetic text` makes data of any size)"


@dataclass(frozen=True)
class Plan(ReportedResult):
    """Time, memory and disk that a training would take."""

    method: str
    data: Path | None
    sizes: Sizes
    cluster: Cluster
    needs: Requirements
    rank_bytes: int  # resident memory of a rank, the rows that it shares with others of its node included
    seconds: dict[str, float]  # by phase; empty without a pilot
    measured: list[str]
    assumed: list[str]
    options: Any

    @property
    def node_bytes(self) -> int:
        """Of a node: what its ranks hold, shared rows once."""
        shared = self.needs.shared_bytes
        return self.cluster.ranks_per_node * (self.rank_bytes - shared) + shared

    @property
    def total_seconds(self) -> float | None:
        """From the start of the job to its end; None without a pilot."""
        return sum(self.seconds.values()) if self.seconds else None

    @property
    def node_hours(self) -> float | None:
        """Hours of all nodes together; None without a pilot."""
        return sum(self.seconds.values()) * self.cluster.nodes / 3600 if self.seconds else None

    @property
    def command(self) -> str:
        """The command that starts the training: with mpirun on one node, else a Slurm job with time and memory to spare."""
        nodes, ranks = self.cluster.nodes, self.cluster.ranks_per_node
        words = [self.method, str(self.data or "DATA.h5"), "-o", f"runs/{self.method}", *flags(self.options)]
        if nodes == 1:
            return shlex.join([*(["mpirun", "-n", str(ranks)] if ranks > 1 else []), "hpcml", "train", *words])
        asked = [f"--nodes={nodes}", f"--ranks-per-node={ranks}", f"--memory={math.ceil(1.2 * self.node_bytes / 2**30)}"]
        if self.seconds:
            minutes = max(LEAST_MINUTES, math.ceil(SPARE * sum(self.seconds.values()) / 60))
            asked.append(f"--time={minutes // 60:02}:{minutes % 60:02}:00")
        return shlex.join(["hpcml", "job", "train", *words, "--scheduler=slurm", *asked]) + " | sbatch"

    def describe(self) -> list[str]:
        """Return the lines of the text."""
        sizes, cluster, needs = self.sizes, self.cluster, self.needs
        parts = needs.own_bytes | ({"rows, shared on the node": needs.shared_bytes} if needs.shared_bytes else {})
        columns = f"{plural(sizes.n_positive.size, 'label')} × {plural(sizes.n_columns, 'column')}"
        rows = [
            ["memory of a rank", size(self.rank_bytes), "; ".join(f"{what} {size(n)}" for what, n in parts.items() if n)],
            ["memory of a node", size(self.node_bytes), f"of {size(cluster.node_bytes)}"],
            ["model", size(needs.model_bytes), columns],
        ]
        if needs.shared_bytes:
            rows.append(["disk in TMPDIR of each node", size(needs.shared_bytes), "the rows, while it runs"])
        if needs.checkpoint_bytes:
            rows.append(["checkpoint, at most", size(needs.checkpoint_bytes), ""])
        if self.total_seconds is None:
            rows.append(["time", "unknown", NO_TIME])
        else:
            phases = ", ".join(f"{what} {duration(value)}" for what, value in self.seconds.items())
            rows += [["time", duration(self.total_seconds), phases], ["node-hours", f"{self.node_hours:.3g}", ""]]
        widths = [max(len(row[k]) for row in rows) for k in range(2)]
        return [
            f"{self.method}: {plural(sizes.n_rows, 'row')} × {plural(sizes.n_features, 'feature')} "
            f"({plural(sizes.n_columns, 'column')}), {plural(sizes.n_values, 'value')}, {plural(sizes.n_positive.size, 'label')}; "
            f"{plural(cluster.nodes, 'node')} × {plural(cluster.ranks_per_node, 'rank')}: {needs.layout}",
            *(f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {more}".rstrip() for what, value, more in rows),
            "",
            *(f"measured  {line}" for line in self.measured),
            *(f"assumed   {line}" for line in self.assumed),
            "",
            self.command,
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        sizes, needs = self.sizes, self.needs
        return {
            "method": self.method,
            **{name: getattr(sizes, f"n_{name}") for name in ("rows", "features", "columns", "values")},
            "labels": int(sizes.n_positive.size),
            "trained_labels": sizes.n_trained,
            **picked(self.cluster, "nodes", "ranks_per_node"),
            **picked(needs, "layout"),
            **picked(self, "rank_bytes", "node_bytes"),
            **picked(needs, "own_bytes", "shared_bytes", "model_bytes", "checkpoint_bytes"),
            **picked(self, "seconds", "total_seconds", "node_hours", "measured", "assumed", "command"),
        }


def cluster_of(comm: mpi.Comm, wanted: PlanOptions) -> Cluster:
    """Collective over `comm`. Nodes as the user says, else as those that this runs on. Raises OptionError."""
    here = int(mpi.allreduce_max(comm, mpi.ranks_on_node(comm)))
    if wanted.memory is None:
        node_bytes = int(-mpi.allreduce_max(comm, -float(memory_of_node())))
    else:
        node_bytes = int(wanted.memory * 1e9)
    return Cluster(wanted.nodes, wanted.ranks_per_node or here, node_bytes)


def plan(session: Session, method: Method, data: Path | None, wanted: PlanOptions, options: Any) -> Plan:
    """Collective over the session. The plan of a training. Raises ConfigError, DataError."""
    comm, none = session.comm, np.zeros(1, np.int64)
    count_labels(none, none[:0].astype(np.int32), none[:0], none)  # numba's own start
    start = mpi.allreduce_max(comm, time.process_time())
    check_rules(wanted)
    cluster = cluster_of(comm, wanted)
    options.validate()
    of_classes = not (method.linear or method.pilot)
    _check_arguments(comm, method, data, wanted, cluster, of_classes)
    if data is None:
        sizes = sizes_from(wanted.rows or 0, wanted.features or 0, wanted.labels or 0, wanted.values_per_row)
    else:
        sizes = sizes_of_classes(comm, data, options.split) if of_classes else sizes_of(comm, data, options)
    program = int(mpi.allreduce_max(comm, float(max(OWN_BYTES, bytes_of_process("VmRSS")))))
    needs = Requirements("one classifier of all classes", {}) if of_classes else requirements_of(method, sizes, cluster, options)
    needs = replace(needs, own_bytes={"program": program, **needs.own_bytes})
    pilot = run_pilot(session, method, data, options, needs, cluster) if data is not None and wanted.pilot else None
    seconds, peak = dict[str, float](), None
    if pilot is not None:
        seconds, peak = {"start": start, **pilot.seconds}, pilot.rank_bytes
        needs = replace(needs, model_bytes=pilot.model_bytes or needs.model_bytes)
    pages = needs.model_bytes if getattr(options, "drop", None) is not None else 0  # of a sparse model, which is read at the end
    needs = replace(needs, own_bytes={**needs.own_bytes, "pages of the model": pages})
    rank_bytes = sum(needs.own_bytes.values()) + needs.shared_bytes if peak is None else peak + pages
    sources = _sources(comm, data, wanted, cluster, options, pilot)
    return Plan(method.name, data, sizes, cluster, needs, rank_bytes, seconds, *sources, options)


def _check_arguments(
    comm: mpi.Comm, method: Method, data: Path | None, wanted: PlanOptions, cluster: Cluster, of_classes: bool
) -> None:
    """Raise ConfigError for arguments that do not fit each other."""
    numbers = {name: getattr(wanted, name) for name in ("rows", "features", "labels")}
    if of_classes and (data is None or not wanted.pilot):
        raise ConfigError(f"{method.name} is planned by a pilot only; give DATA, and remove --no-pilot")
    if of_classes and cluster.n_ranks != comm.size:
        raise ConfigError(
            f"{method.name} is planned for the ranks that run this command, {comm.size}, not {cluster.n_ranks}; start it under "
            "mpirun with as many, and remove --nodes and --ranks-per-node"
        )
    for name, value in {**numbers, "values_per_row": wanted.values_per_row}.items():
        if data is not None and value is not None:
            raise OptionError(name, value, "has no effect on DATA; remove it")
    if data is None and None in numbers.values():
        raise ConfigError("no input: give a dataset, or --rows, --features and --labels")
    if data is None and not wanted.pilot:
        raise OptionError("pilot", False, "has no effect without DATA; remove it")


def _sources(
    comm: mpi.Comm, data: Path | None, wanted: PlanOptions, cluster: Cluster, options: Any, pilot: Measured | None
) -> tuple[list[str], list[str]]:
    """Name the figures that are measured, and those that are assumed."""
    measured, assumed = [] if data is None else [f"rows, columns and labels: of {data}"], list[str]()
    if data is None:
        assumed += [*LAWS, f"{VALUES_PER_ROW if wanted.values_per_row is None else wanted.values_per_row:g} values a row"]
    if pilot is None:
        assumed += ["the model as large as without --drop"] * (getattr(options, "drop", None) is not None)
        return measured, assumed
    ranks = plural(comm.size, "rank")
    measured.append(f"time: by a pilot on {ranks} of {processor_name()}, with {pilot.sample}")
    if pilot.rank_bytes:
        measured.append("memory of a rank: the peak of the pilot")
    if cluster.n_ranks != comm.size:
        assumed.append(f"{cluster.n_ranks:,} ranks, {cluster.ranks_per_node:,} on a node, are each as fast as those of the pilot")
    return measured, [*assumed, *pilot.assumed, "the data file is in the system's cache, and nothing else keeps the processor busy"]


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
