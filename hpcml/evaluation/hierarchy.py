"""Hierarchical precision, recall and F1 of predicted labels in a thesaurus, by lowest common ancestors (LCA).

A. Kosmopoulos, I. Partalas, E. Gaussier, G. Paliouras, I. Androutsopoulos: Evaluation measures for hierarchical classification,
Data Mining and Knowledge Discovery 29 (2015). docs/lookup/measures.md has the definition. Where the paper leaves a choice, the
result depends on the sets of labels and their identifiers only, not on the order of labels.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from itertools import count

ROOT = ""  # above all trees
_Nearest = dict[str, tuple[int, list[str]]]  # by node: distance to the nearest labels below it, and these labels


class Hierarchy:
    """The ancestors of descriptors, by identifier.

    The parents of a tree number are the descriptors at its parent number, those of a tree's top (C14) its category (C), and that of
    a category the root. Labels without a tree number are children of the root.
    """

    def __init__(self, tree_numbers: Mapping[str, Sequence[str]]) -> None:
        self._tree_numbers = tree_numbers
        self._descriptors: dict[str, list[str]] = {}  # by tree number
        for name in sorted(tree_numbers):
            for number in tree_numbers[name]:
                self._descriptors.setdefault(number, []).append(name)
        self._parents: dict[str, list[str]] = {ROOT: []}
        self._distances: dict[str, dict[str, int]] = {}
        self._paths: dict[tuple[str, str], frozenset[str]] = {}

    def parents(self, node: str) -> list[str]:
        if node not in self._parents:
            parents = {parent for number in self._tree_numbers.get(node, ()) for parent in self._parents_of_number(number)}
            self._parents[node] = sorted(parents - {node}) or [ROOT]
        return self._parents[node]

    def _parents_of_number(self, number: str) -> list[str]:
        while "." in number:
            number = number.rpartition(".")[0]
            if number in self._descriptors:
                return self._descriptors[number]
        category = "/" + number[:1]  # not the name of a descriptor
        self._parents[category] = [ROOT]
        return [category]

    def distances(self, node: str) -> dict[str, int]:
        """Return the distances (edges) from a node to its ancestors, including itself."""
        if node not in self._distances:
            distances, level, steps = {node: 0}, [node], 0
            while level:
                steps += 1
                level = [parent for child in level for parent in self.parents(child)]
                level = [parent for parent in dict.fromkeys(level) if parent not in distances]
                distances |= dict.fromkeys(level, steps)
            self._distances[node] = distances
        return self._distances[node]

    def path(self, node: str, ancestor: str) -> frozenset[str]:
        """Return the nodes of a shortest path to an ancestor, with its ends; the first parents decide between several."""
        if (node, ancestor) not in self._paths:
            steps = self.distances(node)[ancestor]
            nearer = (each for each in self.parents(node) if self.distances(each).get(ancestor) == steps - 1)
            self._paths[node, ancestor] = frozenset({node}) | (self.path(next(nearer), ancestor) if steps else frozenset())
        return self._paths[node, ancestor]

    def lowest(self, labels: Collection[str]) -> set[str]:
        ancestors = {label: self.distances(label).keys() for label in labels}
        return {a for a in ancestors if not any(a in ancestors[b] and b not in ancestors[a] for b in ancestors)}

    def nearest_below(self, labels: Collection[str]) -> _Nearest:
        """Return for each ancestor of labels the distance to the nearest labels, and these labels, ascending."""
        nearest: _Nearest = {}
        for label in sorted(labels):
            for node, edges in self.distances(label).items():
                if node not in nearest or edges < nearest[node][0]:
                    nearest[node] = edges, [label]
                elif edges == nearest[node][0]:
                    nearest[node][1].append(label)
        return nearest

    def measures(self, true: Collection[str], predicted: Collection[str]) -> tuple[float, float, float]:
        """Return LCA-P, LCA-R and LCA-F of a row's labels; 0 without true or without predicted labels."""
        if not true or not predicted:
            return 0.0, 0.0, 0.0
        sides = self.lowest(true), self.lowest(predicted)
        below = self.nearest_below(sides[0]), self.nearest_below(sides[1])
        joined = self._joined(sides, below)
        chosen = smallest_cover(joined.values())
        nodes: tuple[set[str], set[str]] = set(), set()
        reached: tuple[set[str], set[str]] = set(), set()
        for (side, label), ancestors in joined.items():
            ancestor = min(ancestors & chosen)
            nodes[side].update(self.path(label, ancestor))
            reached[side].add(ancestor)
        for side in 0, 1:
            for ancestor in chosen - reached[side]:
                nodes[side].update(self.path(below[side][ancestor][1][0], ancestor))
        common = len(nodes[0] & nodes[1])
        return common / len(nodes[1]), common / len(nodes[0]), 2 * common / (len(nodes[0]) + len(nodes[1]))

    def _joined(self, sides: tuple[set[str], set[str]], below: tuple[_Nearest, _Nearest]) -> dict[tuple[int, str], set[str]]:
        """Return the lowest common ancestors of each (side, label); a label of both sides is joined with itself only."""
        joined: dict[tuple[int, str], set[str]] = {(side, label): set() for side in (0, 1) for label in sides[side]}
        both = sides[0] & sides[1]
        for side in 0, 1:
            others = below[1 - side]
            for label in sides[side] - both:
                edges = self.distances(label)
                lengths = {node: edges[node] + others[node][0] for node in edges.keys() & others.keys()}
                shortest = min(lengths.values())
                for ancestor in (node for node, length in lengths.items() if length == shortest):
                    for one in ((side, label), *((1 - side, other) for other in others[ancestor][1])):
                        joined[one].add(ancestor)
        return joined | {(side, label): {label} for side in (0, 1) for label in both}


def smallest_cover(choices: Collection[set[str]]) -> set[str]:
    """Return the smallest set with an element of each choice; the first elements decide between several."""
    remaining, cover = list(choices), set()
    size = next(size for size in count() if has_cover(remaining, size))
    for element in sorted({element for choice in remaining for element in choice}):
        others = [choice for choice in remaining if element not in choice]
        if size and has_cover(others, size - 1):
            cover.add(element)
            remaining, size = others, size - 1
        else:
            remaining = [choice - {element} for choice in remaining]
    return cover


def has_cover(choices: Sequence[Set[str]], size: int) -> bool:
    """Return whether some `size` elements include one of each choice."""
    union: set[str] = set()
    n_disjoint = 0  # pairwise disjoint choices: each needs its own element
    for choice in sorted(choices, key=len):
        if not choice & union:
            union |= choice
            n_disjoint += 1
    if n_disjoint > size or not choices:
        return n_disjoint <= size
    elements = min(choices, key=len)
    return any(has_cover([choice for choice in choices if element not in choice], size - 1) for element in elements)
