"""A plan in words."""

from __future__ import annotations

from hpcml.log import joined, plural, size
from hpcml.planning.plan import Plan

NO_TIME = "only a pilot measures it: give DATA, without --no-pilot (`hpcml convert synthetic text` makes data of any size)"


def duration(seconds: float) -> str:
    """Seconds for people."""
    for unit, factor in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_plan(plan: Plan) -> str:
    """The report as a text of several lines."""
    sizes, cluster, needs = plan.sizes, plan.cluster, plan.needs
    parts = needs.own_bytes | ({"rows, shared on the node": needs.shared_bytes} if needs.shared_bytes else {})
    rows = [
        ["memory of a rank", size(plan.rank_bytes), "; ".join(f"{what} {size(value)}" for what, value in parts.items() if value)],
        ["memory of a node", size(plan.node_bytes), f"of {size(cluster.node_bytes)}"],
        ["model", size(needs.model_bytes), f"{plural(sizes.n_positive.size, 'label')} × {plural(sizes.n_columns, 'column')}"],
    ]
    if needs.shared_bytes:
        rows.append(["disk in TMPDIR of each node", size(needs.shared_bytes), "the rows, while it runs"])
    if needs.checkpoint_bytes:
        rows.append(["checkpoint, at most", size(needs.checkpoint_bytes), ""])
    if plan.total_seconds is None:
        rows.append(["time", "unknown", NO_TIME])
    else:
        phases = ", ".join(f"{what} {duration(value)}" for what, value in plan.seconds.items())
        rows += [["time", duration(plan.total_seconds), phases], ["node-hours", f"{plan.node_hours:.3g}", ""]]
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    lines = [
        f"{plan.method}: {plural(sizes.n_rows, 'row')} × {plural(sizes.n_features, 'feature')} "
        f"({plural(sizes.n_columns, 'column')}), {plural(sizes.n_values, 'value')}, {plural(sizes.n_positive.size, 'label')}; "
        f"{plural(cluster.nodes, 'node')} × {plural(cluster.ranks_per_node, 'rank')}: {needs.layout}",
        *(f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {more}".rstrip() for what, value, more in rows),
        "",
        *(f"measured  {line}" for line in plan.measured),
        *(f"assumed   {line}" for line in plan.assumed),
        "",
        plan.command,
    ]
    return joined(lines)
