"""`hpcml plan`: memory, disk and time of a training, and its command line."""

import math
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, OptionError
from hpcml.files.report import ReportedResult, select_attributes
from hpcml.kernels.processor import processor_name
from hpcml.kernels.rows import count_labels
from hpcml.log import duration, plural, size
from hpcml.methods.registry import Method
from hpcml.mpi.memory import OWN_BYTES, node_memory, process_bytes
from hpcml.options import check_rules, command_flags
from hpcml.planning.memory import Cluster, Requirements, compute_requirements
from hpcml.planning.options import PlanOptions
from hpcml.planning.pilot import Measured, run_pilot
from hpcml.planning.sizes import LAWS, VALUES_PER_ROW, Sizes, estimate_sizes, read_class_sizes, read_sizes
from hpcml.run.session import Session

TIME_MARGIN = 1.5  # requested time of a job, relative to the planned time
MIN_MINUTES = 10
NO_TIME = "needs a pilot: give DATA and remove --no-pilot (`hpcml convert synthetic text` makes data of any size)"


@dataclass(frozen=True)
class Plan(ReportedResult):
    method: str
    data: Path | None
    sizes: Sizes
    cluster: Cluster
    needs: Requirements
    rank_bytes: int  # resident memory of a rank, including the rows that it shares with others of its node
    seconds: dict[str, float]  # by phase; empty without a pilot
    measured: list[str]
    assumed: list[str]
    options: Any

    @property
    def node_bytes(self) -> int:
        shared = self.needs.shared_bytes
        return self.cluster.ranks_per_node * (self.rank_bytes - shared) + shared

    @property
    def total_seconds(self) -> float | None:
        return sum(self.seconds.values()) if self.seconds else None

    @property
    def node_hours(self) -> float | None:
        return sum(self.seconds.values()) * self.cluster.nodes / 3600 if self.seconds else None

    @property
    def command(self) -> str:
        """Return the command that starts the training: with mpirun on one node, else as a Slurm job with a margin."""
        nodes, ranks = self.cluster.nodes, self.cluster.ranks_per_node
        words = [self.method, str(self.data or "DATA.h5"), "-o", f"runs/{self.method}", *command_flags(self.options)]
        if nodes == 1:
            return shlex.join([*(["mpirun", "-n", str(ranks)] if ranks > 1 else []), "hpcml", "train", *words])
        resources = [f"--nodes={nodes}", f"--ranks-per-node={ranks}", f"--memory={math.ceil(1.2 * self.node_bytes / 2**30)}"]
        if self.seconds:
            minutes = max(MIN_MINUTES, math.ceil(TIME_MARGIN * sum(self.seconds.values()) / 60))
            resources.append(f"--time={minutes // 60:02}:{minutes % 60:02}:00")
        return shlex.join(["hpcml", "job", "train", *words, "--scheduler=slurm", *resources]) + " | sbatch"

    def describe(self) -> list[str]:
        sizes, cluster, needs = self.sizes, self.cluster, self.needs
        parts = needs.own_bytes | ({"rows, shared on the node": needs.shared_bytes} if needs.shared_bytes else {})
        columns = f"{plural(sizes.n_positive.size, 'label')} × {plural(sizes.n_columns, 'column')}"
        rows = [
            ["memory per rank", size(self.rank_bytes), "; ".join(f"{what} {size(n)}" for what, n in parts.items() if n)],
            ["memory per node", size(self.node_bytes), f"of {size(cluster.node_bytes)}"],
            ["model", size(needs.model_bytes), columns],
        ]
        if needs.shared_bytes:
            rows.append(["TMPDIR per node", size(needs.shared_bytes), "the rows, during the training"])
        if needs.checkpoint_bytes:
            rows.append(["checkpoint (maximum)", size(needs.checkpoint_bytes), ""])
        if self.total_seconds is None:
            rows.insert(0, ["time", "unknown", NO_TIME])
        else:
            phases = ", ".join(f"{what} {duration(value)}" for what, value in self.seconds.items())
            rows[:0] = [["time", duration(self.total_seconds), phases], ["node-hours", f"{self.node_hours:.3g}", ""]]
        widths = [max(len(row[k]) for row in rows) for k in range(2)]
        return [
            f"{self.method}: {plural(sizes.n_rows, 'row')} × {plural(sizes.n_features, 'feature')} "
            f"({plural(sizes.n_columns, 'column')}), {plural(sizes.n_values, 'value')}, {plural(sizes.n_positive.size, 'label')}",
            f"{plural(cluster.nodes, 'node')} × {plural(cluster.ranks_per_node, 'rank')}: {needs.layout}",
            *(f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {more}".rstrip() for what, value, more in rows),
            "",
            *(f"measured  {line}" for line in self.measured),
            *(f"assumed   {line}" for line in self.assumed),
            "",
            self.command,
        ]

    def as_dict(self) -> dict[str, Any]:
        sizes, needs = self.sizes, self.needs
        return {
            "method": self.method,
            **{name: getattr(sizes, f"n_{name}") for name in ("rows", "features", "columns", "values")},
            "labels": int(sizes.n_positive.size),
            "trained_labels": sizes.n_trained,
            **select_attributes(self.cluster, "nodes", "ranks_per_node"),
            **select_attributes(needs, "layout"),
            **select_attributes(self, "rank_bytes", "node_bytes"),
            **select_attributes(needs, "own_bytes", "shared_bytes", "model_bytes", "checkpoint_bytes"),
            **select_attributes(self, "seconds", "total_seconds", "node_hours", "measured", "assumed", "command"),
        }


def choose_cluster(comm: mpi.Comm, plan_options: PlanOptions) -> Cluster:
    local_ranks = int(mpi.allreduce_max(comm, mpi.ranks_on_node(comm)))
    if plan_options.memory is None:
        node_bytes = int(-mpi.allreduce_max(comm, -float(node_memory())))
    else:
        node_bytes = int(plan_options.memory * 1e9)
    return Cluster(plan_options.nodes, plan_options.ranks_per_node or local_ranks, node_bytes)


def plan(session: Session, method: Method, data: Path | None, plan_options: PlanOptions, options: Any) -> Plan:
    comm, none = session.comm, np.zeros(1, np.int64)
    count_labels(none, none[:0].astype(np.int32), none[:0], none)  # numba's start-up counts as start of the job
    start = mpi.allreduce_max(comm, time.process_time())
    check_rules(plan_options)
    cluster = choose_cluster(comm, plan_options)
    options.validate()
    one_classifier = not (method.linear or method.pilot)
    _check_arguments(comm, method, data, plan_options, cluster, one_classifier)
    if data is None:
        numbers = plan_options.rows or 0, plan_options.features or 0, plan_options.labels or 0
        sizes = estimate_sizes(*numbers, plan_options.values_per_row)
    else:
        sizes = read_class_sizes(comm, data, options.split) if one_classifier else read_sizes(comm, data, options)
    program = int(mpi.allreduce_max(comm, float(max(OWN_BYTES, process_bytes("VmRSS")))))
    needs = Requirements("one classifier of all classes", {})
    if not one_classifier:
        needs = compute_requirements(method, sizes, cluster, options)
    needs = replace(needs, own_bytes={"program": program, **needs.own_bytes})
    pilot = run_pilot(session, method, data, options, needs, cluster) if data is not None and plan_options.pilot else None
    seconds, peak, dense = dict[str, float](), None, needs.model_bytes
    if pilot is not None:
        seconds, peak = {"start": start, **pilot.seconds}, pilot.rank_bytes
        needs = replace(needs, model_bytes=pilot.model_bytes or needs.model_bytes)
    pages = needs.model_bytes if method.linear and needs.model_bytes != dense else 0  # a sparse model is read at the end
    needs = replace(needs, own_bytes={**needs.own_bytes, "pages of the model": pages})
    rank_bytes = sum(needs.own_bytes.values()) + needs.shared_bytes if peak is None else peak + pages
    sources = _list_sources(comm, data, plan_options, cluster, options, pilot)
    return Plan(method.name, data, sizes, cluster, needs, rank_bytes, seconds, *sources, options)


def _check_arguments(
    comm: mpi.Comm, method: Method, data: Path | None, plan_options: PlanOptions, cluster: Cluster, one_classifier: bool
) -> None:
    numbers = {name: getattr(plan_options, name) for name in ("rows", "features", "labels")}
    if one_classifier and (data is None or not plan_options.pilot):
        raise ConfigError(f"{method.name}: planning needs a pilot; give DATA and remove --no-pilot")
    if one_classifier and cluster.n_ranks != comm.size:
        what = f"planning uses the ranks of this command ({comm.size}), not {cluster.n_ranks}"
        advice = "start it under mpirun with the planned number of ranks, without --nodes and --ranks-per-node"
        raise ConfigError(f"{method.name}: {what}; {advice}")
    for name, value in {**numbers, "values_per_row": plan_options.values_per_row}.items():
        if data is not None and value is not None:
            raise OptionError(name, value, "has no effect on DATA; remove it")
    if data is None and None in numbers.values():
        raise ConfigError("no input: give a dataset, or --rows, --features and --labels")
    if data is None and not plan_options.pilot:
        raise OptionError("pilot", False, "has no effect without DATA; remove it")


def _list_sources(
    comm: mpi.Comm, data: Path | None, plan_options: PlanOptions, cluster: Cluster, options: Any, pilot: Measured | None
) -> tuple[list[str], list[str]]:
    measured, assumed = [] if data is None else [f"rows, columns and labels: from {data}"], list[str]()
    if data is None:
        per_row = VALUES_PER_ROW if plan_options.values_per_row is None else plan_options.values_per_row
        assumed += [*LAWS, f"{per_row:g} values per row"]
    if pilot is None:
        return measured, [*assumed, "no weight is 0: the model may be much smaller"]
    measured.append(f"time: pilot on {plural(comm.size, 'rank')} of {processor_name()}, {pilot.sample}")
    if pilot.rank_bytes:
        measured.append("memory per rank: peak of the pilot")
    if cluster.n_ranks != comm.size:
        assumed.append(f"{cluster.n_ranks:,} ranks, {cluster.ranks_per_node:,} per node, are each as fast as those of the pilot")
    return measured, [*assumed, *pilot.assumed, "data file in the page cache, no other load on the processors"]
