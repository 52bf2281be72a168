"""Memory, disk and model size of a training, by the formulas with which training itself plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hpcml.errors import ConfigError, OptionError
from hpcml.log import plural, size
from hpcml.methods.linear.layout import PROGRAM_BYTES, VALUE_BYTES, Sharding, fewest_shards, lanes_that_fit
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.registry import Method
from hpcml.mpi.memory import MEMORY_SHARE
from hpcml.planning.sizes import Sizes

LABEL_BYTES = 250  # of names and tables; training with dual took 215 a label more where 603,082 labels more were to be trained
SLOT = 8  # bytes of a row's place among those of a label
ROW_BYTES = 40  # of the slab of a file that a rank maps, beside values and labels: where rows begin, which belong to the split


@dataclass(frozen=True)
class Cluster:
    """The nodes on which the training would run."""

    nodes: int
    ranks_per_node: int
    node_bytes: int  # memory of a node

    @property
    def n_ranks(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Requirements:
    """How ranks share the work, and the bytes that this takes on the rank, or node, with most."""

    layout: str  # in words
    own_bytes: dict[str, int]  # of a rank, by what they hold
    shared_bytes: int = 0  # of a node: rows that its ranks map, in files in TMPDIR
    model_bytes: int = 0
    checkpoint_bytes: int = 0
    n_groups: int = 1  # of ranks; the labels are dealt to them
    shards: int = 1  # ranks of a group, which divide the rows
    n_lanes: int = 1  # labels that share a pass


def requirements_of(method: Method, sizes: Sizes, cluster: Cluster, options: Any) -> Requirements:
    """Return what a method with labels needs. Raises ConfigError if a node has too little memory."""
    if method.linear:
        return _linear_requirements(method.load(method.linear), sizes, cluster, options)
    # A single-pass learner: every rank reads all rows.
    n_labels = sizes.n_positive.size
    found = method.load(f"{method.pilot}:bytes_needed")(
        method.name, options, n_labels, sizes.n_features, sizes.n_used, cluster.n_ranks
    )
    pages = VALUE_BYTES * sizes.n_values + 4 * sizes.n_pairs + ROW_BYTES * sizes.n_rows
    return Requirements(
        layout=f"each rank reads all rows, for {-(-n_labels // cluster.n_ranks):,} labels at most",
        own_bytes={"weights": found.weights, "pages of the data file": pages},
        model_bytes=found.model,
        checkpoint_bytes=found.checkpoint,
    )


def _linear_requirements(method: LinearMethod, sizes: Sizes, cluster: Cluster, options: LinearOptions) -> Requirements:
    """Lay the training out as it would do so itself."""
    if not method.risk.shares_columns:
        sizes = replace(sizes, n_columns=sizes.n_used)
    n_ranks, room = cluster.n_ranks, MEMORY_SHARE * cluster.node_bytes / cluster.ranks_per_node
    exact = method.sharding is Sharding.EXACT
    if options.ranks_per_group is not None and n_ranks % options.ranks_per_group:
        raise OptionError("ranks_per_group", options.ranks_per_group, f"expected a divisor of the number of ranks, {n_ranks}")
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
    weight_bytes = PRECISIONS[options.precision].itemsize
    arguments = (sizes.n_rows, sizes.n_columns, lanes, shards, weight_bytes)
    state = method.memory(0, *arguments)
    own = {"weights and state of labels, at most": state, "names and tables of labels": LABEL_BYTES * sizes.n_positive.size}
    shared = 0
    if mapped:
        shared = VALUE_BYTES * (sizes.n_values + sizes.n_rows) + SLOT * sizes.n_pairs
    else:
        own["rows"] = method.memory(values, *arguments) - state + SLOT * sizes.n_pairs // shards
    needed = cluster.ranks_per_node * sum(own.values())
    if needed + cluster.ranks_per_node * PROGRAM_BYTES + shared > cluster.node_bytes:  # every pass would read rows from the disk
        raise ConfigError(
            f"{cluster.ranks_per_node} ranks need {size(needed)} in addition to {size(shared)} of rows, but a node has "
            f"{size(cluster.node_bytes)}: there is no model of too little memory; plan with more nodes, fewer ranks on each, "
            "or a smaller --labels-per-pass"
        )
    n_parts = cluster.ranks_per_node if mapped else shards  # of the file: each rank reads one, whose pages the system may take back
    own["pages of the data file"] = (VALUE_BYTES * sizes.n_values + 4 * sizes.n_pairs + ROW_BYTES * sizes.n_rows) // n_parts
    n_groups = n_ranks // shards
    ranks = f"{shards} ranks that divide the rows" if shards > 1 else "a rank with all rows"
    weights = (sizes.n_columns - bool(options.bias)) * weight_bytes
    return Requirements(
        layout=f"{plural(n_groups, 'group')} of {ranks}, labels that share a pass: {lanes}",
        own_bytes=own,
        shared_bytes=shared,
        model_bytes=sizes.n_positive.size * (weights + 64) + 8 * sizes.n_features,  # all weights, and where each feature went
        n_groups=n_groups,
        shards=shards,
        n_lanes=lanes,
    )
