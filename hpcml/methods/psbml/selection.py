"""Fitness, weights and replacement (Kamath et al. 2018), by global row numbers: results do not depend on the ranks."""

from typing import NamedTuple

import numpy as np

from hpcml import rng
from hpcml.data.labels import Classes
from hpcml.data.stratify import divide
from hpcml.partition import offsets

VALIDATION = -1  # node number of a row that is held out for validation


class Population(NamedTuple):
    """A node's unique rows: ascending `positions`, the number of slots of each, fitness."""

    positions: np.ndarray
    counts: np.ndarray
    fitness: np.ndarray


def population(slots: np.ndarray, fitness: np.ndarray | None = None) -> Population:
    """Return a node's rows from its slots, each with its minimum fitness (default: +∞)."""
    order = np.argsort(slots, kind="stable")
    ascending = slots[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: slots.size])
    counts = np.diff(first, append=slots.size).astype(np.int32)
    least = np.full(first.size, np.inf) if fitness is None else np.minimum.reduceat(fitness[order], first)
    return Population(ascending[first], counts, least)


def finite_range(fitness: np.ndarray) -> tuple[float, float]:
    """Return the minimum and maximum fitness without +∞ (not judged); (∞, −∞) if none is finite."""
    known = fitness[np.isfinite(fitness)]
    return (float(known.min()), float(known.max())) if known.size else (np.inf, -np.inf)


def selection_weights(fitness: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return 1 − (f − f_min)/(f_max − f_min) (Kamath 2018, section 3.2), or 1 if all fitness values are equal."""
    if not high > low:
        return np.ones(fitness.size)
    return 1.0 - (np.clip(fitness, low, high) - low) / (high - low)


def replace(
    seed: int,
    cycle: int,
    node: int,
    slots: np.ndarray,
    fitness: np.ndarray,
    pool: list[Population],
    probability: float,
    low: float,
    high: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a node's slots and their fitness after each was replaced with a probability.

    A new row is drawn from `pool` in proportion to its weight, or uniformly if all weights are 0.
    """
    index = np.arange(slots.size)
    chosen = np.flatnonzero(rng.uniform(seed, f"psbml replace {cycle} {node}", index) < probability)
    positions = np.concatenate([part.positions for part in pool])
    known = np.concatenate([part.fitness for part in pool])
    counts = np.concatenate([part.counts for part in pool])
    running = np.cumsum(counts * selection_weights(known, low, high))
    if not running[-1] > 0:
        running = np.cumsum(counts.astype(np.float64))
    draws = rng.uniform(seed, f"psbml draw {cycle} {node}", chosen) * running[-1]
    drawn = np.minimum(np.searchsorted(running, draws, side="right"), running.size - 1)
    slots, fitness = slots.copy(), fitness.copy()
    slots[chosen], fitness[chosen] = positions[drawn], known[drawn]
    return slots, fitness


def validation_sizes(sizes: np.ndarray, validation_share: float) -> np.ndarray:
    return np.floor(validation_share * sizes + 0.5).astype(np.int64)


def assign_nodes(classes: Classes, n_nodes: int, validation_share: float, seed: int) -> np.ndarray:
    """Return the node of each row, or VALIDATION, stratified by class; node sizes differ by at most one.

    Within a class, rows are ordered by random bits derived from their keys. Groups of rows are not divided by the validation.
    """
    draws = rng.bits(seed, "psbml spread", classes.keys)
    order = np.lexsort((classes.rows, draws, classes.of))
    sizes = np.bincount(classes.of)
    validates = np.empty(order.size, dtype=np.bool_)
    if classes.groups is None:
        rank = np.arange(order.size) - np.repeat(offsets(sizes)[:-1], sizes)  # within the class
        validates[order] = rank < np.repeat(validation_sizes(sizes, validation_share), sizes)
    else:
        shares = np.array([validation_share, 1 - validation_share])
        validates[:] = divide(sizes.size, np.arange(order.size + 1), classes.of, shares, classes.groups, seed) == 0
    node = np.full(order.size, VALIDATION, dtype=np.int32)
    dealt = order[~validates[order]]
    node[dealt] = np.arange(dealt.size) % n_nodes
    return node
