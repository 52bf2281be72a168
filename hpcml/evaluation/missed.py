"""Labels that judged rows have and the model does not know: each pair with a row counts as missed.

The pair has no score. It is a positive that is never retrieved: in recall, F1, average precision,
break-even and AUC of all pairs together, in F1 and nDCG of its row, in BioASQ's measures, and in
the search for thresholds that one of these is to judge. Labels that data keep beside their own
(`data.unknown_labels`) and labels of the data that the model lacks are the same here. Measures of
single labels and their means (macro) are of labels that the model knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard

NOT_JUDGED, NOT_KNOWN = -1, -2  # in place of a label's place among those judged: left out on purpose; not known to the model


@dataclass(frozen=True)
class Missed:
    """The pairs of a judged row and a label that the model does not know."""

    by_row: np.ndarray  # of this rank's rows (n_local): how many such labels each has
    n_pairs: int  # on all ranks
    n_labels: int


def count_missed(comm: mpi.Comm, shard: Shard, place: np.ndarray) -> Missed:
    """Collective over `comm`. Count them; `place` is a label's among those judged, or NOT_KNOWN."""
    found = place[shard.y_indices] == NOT_KNOWN
    rows = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
    by_row = np.bincount(rows[found], minlength=shard.y_indptr.size - 1)[shard.rows]
    mine = np.zeros(shard.y_indptr.size - 1, dtype=bool)
    mine[shard.rows] = True
    by_label = mpi.allreduce_sum(comm, np.bincount(shard.y_indices[found & mine[rows]], minlength=place.size))
    return Missed(by_row, int(by_label.sum()), int(np.count_nonzero(by_label)))
