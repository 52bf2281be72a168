"""Whether the rows have driven a Winnow's weights to their lower bound, as rows do whose labels
contradict one another.

Wrong labels push every weight down, for a mistake of either kind multiplies by 1.5 and 0.5. Of
generated rows with 10 to 50 % wrong labels a quarter or more of the weights of `mbw` and `bw` end
at the bound, with right ones 1 to 3 %; of texts at most 2 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcml import mpi
from hpcml.methods.online.kernels import LEAST
from hpcml.methods.online.state import LearnerState

SHARE, AT_LEAST = 0.1, 16  # of a label's weights, and how many, tell of labels that contradict one another
AVERAGE = "the average still holds what was learnt before"
AVERAGES = "averages the models on the way, and gets fewer rows wrong then"


def driven(comm: mpi.Comm, names: Sequence[str], state: LearnerState) -> str:
    """Collective over `comm`. A sentence on labels (`names`, of all ranks) at the bound, or ""."""
    n_weights = len(state.method.weights) * (state.kept()[0].size + 1)
    found = np.concatenate(mpi.allgather_arrays(comm, state.at_bound()))
    many = np.flatnonzero((found >= SHARE * n_weights) & (found >= AT_LEAST))
    if not many.size:
        return ""
    worst = int(many[np.argmax(found[many])])
    return (
        f"{int(found[worst]):,} of {n_weights:,} weights of {names[worst]!r} are at their bound of "
        f"2^{int(np.log2(LEAST))} (many are for {many.size:,} of {len(names):,} labels): rows contradict one another, "
        "as they do where labels are wrong"
    )


def note(comm: mpi.Comm, names: Sequence[str], state: LearnerState) -> str:
    """Collective over `comm`. A warning of these labels, with what to do about it, or ""."""
    found = driven(comm, names, state)
    if not found:
        return ""
    if state.options.voted:
        return f"warning: {found}; {AVERAGE}; rows with better labels need a new run, without --initial-model"
    return f"warning: {found}; --voted {AVERAGES}"
