"""A plan in words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.files.atomic import check_output, write_whole
from hpcml.log import joined, plural, size
from hpcml.methods.forecast import Machine
from hpcml.planning.plan import Plan


def duration(seconds: float) -> str:
    """Seconds for people."""
    if math.isnan(seconds):
        return "unknown"
    for unit, factor in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_plan(plan: Plan) -> str:
    """The report as a text of several lines."""
    sizes, cluster, forecast = plan.sizes, plan.cluster, plan.forecast
    nodes = f"{cluster.nodes} node{'s' * (cluster.nodes > 1)} × {cluster.ranks_per_node} rank{'s' * (cluster.ranks_per_node > 1)}"
    hours = plan.seconds * cluster.nodes / 3600
    rows = [
        ["memory of a rank", size(plan.rank_bytes), _parts(plan)],
        ["memory of a node", size(plan.node_bytes), f"of {size(cluster.node_bytes)}"],
        ["model", size(forecast.model_bytes), f"{plural(sizes.n_positive.size, 'label')} × {plural(sizes.n_columns, 'column')}"],
    ]
    if forecast.scratch_bytes:
        rows.append(["disk in TMPDIR of each node", size(forecast.scratch_bytes), "the rows, while it runs"])
    if forecast.checkpoint_bytes:
        rows.append(["checkpoint, at most", size(forecast.checkpoint_bytes), ""])
    rows.append(["sent by each rank", size(forecast.sent_bytes), "" if forecast.sent_bytes else "groups exchange a few numbers"])
    rows.append(["time", duration(plan.seconds), _phases(plan)])
    rows.append(["node-hours", "unknown" if math.isnan(hours) else f"{hours:.3g}", ""])
    lines = [
        f"{plan.method}: {plural(sizes.n_rows, 'row')} × {plural(sizes.n_features, 'feature')} "
        f"({plural(sizes.n_columns, 'column')}), {plural(sizes.n_values, 'value')}, "
        f"{plural(sizes.n_positive.size, 'label')}; {nodes}: {forecast.layout}",
        *_aligned(rows),
        "",
        *(f"measured  {line}" for line in forecast.measured),
        *(f"assumed   {line}" for line in forecast.assumed),
        "",
        *plan.command,
    ]
    return joined(lines)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    return [f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {more}".rstrip() for what, value, more in rows]


def _parts(plan: Plan) -> str:
    parts = {"program": plan.program_bytes, **plan.forecast.own_bytes}
    if plan.forecast.shared_bytes:
        parts["rows, shared on the node"] = plan.forecast.shared_bytes
    return "; ".join(f"{what} {size(value)}" for what, value in parts.items() if value)


def _phases(plan: Plan) -> str:
    return ", ".join(f"{what} {duration(value)}" for what, value in plan.forecast.seconds.items())


def write_json(comm: mpi.Comm, path: Path, found: dict[str, Any], force: bool, data: Path | None) -> None:
    """Collective over `comm`. Write a plan for programs. Raises ConfigError, DataError."""

    def write() -> None:
        check_output(path, force, [data])
        write_whole(path, (json.dumps(found, indent=1) + "\n").encode())

    mpi.run_on_root(comm, f"writing {path}", write)


def format_machine(machine: Machine, path: Path) -> str:
    """The constants measured, and the file that keeps them."""
    about = machine.about
    lines = [
        f"{about['processor']}, {about['ranks']} rank(s) on {about['nodes']} node(s), in {about['seconds']:.0f} s; kept in {path}"
    ]
    for count, curves in machine.curves.items():
        lines.append(f"with {count} busy on a node:")
        for name in sorted(curves):
            points = ", ".join(f"{value * 1e9:.3g} at {at:,.3g}" for at, value in curves[name])
            lines.append(f"  {name}, ns: {points}")
    if about["latency"] is not None:
        lines.append(f"messages: --latency {about['latency']:.2g} --bandwidth {about['bandwidth'] / 1e9:.3g}")
    return joined(lines)
