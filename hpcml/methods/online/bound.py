"""Whether the rows have driven a Winnow's weights to their lower bound, as rows do whose labels contradict one another.

Wrong labels push every weight down, for a mistake of either kind multiplies by 1.5 and 0.5. Of generated rows with 10 to 50 % wrong
labels a quarter or more of the weights of `mbw` and `bw` end at the bound, with right ones 1 to 3 %; of texts at most 2 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcml import mpi
from hpcml.methods.online.kernels import LEAST
from hpcml.methods.online.state import State

SHARE, AT_LEAST = 0.1, 16  # of a label's weights, and how many, tell of labels that contradict one another


@mpi.collective
def note(comm: mpi.Comm, names: Sequence[str], state: State) -> str:
    """Collective over `comm`. A sentence about the labels (`names`: of all ranks) with many weights at the bound, or ""."""
    n_weights = len(state.method.weights) * (state.kept()[0].size + 1)
    found = np.concatenate(mpi.allgather_arrays(comm, state.at_bound()))
    driven = np.flatnonzero((found >= SHARE * n_weights) & (found >= AT_LEAST))
    if not driven.size:
        return ""
    worst = int(driven[np.argmax(found[driven])])
    if state.options.voted:
        advice = "the average still holds what was learnt before; rows with better labels need a new run, without --initial-model"
    else:
        advice = "--voted averages the models on the way, and gets fewer rows wrong then"
    return (
        f"warning: {int(found[worst]):,} of {n_weights:,} weights of {names[worst]!r} are at their bound of "
        f"2^{int(np.log2(LEAST))} (many are for {driven.size:,} of {len(names):,} labels): rows contradict one another, "
        f"as they do where labels are wrong; {advice}"
    )
