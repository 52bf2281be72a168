"""How far predicted labels are from the true ones in a thesaurus: lowest common ancestors, after Kosmopoulos et al. (2015).

A. Kosmopoulos, I. Partalas, E. Gaussier, G. Paliouras, I. Androutsopoulos: Evaluation measures for hierarchical classification,
Data Mining and Knowledge Discovery 29 (2015). What is computed is defined in docs/bioasq.md. It is the measure without the
paper's last step, which looks for the fewest ancestors that join all labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

ROOT = ""  # above all trees


class Hierarchy:
    """The descriptors above each label, by their identifiers. A place in a tree hangs below the descriptors of its parent's place,
    that of the top of a tree (C14) below its category (C), and this below the root; labels without a place below the root."""

    def __init__(self, places: Mapping[str, Sequence[str]]) -> None:
        """`places`: the tree numbers of each descriptor."""
        self._places = places
        self._at: dict[str, list[str]] = {}  # the descriptors at each place
        for name in sorted(places):
            for place in places[name]:
                self._at.setdefault(place, []).append(name)
        self._parents: dict[str, list[str]] = {ROOT: []}
        self._distances: dict[str, dict[str, int]] = {}

    def parents(self, node: str) -> list[str]:
        """The nodes right above a node, ascending."""
        if node not in self._parents:
            found = {above for place in self._places.get(node, ()) for above in self._above(place)}
            self._parents[node] = sorted(found - {node}) or [ROOT]
        return self._parents[node]

    def _above(self, place: str) -> list[str]:
        """The nodes right above a place; of a category (written so that no descriptor is named like it) the root."""
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

    def nearest(self, own: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Each of `own` that is not among `others`, its nearest one of them, and the lowest common ancestor of both.

        That is the least of all (edges from both to the ancestor, edges from the first, ancestor, other).
        """
        below: dict[str, tuple[int, str]] = {}  # for each node above others: (edges from the nearest one, which that is)
        for b in sorted(others):
            for node, edges in self.distances(b).items():
                if node not in below or edges < below[node][0]:
                    below[node] = edges, b
        for a in sorted(set(own).difference(others)):
            of_a = self.distances(a)
            above = ((below[node][0] + of_a[node], of_a[node], node, below[node][1]) for node in of_a.keys() & below.keys())
            _, _, ancestor, b = min(above)
            yield a, b, ancestor

    def way(self, node: str, above: str) -> set[str]:
        """The nodes on a shortest way up, both ends among them; of several ways that of the parents that come first."""
        found = {node}
        while node != above:
            steps = self.distances(node)[above]
            node = next(each for each in self.parents(node) if self.distances(each).get(above) == steps - 1)
            found.add(node)
        return found

    def measures(self, true: Sequence[str], given: Sequence[str]) -> tuple[float, float, float]:
        """LCA-P, LCA-R and LCA-F of a row's labels; 0 if it has no true or no given labels."""
        if not true or not given:
            return 0.0, 0.0, 0.0
        of_true, of_given = set(true), set(given)
        for own, others, mine, theirs in ((true, given, of_true, of_given), (given, true, of_given, of_true)):
            for a, b, ancestor in self.nearest(own, others):
                mine |= self.way(a, ancestor)
                theirs |= self.way(b, ancestor)
        common = len(of_true & of_given)
        return common / len(of_given), common / len(of_true), 2 * common / (len(of_given) + len(of_true))
