"""Memory, disk and model size of a training, from the formulas that training itself uses."""

from dataclasses import dataclass, replace
from typing import Any

from hpcml.errors import ConfigError, OptionError
from hpcml.leave_one_out.cells import MOST_BYTES
from hpcml.log import plural, size
from hpcml.methods.linear.layout import PROGRAM_BYTES, VALUE_BYTES, Sharding, fewest_shards, lanes_that_fit
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.registry import Method
from hpcml.mpi.memory import MEMORY_SHARE
from hpcml.planning.sizes import Sizes

LABEL_BYTES = 250  # names and tables per label; measured for dual: 215 per label, with 603,082 more labels
SLOT_BYTES = 8  # index of a positive row of a label
ROW_BYTES = 40  # per row of a mapped file, in addition to values and labels: row offsets and split


@dataclass(frozen=True)
class Cluster:
    nodes: int
    ranks_per_node: int
    node_bytes: int  # memory of a node

    @property
    def n_ranks(self) -> int:
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Requirements:
    layout: str  # for people
    own_bytes: dict[str, int]  # of a rank, by content
    shared_bytes: int = 0  # of a node: rows in files in TMPDIR that its ranks map
    model_bytes: int = 0
    checkpoint_bytes: int = 0
    n_groups: int = 1  # of ranks; the labels are distributed over them
    shards: int = 1  # ranks of a group, which share the rows
    n_lanes: int = 1  # labels that share a pass


def compute_requirements(method: Method, sizes: Sizes, cluster: Cluster, options: Any) -> Requirements:
    if method.linear:
        return _linear_requirements(method.load(method.linear), sizes, cluster, options)
    # A single-pass learner: every rank reads all rows.
    n_labels = sizes.n_positive.size
    arguments = (n_labels, sizes.n_features, sizes.n_used, cluster.n_ranks)
    weights, model, checkpoint = method.load(f"{method.pilot}:bytes_needed")(method.name, options, *arguments)
    return Requirements(
        layout=f"every rank reads all rows and trains at most {-(-n_labels // cluster.n_ranks):,} labels",
        own_bytes={"weights": weights, "pages of the data file": _file_bytes(sizes)},
        model_bytes=model,
        checkpoint_bytes=checkpoint,
    )


def _file_bytes(sizes: Sizes) -> int:
    return VALUE_BYTES * sizes.n_values + 4 * sizes.n_pairs + ROW_BYTES * sizes.n_rows


def _linear_requirements(method: LinearMethod, sizes: Sizes, cluster: Cluster, options: LinearOptions) -> Requirements:
    if not method.risk.shares_columns:
        sizes = replace(sizes, n_columns=sizes.n_used)
    n_ranks, available = cluster.n_ranks, MEMORY_SHARE * cluster.node_bytes / cluster.ranks_per_node
    exact = method.sharding is Sharding.EXACT
    if options.ranks_per_group is not None and n_ranks % options.ranks_per_group:
        raise OptionError("ranks_per_group", options.ranks_per_group, f"expected a divisor of the number of ranks, {n_ranks}")
    values = sizes.n_values + sizes.n_rows * bool(options.bias)
    features = min(sizes.n_features, values)
    shards = options.ranks_per_group or 1
    if exact and not options.ranks_per_group:
        shards = fewest_shards(n_ranks, (values, sizes.n_rows, features), sizes.n_trained, options, available)
    alone = shards == 1 and not exact
    mapped = alone and not (cluster.ranks_per_node == 1 and VALUE_BYTES * sizes.n_values <= available // 2)
    known = (0 if mapped else values, sizes.n_rows, sizes.n_columns)
    labels_per_group = max(1, -(-sizes.n_trained * shards // n_ranks))
    lanes = min(lanes_that_fit(known, shards, options, available, method.memory, method.lanes), labels_per_group)
    weight_bytes = PRECISIONS[options.precision].itemsize
    arguments = (sizes.n_rows, sizes.n_columns, lanes, shards, weight_bytes)
    state = method.memory(0, *arguments)
    own = {"weights and state of labels (maximum)": state, "names and tables of labels": LABEL_BYTES * sizes.n_positive.size}
    shared = 0
    if mapped:
        shared = VALUE_BYTES * (sizes.n_values + sizes.n_rows) + SLOT_BYTES * sizes.n_pairs
    else:
        own["rows"] = method.memory(values, *arguments) - state + SLOT_BYTES * sizes.n_pairs // shards
    needed = cluster.ranks_per_node * sum(own.values())
    if needed + cluster.ranks_per_node * PROGRAM_BYTES + shared > cluster.node_bytes:  # rows would be streamed from disk
        raise ConfigError(
            f"{cluster.ranks_per_node} ranks need {size(needed)} in addition to {size(shared)} of rows, but a node has "
            f"{size(cluster.node_bytes)}; use more nodes, fewer ranks per node, or a smaller --labels-per-pass"
        )
    # Each part of the file is read by one rank; the system may reclaim its pages.
    own["pages of the data file"] = _file_bytes(sizes) // (cluster.ranks_per_node if mapped else shards)
    n_groups = n_ranks // shards
    ranks = f"{shards} ranks that share the rows" if shards > 1 else "one rank with all rows"
    weights = (sizes.n_columns - bool(options.bias)) * weight_bytes
    counts = MOST_BYTES + 8 if method.leaves_out(options) else 0  # of leave-one-out scores, and a threshold
    return Requirements(
        layout=f"{plural(n_groups, 'group')} of {ranks}, {plural(lanes, 'label')} per pass",
        own_bytes=own,
        shared_bytes=shared,
        model_bytes=sizes.n_positive.size * (weights + counts + 64)
        + 8 * sizes.n_features,  # weights, and the column of each feature
        n_groups=n_groups,
        shards=shards,
        n_lanes=lanes,
    )
