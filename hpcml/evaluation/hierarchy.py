"""How far predicted labels are from the true ones in a thesaurus: lowest common ancestors.

A. Kosmopoulos, I. Partalas, E. Gaussier, G. Paliouras, I. Androutsopoulos: Evaluation measures for hierarchical classification,
Data Mining and Knowledge Discovery 29 (2015). docs/lookup/measures.md defines what is computed, and how it chooses where the paper
leaves a choice: by the sets of labels and their identifiers alone, so that no order of labels matters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from itertools import count

ROOT = ""  # above all trees
_Below = dict[str, tuple[int, list[str]]]  # what `nearest_below` returns


class Hierarchy:
    """The descriptors above each label, by their identifiers. A place in a tree hangs below the descriptors of its parent's place,
    that of the top of a tree (C14) below its category (C), and this below the root; labels without a place below the root.
    """

    def __init__(self, places: Mapping[str, Sequence[str]]) -> None:
        """`places`: the tree numbers of each descriptor."""
        self._places = places
        self._at: dict[str, list[str]] = {}  # the descriptors at each place
        for name in sorted(places):
            for place in places[name]:
                self._at.setdefault(place, []).append(name)
        self._parents: dict[str, list[str]] = {ROOT: []}
        self._distances: dict[str, dict[str, int]] = {}
        self._ways: dict[tuple[str, str], frozenset[str]] = {}

    def parents(self, node: str) -> list[str]:
        """The nodes right above a node, ascending."""
        if node not in self._parents:
            found = {above for place in self._places.get(node, ()) for above in self._above(place)}
            self._parents[node] = sorted(found - {node}) or [ROOT]
        return self._parents[node]

    def _above(self, place: str) -> list[str]:
        """The nodes right above a place; the root above a category (no descriptor's name)."""
        while "." in place:
            place = place.rpartition(".")[0]
            if place in self._at:
                return self._at[place]
        category = "/" + place[:1]
        self._parents[category] = [ROOT]
        return [category]

    def distances(self, node: str) -> dict[str, int]:
        """The edges of the shortest way from a node to each node above it, itself among them."""
        if node not in self._distances:
            found, level, steps = {node: 0}, [node], 0
            while level:
                steps += 1
                level = [above for below in level for above in self.parents(below)]
                level = [above for above in dict.fromkeys(level) if above not in found]
                found |= dict.fromkeys(level, steps)
            self._distances[node] = found
        return self._distances[node]

    def way(self, node: str, above: str) -> frozenset[str]:
        """The nodes on a shortest way up, with its ends; of several that of the first parents."""
        if (node, above) not in self._ways:
            steps = self.distances(node)[above]
            nearer = (each for each in self.parents(node) if self.distances(each).get(above) == steps - 1)
            self._ways[node, above] = frozenset({node}) | (self.way(next(nearer), above) if steps else frozenset())
        return self._ways[node, above]

    def lowest(self, labels: Collection[str]) -> set[str]:
        """The labels that are not above others of them; those above each other stay."""
        above = {label: self.distances(label).keys() for label in labels}
        return {a for a in above if not any(a in above[b] and b not in above[a] for b in above)}

    def nearest_below(self, labels: Collection[str]) -> _Below:
        """For each node above labels the edges to the nearest, and which these are, ascending."""
        found: _Below = {}
        for label in sorted(labels):
            for node, edges in self.distances(label).items():
                if node not in found or edges < found[node][0]:
                    found[node] = edges, [label]
                elif edges == found[node][0]:
                    found[node][1].append(label)
        return found

    def measures(self, true: Collection[str], given: Collection[str]) -> tuple[float, float, float]:
        """LCA-P, LCA-R and LCA-F of a row's labels; 0 if it has no true or no given labels."""
        if not true or not given:
            return 0.0, 0.0, 0.0
        sides = self.lowest(true), self.lowest(given)
        below = self.nearest_below(sides[0]), self.nearest_below(sides[1])
        joined = self._joined(sides, below)
        chosen = fewest(joined.values())
        nodes: tuple[set[str], set[str]] = set(), set()
        reached: tuple[set[str], set[str]] = set(), set()
        for (side, label), ancestors in joined.items():
            ancestor = min(ancestors & chosen)
            nodes[side].update(self.way(label, ancestor))
            reached[side].add(ancestor)
        for side in 0, 1:
            for ancestor in chosen - reached[side]:
                nodes[side].update(self.way(below[side][ancestor][1][0], ancestor))
        common = len(nodes[0] & nodes[1])
        return common / len(nodes[1]), common / len(nodes[0]), 2 * common / (len(nodes[0]) + len(nodes[1]))

    def _joined(self, sides: tuple[set[str], set[str]], below: tuple[_Below, _Below]) -> dict[tuple[int, str], set[str]]:
        """The lowest common ancestors that join each (side, label) and one of the other side,
        one of which is the other's nearest by way of it; a label of both joins itself alone.
        """
        joined: dict[tuple[int, str], set[str]] = {(side, label): set() for side in (0, 1) for label in sides[side]}
        both = sides[0] & sides[1]
        for side in 0, 1:
            others = below[1 - side]
            for label in sides[side] - both:
                edges = self.distances(label)
                ways = {node: edges[node] + others[node][0] for node in edges.keys() & others.keys()}
                fewest_edges = min(ways.values())
                for ancestor in (node for node, length in ways.items() if length == fewest_edges):
                    for one in ((side, label), *((1 - side, other) for other in others[ancestor][1])):
                        joined[one].add(ancestor)
        return joined | {(side, label): {label} for side in (0, 1) for label in both}


def fewest(choices: Collection[set[str]]) -> set[str]:
    """The smallest set with an element of each choice; of several, that of the first elements."""
    left, found = list(choices), set()
    size = next(size for size in count() if coverable(left, size))
    for element in sorted({element for choice in left for element in choice}):
        rest = [choice for choice in left if element not in choice]
        if size and coverable(rest, size - 1):
            found.add(element)
            left, size = rest, size - 1
        else:
            left = [choice - {element} for choice in left]
    return found


def coverable(choices: Sequence[Set[str]], size: int) -> bool:
    """Whether `size` elements are enough to have one of each choice."""
    apart: set[str] = set()
    n_apart = 0  # choices without a common element: each needs one of its own
    for choice in sorted(choices, key=len):
        if not choice & apart:
            apart |= choice
            n_apart += 1
    if n_apart > size or not choices:
        return n_apart <= size
    elements = min(choices, key=len)
    return any(coverable([choice for choice in choices if element not in choice], size - 1) for element in elements)
