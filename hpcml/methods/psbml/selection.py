"""Fitness, weights and replacement (Kamath et al. 2018), by global numbers, never by ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcml import rng
from hpcml.data.labels import Classes
from hpcml.data.stratify import divide
from hpcml.partition import offsets

VALIDATION = -1  # in the place of the node on which a row begins, if it is not trained on


class Population(NamedTuple):
    """A node's rows without repeats: ascending `places`, how often each stands there, fitness."""

    places: np.ndarray
    counts: np.ndarray
    fitness: np.ndarray


def population(slots: np.ndarray, fitness: np.ndarray | None = None) -> Population:
    """The rows of a node from its slots, each with its least fitness (default: +∞)."""
    order = np.argsort(slots, kind="stable")
    ascending = slots[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: slots.size])
    counts = np.diff(first, append=slots.size).astype(np.int32)
    least = np.full(first.size, np.inf) if fitness is None else np.minimum.reduceat(fitness[order], first)
    return Population(ascending[first], counts, least)


def finite_range(fitness: np.ndarray) -> tuple[float, float]:
    """The least and greatest fitness but for +∞ (no opinion); of none (∞, −∞)."""
    known = fitness[np.isfinite(fitness)]
    return (float(known.min()), float(known.max())) if known.size else (np.inf, -np.inf)


def selection_weights(fitness: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 − (f − f_min)/(f_max − f_min) (Kamath 2018, section 3.2); 1 if all are equal."""
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
    """A node's slots and their fitness after each was replaced with a probability.

    A new row is drawn from `pool` (own and neighbours' rows, by nodes) in proportion to its weight;
    if all weights are 0, evenly. `slots`, `fitness` (n) are left as they are.
    """
    index = np.arange(slots.size)
    chosen = np.flatnonzero(rng.uniform(seed, f"psbml replace {cycle} {node}", index) < probability)
    places = np.concatenate([part.places for part in pool])
    known = np.concatenate([part.fitness for part in pool])
    counts = np.concatenate([part.counts for part in pool])
    running = np.cumsum(counts * selection_weights(known, low, high))
    if not running[-1] > 0:
        running = np.cumsum(counts.astype(np.float64))
    draws = rng.uniform(seed, f"psbml draw {cycle} {node}", chosen) * running[-1]
    drawn = np.minimum(np.searchsorted(running, draws, side="right"), running.size - 1)
    slots, fitness = slots.copy(), fitness.copy()
    slots[chosen], fitness[chosen] = places[drawn], known[drawn]
    return slots, fitness


def validation_sizes(sizes: np.ndarray, validation_share: float) -> np.ndarray:
    """Return the number of validation rows of each class: `validation_share` of its rows, rounded."""
    return np.floor(validation_share * sizes + 0.5).astype(np.int64)


def spread(classes: Classes, n_nodes: int, validation_share: float, seed: int) -> np.ndarray:
    """Where each row begins: its node, or VALIDATION; by class.

    Within a class the rows stand in the order of random bits keyed by the keys of the rows. The
    first ones (`validation_sizes`) validate, or, of rows with groups, whole groups with about as
    many rows of each class. The others are dealt to the nodes in turn: node sizes differ by one at most.
    """
    draws = rng.bits(seed, "psbml spread", classes.keys)
    order = np.lexsort((classes.rows, draws, classes.of))
    sizes = np.bincount(classes.of)
    validates = np.empty(order.size, dtype=np.bool_)
    if classes.groups is None:
        place = np.arange(order.size) - np.repeat(offsets(sizes)[:-1], sizes)
        validates[order] = place < np.repeat(validation_sizes(sizes, validation_share), sizes)
    else:
        shares = np.array([validation_share, 1 - validation_share])
        validates[:] = divide(sizes.size, np.arange(order.size + 1), classes.of, shares, classes.groups, seed) == 0
    node = np.full(order.size, VALIDATION, dtype=np.int32)
    dealt = order[~validates[order]]
    node[dealt] = np.arange(dealt.size) % n_nodes
    return node
