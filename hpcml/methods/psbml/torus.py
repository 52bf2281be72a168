"""The torus: which nodes are neighbours, and which rank hosts which. The same on every rank."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from hpcml.errors import OptionError
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
    """Width and height of "5x4". Raises OptionError."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not found:
        raise OptionError("grid", text, "expected WIDTHxHEIGHT, for instance 3x3")
    return int(found[1]), int(found[2])


def grid_for(n_rows: int, most: str) -> str:
    """The grid `most`; for fewer rows than nodes the largest square with a row for each."""
    width, height = parse_grid(most)
    side = max(math.isqrt(n_rows), 1)
    return most if n_rows >= width * height else f"{min(side, width)}x{min(side, height)}"


@dataclass
class Torus:
    """A grid of width × height nodes that wraps round at its edges, spread over ranks; node number = y · width + x.

    A rank hosts consecutive nodes (`nodes`, ascending), one where there are as many ranks as nodes, none if it is one rank too
    many. `owners` (n_nodes) are the ranks of all nodes. For each other rank with a neighbour of a node here, `given` has the nodes
    here that it must know and `wanted` its nodes to be known here.
    """

    width: int
    height: int
    neighbourhood: str
    n_ranks: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        self.n_nodes = self.width * self.height
        self.owners = np.repeat(np.arange(self.n_ranks), np.diff(even_bounds(self.n_nodes, self.n_ranks)))
        self.nodes: list[int] = np.flatnonzero(self.owners == self.rank).tolist()
        given: dict[int, set[int]] = {}
        wanted: dict[int, set[int]] = {}
        for node in self.nodes:
            for other in self.neighbours(node):
                given.setdefault(int(self.owners[other]), set()).add(node)
                wanted.setdefault(int(self.owners[other]), set()).add(other)
        self.given = {rank: sorted(nodes) for rank, nodes in sorted(given.items()) if rank != self.rank}
        self.wanted = {rank: sorted(nodes) for rank, nodes in sorted(wanted.items()) if rank != self.rank}

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The neighbours of a node, itself among them, ascending, each once; always mutual."""
        y, x = divmod(node, self.width)
        steps = ((0, 0), *NEIGHBOURHOODS[self.neighbourhood])
        return tuple(sorted({(y + dy) % self.height * self.width + (x + dx) % self.width for dx, dy in steps}))
