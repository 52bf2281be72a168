"""The torus: neighbours of nodes, and the distribution of nodes over ranks, which is the same on every rank."""

import math
import re
from dataclasses import dataclass

import numpy as np

from hpcml.errors import OptionError
from hpcml.partition import even_bounds

_AXES = ((0, 1), (0, -1), (1, 0), (-1, 0))
_DIAGONALS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_FAR = tuple((2 * x, 2 * y) for x, y in _AXES)

# Steps to the neighbours of a node (Kamath 2018, figure 1); the node itself belongs to every neighbourhood, too.
NEIGHBOURHOODS: dict[str, tuple[tuple[int, int], ...]] = {
    "L5": _AXES,
    "L9": _AXES + _FAR,
    "C9": _AXES + _DIAGONALS,
    "C13": _AXES + _DIAGONALS + _FAR,
}


def parse_grid(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not match:
        raise OptionError("grid", text, "expected WIDTHxHEIGHT, for instance 3x3")
    return int(match[1]), int(match[2])


def fit_grid(n_rows: int, largest: str) -> str:
    """Return the grid `largest`, or for fewer rows than nodes the largest square with a row for each node."""
    width, height = parse_grid(largest)
    side = max(math.isqrt(n_rows), 1)
    return largest if n_rows >= width * height else f"{min(side, width)}x{min(side, height)}"


@dataclass
class Torus:
    """A grid of nodes that wraps round at its edges; node number = y · width + x. A rank hosts the consecutive `nodes`.

    `owners` (n_nodes) are the ranks of all nodes. For each other rank with a neighbour of a local node, `to_send` lists the local
    nodes that it needs, and `to_receive` its nodes that are needed here.
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
        pairs = [(node, other, int(self.owners[other])) for node in self.nodes for other in self.neighbours(node)]
        ranks = sorted({owner for *_, owner in pairs} - {self.rank})
        self.to_send = {rank: sorted({node for node, _, owner in pairs if owner == rank}) for rank in ranks}
        self.to_receive = {rank: sorted({other for _, other, owner in pairs if owner == rank}) for rank in ranks}

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Return the neighbours of a node including itself, ascending and unique; the relation is symmetric."""
        y, x = divmod(node, self.width)
        steps = ((0, 0), *NEIGHBOURHOODS[self.neighbourhood])
        return tuple(sorted({(y + dy) % self.height * self.width + (x + dx) % self.width for dx, dy in steps}))
