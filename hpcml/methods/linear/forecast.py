"""What plans of methods with a weight vector for each label share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.log import size
from hpcml.methods.forecast import Cluster, Forecast, Machine, NoForecast, Sizes
from hpcml.methods.linear.layout import PROGRAM_BYTES, VALUE_BYTES, Sharding, fewest_shards, labels_of_group, lanes_that_fit
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.mpi.memory import MEMORY_SHARE

STATE = "weights and state of labels, at most"  # of `own_bytes`
TABLES = "names and tables of labels"  # of `own_bytes`
LABEL_BYTES = 250  # of these; training with dual took 215 a label more where 603,082 labels more were to be trained
SLOT = 8  # bytes of a row's place among those of a label
ROW_BYTES = 40  # of the slab of a file that a rank maps, beside values and labels: where rows begin, which belong to the split


@dataclass(frozen=True)
class Layout:
    """Ranks in groups that share rows; labels in lanes that share a pass."""

    shards: int
    n_groups: int
    n_lanes: int
    mapped: bool  # all rows, one copy for all ranks of a node
    weight_bytes: int


def layout_of(method: LinearMethod, sizes: Sizes, cluster: Cluster, options: LinearOptions) -> Layout:
    """As training lays it out. Raises NoForecast if every pass would read rows from the disk."""
    n_ranks, room = cluster.n_ranks, MEMORY_SHARE * cluster.node_bytes / cluster.ranks_per_node
    exact = method.sharding is Sharding.EXACT
    if options.ranks_per_group is not None and n_ranks % options.ranks_per_group:
        raise NoForecast(f"--ranks-per-group {options.ranks_per_group}: expected a divisor of the number of ranks, {n_ranks}")
    values = sizes.n_values + sizes.n_rows * bool(options.bias)
    features = min(sizes.n_features, values)
    shards = options.ranks_per_group or (
        fewest_shards(n_ranks, (values, sizes.n_rows, features), sizes.n_trained, options, room) if exact else 1
    )
    alone = shards == 1 and not exact
    mapped = alone and not (cluster.ranks_per_node == 1 and VALUE_BYTES * sizes.n_values <= room // 2)
    known = (0 if mapped else values, sizes.n_rows, sizes.n_columns)
    lanes = min(
        lanes_that_fit(known, shards, options, room, method.memory, method.lanes), max(1, -(-sizes.n_trained * shards // n_ranks))
    )
    layout = Layout(shards, n_ranks // shards, lanes, mapped, PRECISIONS[options.precision].itemsize)
    own = sum(own_bytes(method, sizes, options, layout).values())
    if cluster.ranks_per_node * (own + PROGRAM_BYTES) + shared_bytes(sizes, layout) > cluster.node_bytes:
        needed, shared, node = map(size, (cluster.ranks_per_node * own, shared_bytes(sizes, layout), cluster.node_bytes))
        raise NoForecast(
            f"{cluster.ranks_per_node} ranks need {needed} beside {shared} of rows, but a node has {node}: "
            "there is no model of too little memory; plan with more nodes, fewer ranks on each, or a smaller --labels-per-pass"
        )
    return layout


def own_bytes(method: LinearMethod, sizes: Sizes, options: LinearOptions, layout: Layout) -> dict[str, int]:
    """Of a rank: rows of its own, if any, what `method.memory` says of the rest, at most, and what
    there is of every label.
    """
    values = sizes.n_values + sizes.n_rows * bool(options.bias)
    arguments = (sizes.n_rows, sizes.n_columns, layout.n_lanes, layout.shards, layout.weight_bytes)
    rest = method.memory(0, *arguments)
    found = {STATE: rest, TABLES: LABEL_BYTES * sizes.n_positive.size}
    if not layout.mapped:
        found["rows"] = method.memory(values, *arguments) - rest + SLOT * sizes.n_pairs // layout.shards
    return found


def shared_bytes(sizes: Sizes, layout: Layout) -> int:
    """Of a node: the rows that its ranks map, and which rows have a label."""
    return (VALUE_BYTES * (sizes.n_values + sizes.n_rows) + SLOT * sizes.n_pairs) if layout.mapped else 0


def trainable(rows: CompactRows) -> np.ndarray:
    """The labels of a sample that have positive and negative rows, the most frequent first."""
    labels = np.argsort(-rows.n_positive, kind="stable")
    return labels[(rows.n_positive[labels] > 0) & (rows.n_positive[labels] < rows.n_global)]


def with_labels(samples: Sequence[CompactRows]) -> list[CompactRows]:
    """The samples in which some label can be trained. Raises NoForecast if there are none."""
    found = [rows for rows in samples if trainable(rows).size]
    if not found:
        raise NoForecast("--pilot: no label can be trained on a sample of the rows: each has all of them, or none")
    return found


def mapped_bytes(sizes: Sizes, n_parts: int) -> int:
    """Of a rank: the part of the data file that it has read, which the system may take back."""
    return (VALUE_BYTES * sizes.n_values + 4 * sizes.n_pairs + ROW_BYTES * sizes.n_rows) // n_parts


def panels(sizes: Sizes, layout: Layout, number: int) -> Iterator[np.ndarray]:
    """Rows of each label, panel by panel, of the labels that group `number` trains."""
    trained = np.flatnonzero((sizes.n_positive > 0) & (sizes.n_positive < sizes.n_rows))
    mine = sizes.n_positive[labels_of_group(trained, sizes.n_positive, number, layout.n_groups)]
    for first in range(0, mine.size, layout.n_lanes):
        yield mine[first : first + layout.n_lanes]


def model_bytes(sizes: Sizes, options: LinearOptions, weight_bytes: int) -> int:
    """Of the model file without --drop: all weights, and where each feature went."""
    return sizes.n_positive.size * ((sizes.n_columns - bool(options.bias)) * weight_bytes + 64) + 8 * sizes.n_features


def begin(
    method: LinearMethod, sizes: Sizes, cluster: Cluster, options: LinearOptions, machine: Machine, layout: Layout
) -> Forecast:
    """All but the time of training and the messages."""
    n_parts = cluster.ranks_per_node if layout.mapped else layout.shards
    busy = cluster.ranks_per_node
    plural = "s" * (layout.n_groups > 1)
    ranks = f"{layout.shards} ranks that divide the rows" if layout.shards > 1 else "a rank with all rows"
    groups = f"{layout.n_groups} group{plural} of {ranks}"
    found = Forecast(
        layout=f"{groups}, labels that share a pass: {layout.n_lanes}",
        own_bytes={**own_bytes(method, sizes, options, layout), "pages of the data file": mapped_bytes(sizes, n_parts)},
        shared_bytes=shared_bytes(sizes, layout),
        scratch_bytes=shared_bytes(sizes, layout),
        model_bytes=model_bytes(sizes, options, layout.weight_bytes),
    )
    on_node = min(n_parts, busy)
    found.seconds["read the file"] = sizes.file_bytes * min(1.0, on_node / n_parts) * machine("disk.read", 1, busy)
    found.seconds["load"] = (
        sizes.n_values * machine("load.value", sizes.n_columns, busy) + sizes.n_pairs * machine("load.pair", sizes.n_pairs, busy)
    ) / n_parts
    found.assumed.append("the file is not in memory yet, and all nodes read it at once as fast as one does here")
    labels = -(-sizes.n_trained // layout.n_groups)
    found.seconds["keep"] = labels * sizes.n_columns * machine("keep.column", sizes.n_columns, busy)
    found.seconds["write the model"] = found.model_bytes * machine("disk.write", 1, busy)
    if options.drop is not None:
        found.assumed.append("the model as large as without --drop: how much that leaves out is not known before")
    return found
