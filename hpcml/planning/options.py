"""The options of `hpcml plan`, beside those of the method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from hpcml.options import Flag


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """Figures in place of data, and where the training would run."""

    rows: int | None = None
    """Plan for so many rows that you do not have yet."""
    features: int | None = None
    """And for so many features."""
    labels: int | None = None
    """And for so many labels, few of which are on many rows."""
    values_per_row: float | None = None
    """Values other than 0 in a row, on average. Default: 70."""
    nodes: int = 1
    """Nodes to run on."""
    ranks_per_node: int | None = None
    """Ranks on each node. Default: as many as run this command; 1 without mpirun."""
    memory: float | None = None
    """Memory of a node, in GB. Default: what this one has."""
    machine: Path | None = None
    """The file with the constants of the machine. Default: where `hpcml bench machine` puts it."""
    latency: float | None = None
    """Seconds of a message between nodes (α), as `hpcml check` prints it. Default: of --machine."""
    bandwidth: float | None = None
    """GB a second between ranks of different nodes (β), likewise."""
    pilot: Flag = False
    """Measure on a sample of the rows of DATA what depends on them, such as passes over the rows,
    with some of the labels.
    """
