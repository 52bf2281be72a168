"""The options of `hpcml plan`, without those of the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from hpcml.options import Between, Range

MOST = 10**12  # rows, features or labels


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """Figures in place of data, and where the training would run."""

    rows: Annotated[int | None, Range(1, MOST)] = None
    """Number of rows, for data that do not exist yet."""
    features: Annotated[int | None, Range(1, MOST)] = None
    """Number of features, likewise."""
    labels: Annotated[int | None, Range(1, MOST)] = None
    """Number of labels, likewise; few of them are on many rows."""
    values_per_row: float | None = None
    """Mean number of non-zero values in a row, likewise. Default: 70."""
    nodes: Annotated[int, Range(1, 10**6)] = 1
    """Nodes to run on."""
    ranks_per_node: Annotated[int | None, Range(1, 10**6)] = None
    """Ranks on each node. Default: as many as run this command; 1 without mpirun."""
    memory: Annotated[float | None, Between(0)] = None
    """Memory of a node, in GB. Default: what this one has."""
    pilot: Annotated[bool, Parameter(negative="--no-pilot")] = True
    """Measure the time: train some of the labels, rows or cycles of DATA. --no-pilot plans memory, disk and model size only."""
