"""Loading of rows and labels to train on."""

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows, warm_up
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.headings import find_headings
from hpcml.data.labels import choose_labels, count_positives, fingerprint, warn_about_unused_rows
from hpcml.data.leaks import warn_about_leaks
from hpcml.data.scaling import scaled, warn_about_scales
from hpcml.data.shard import Shard, load_shard
from hpcml.data.shared_rows import load_rank_rows, node_rows
from hpcml.methods.linear.layout import Sharding, check_loading, choose_shards
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions, ScaleOptions
from hpcml.run.profile import Profile
from hpcml.run.session import Session
from hpcml.slices import stop_at


@dataclass(frozen=True)
class LabelProblem:
    method_name: str
    method: LinearMethod
    dataset: DataFile
    split: str
    loaded_by: mpi.Comm  # ranks whose shards make up the rows
    shard: Shard
    rows: CompactRows
    objective: Risk
    labels: np.ndarray  # numbers in the data
    names: list[str]
    n_positive: np.ndarray  # (n_labels) positive rows
    trainable: np.ndarray  # (n_labels) bool: has positive and negative rows
    group: tuple[int, int]  # this rank's group and the number of groups

    def origin(self) -> dict[str, object]:
        """Return what a resumed run or an initial model must have in common. Collective over the group."""
        more = f"{self.dataset.fingerprint} {self.rows.scale!r} {self.objective.lam!r}"
        return {
            "vocabulary": self.dataset.vocabulary,
            "n_rows": self.rows.n_global,
            "fingerprint": fingerprint(self.loaded_by, self.shard, more),
        }


def load(
    stack: ExitStack, method_name: str, method: LinearMethod, session: Session, dataset: DataFile, options: LinearOptions
) -> tuple[LabelProblem, ColumnMap]:
    """Load the rows and labels. Collective; raises ConfigError, DataError, or Interrupted after a signal.

    Shared resources are released when the stack closes.
    """
    comm = session.comm
    profile, check_stop = Profile(), stop_at(session.signals, "reading the rows")
    with profile("load"):
        split = options.split or split_or_all(dataset, "train")
        with profile("warnings"):
            warn_about_unused_rows(comm, dataset, split, session.log)
        shard = load_shard(comm, dataset, split)
        warm_up(comm, shard)
        labels, names = choose_labels(comm, dataset, options, n_positive := count_positives(comm, shard))
        headings = mpi.run_on_root(comm, f"reading the headings of {dataset.path}", lambda: find_headings(dataset, options.exclude))
        with profile("warnings"):
            warn_about_leaks(comm, dataset, shard, labels, names, n_positive, headings, session.log)
        shards = choose_shards(comm, dataset, shard, labels.size, options, method.sharding)
        exact = method.sharding is Sharding.EXACT
        needed = check_loading(comm, shard, shards, labels.size, options, method.memory) if exact else 0
        rows_comm = stack.enter_context(mpi.divided(comm, shards))
        labels_are_distributed = shards == 1 and not exact
        loaded_by = stack.enter_context(mpi.on_node(comm)) if labels_are_distributed else rows_comm
        with mpi.groups_agreed(comm):
            shard = shard if loaded_by.size == comm.size else load_shard(loaded_by, dataset, split)
            scaled_shard = scaled(loaded_by, shard, options.scale, check_stop)
            if labels_are_distributed:
                rows, columns = node_rows(loaded_by, rows_comm, scaled_shard, options.bias, check_stop, method.risk.shares_columns)
            elif exact:
                rows, columns = load_rank_rows(
                    rows_comm, scaled_shard, options.bias, needed, check_stop, method.risk.shares_columns
                )
            else:
                rows, columns = compact_rows(
                    rows_comm, scaled_shard, options.bias, check_stop=check_stop, fold=method.risk.shares_columns
                )
            objective = method.risk(rows, options, profile)
            objective.headings = None if headings is None else headings.in_columns(columns.column_of)
            objective.prepare(loaded_by)
        with mpi.agreed(comm, f"reading {dataset.path}"):
            dataset.check_unchanged()
        if options.scale is None and isinstance(options, ScaleOptions):
            with profile("warnings"):
                warn_about_scales(comm, dataset, rows, columns, session.log)
    of_labels, group = rows.n_positive[labels], (comm.rank // shards, comm.size // shards)
    trainable = (of_labels > 0) & (of_labels < rows.n_global)
    fields = method_name, method, dataset, split, loaded_by, shard, rows, objective, labels, names
    return LabelProblem(*fields, of_labels, trainable, group), columns
