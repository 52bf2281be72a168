"""How fast a model gives rows their best labels."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.bench.programs import BEST
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.evaluation.scoring import MAX_LANES, WEIGHT_BYTES, blocks_of, scorer_of
from hpcml.evaluation.top import top_of
from hpcml.model.linear import Model


@mpi.collective
def top_speed(comm: mpi.Comm, model: Model, dataset: DataFile, split: str) -> float:
    """Collective over `comm`. Rows given their BEST best labels in a second; NaN without rows.

    The model is ready, and the second is one of processor time, of the rank that takes longest.
    """
    shard = load_shard(comm, dataset, split)
    scorer: Any = scorer_of(model, shard, np.arange(model.n_labels))
    scorer.warm_up(comm)
    top = top_of(comm, scorer, BEST, keeps=8 * model.n_labels * model.n_features <= WEIGHT_BYTES)
    begin = time.process_time()
    with mpi.agreed(comm, "finding the best labels"):
        for _, rows in blocks_of(shard.rows, MAX_LANES):
            top.best(scorer, rows)
    seconds, (_, total) = mpi.allreduce_max(comm, time.process_time() - begin), mpi.exclusive_sum(comm, [shard.rows.size])
    return int(total[0]) / seconds if total[0] else math.nan
