"""The options of `hpcml plan`, without those of the method."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from hpcml.options import Between, Range

MAX_SIZE = 10**12  # rows, features or labels


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """Sizes in place of data, and the nodes of the training."""

    rows: Annotated[int | None, Range(1, MAX_SIZE)] = None
    """Number of rows (without DATA)."""
    features: Annotated[int | None, Range(1, MAX_SIZE)] = None
    """Number of features (without DATA)."""
    labels: Annotated[int | None, Range(1, MAX_SIZE)] = None
    """Number of labels (without DATA); their frequencies follow Zipf's law."""
    values_per_row: float | None = None
    """Mean number of non-zero values per row (without DATA). Default: 70."""
    nodes: Annotated[int, Range(1, 10**6)] = 1
    """Number of nodes."""
    ranks_per_node: Annotated[int | None, Range(1, 10**6)] = None
    """Number of ranks per node. Default: the number of ranks of this command."""
    memory: Annotated[float | None, Between(0)] = None
    """Memory of a node, in GB. Default: that of this node."""
    pilot: Annotated[bool, Parameter(negative="--no-pilot")] = True
    """Train a part of the labels, rows or cycles of DATA to measure the time (default). --no-pilot plans memory and disk only."""
