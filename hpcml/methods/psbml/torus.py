"""The torus: which nodes are neighbours, and which rank hosts which. The same on every rank."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcml.errors import ConfigError
from hpcml.partition import even_bounds

_AXES = ((0, 1), (0, -1), (1, 0), (-1, 0))
_DIAGONALS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_FAR = tuple((2 * x, 2 * y) for x, y in _AXES)

# Steps to the neighbours of a node (Kamath 2018, figure 1); each neighbourhood has the node itself too.
NEIGHBOURHOODS: dict[str, tuple[tuple[int, int], ...]] = {
    "L5": _AXES,
    "L9": _AXES + _FAR,
    "C9": _AXES + _DIAGONALS,
    "C13": _AXES + _DIAGONALS + _FAR,
}


def parse_grid(text: str) -> tuple[int, int]:
    """Width and height of "5x4". Raises ConfigError."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not found:
        raise ConfigError(f"--grid {text}: expected WIDTHxHEIGHT, for instance 3x3")
    return int(found[1]), int(found[2])


def grid_for(n_rows: int, most: str) -> str:
    """The grid `most`; for fewer rows than nodes the largest square with a row for each."""
    width, height = parse_grid(most)
    side = max(math.isqrt(n_rows), 1)
    return most if n_rows >= width * height else f"{min(side, width)}x{min(side, height)}"


@dataclass(frozen=True)
class Torus:
    """A grid of width × height nodes that wraps round at its edges; node number = y · width + x."""

    width: int
    height: int
    neighbourhood: str

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return self.width * self.height

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The neighbours of a node, itself among them, ascending, each once; always mutual."""
        y, x = divmod(node, self.width)
        steps = ((0, 0), *NEIGHBOURHOODS[self.neighbourhood])
        return tuple(sorted({(y + dy) % self.height * self.width + (x + dx) % self.width for dx, dy in steps}))


@dataclass(frozen=True)
class Placement:
    """A rank's share of a torus: consecutive nodes, one where there are as many ranks."""

    torus: Torus
    n_ranks: int
    rank: int

    @cached_property
    def owners(self) -> np.ndarray:
        """The rank that hosts each node (n_nodes)."""
        bounds = even_bounds(self.torus.n_nodes, self.n_ranks)
        return np.repeat(np.arange(self.n_ranks), np.diff(bounds))

    @cached_property
    def nodes(self) -> list[int]:
        """This rank's nodes, ascending; none if it is one rank too many."""
        return np.flatnonzero(self.owners == self.rank).tolist()

    @cached_property
    def given(self) -> dict[int, list[int]]:
        """For each other rank with a neighbour of a node here: the nodes here that it must know."""
        return self._pairs(here=True)

    @cached_property
    def wanted(self) -> dict[int, list[int]]:
        """For each other rank with a neighbour of a node here: its nodes to be known here."""
        return self._pairs(here=False)

    def _pairs(self, here: bool) -> dict[int, list[int]]:
        found: dict[int, set[int]] = {}
        for node in self.nodes:
            for other in self.torus.neighbours(node):
                rank = int(self.owners[other])
                if rank != self.rank:
                    found.setdefault(rank, set()).add(node if here else other)
        return {rank: sorted(nodes) for rank, nodes in sorted(found.items())}
