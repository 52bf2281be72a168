"""One run of PSBML with a seed of its own, compared with cycle 0 on rows that neither trained nor chose the cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi, rng
from hpcml.data.dataset import DataFile
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.selection import VALIDATION, validation_sizes
from hpcml.methods.psbml.snapshot import validate
from hpcml.methods.psbml.synchronous import cycles_of
from hpcml.methods.psbml.torus import Torus, parse_grid
from hpcml.methods.psbml.train import make_problem
from hpcml.model.learner import parse_learner

TEST = -2  # in the place of the node on which a row begins: it is compared on


def spread(classes: np.ndarray, rows: np.ndarray, n_nodes: int, share: float, seed: int) -> np.ndarray:
    """Return where each row begins: its node, VALIDATION or TEST. Of each class as many rows test as validate."""
    order = np.lexsort((rng.bits(seed, "psbml spread", rows), classes))
    sizes = np.bincount(classes)
    place = np.arange(classes.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    aside = np.repeat(validation_sizes(sizes, share), sizes)
    start = np.full(classes.size, VALIDATION, dtype=np.int32)
    dealt = order[place >= 2 * aside]
    start[dealt] = np.arange(dealt.size) % n_nodes
    start[order[(place >= aside) & (place < 2 * aside)]] = TEST
    return start


def areas_of_seed(path: Path, seed: int, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the areas under the ROC curve of cycle 0 and of the chosen cycle, on the rows to compare on."""
    options = PsbmlOptions(seed=seed, split="all", **settings)
    with DataFile(path) as dataset:
        torus = Torus(*parse_grid(options.grid), options.neighbourhood)
        problem = make_problem(mpi.self_comm(), dataset, torus, parse_learner(options.base), options)
        classes = problem.classes
        problem = replace(problem, start=spread(classes.of, classes.rows, torus.n_nodes, options.validation_share, seed))
        base = None
        for assessor in cycles_of(problem):
            base = base or assessor.pocket  # on one rank the first one is of cycle 0 alone
        aside = np.flatnonzero(problem.start == TEST)
        matrix = problem.prepared(problem.read(aside))
        pockets = (base, assessor.pocket)
        before, after = (validate(p.classifier, matrix, classes.of[aside], classes.n_classes, p.threshold)[1] for p in pockets)
    return before, after
