"""The synchronous cycle: neighbours wait for one another, and every number is that of one rank
alone.

Between two ranks that host neighbours three messages go to and fro in a cycle: the nodes' rows (of
those that the other has not seen also the values), the confidences that the other's rows met with
here, and the fitness of the rows here. Over the whole grid two numbers are reduced.
"""

from __future__ import annotations

import time

import numpy as np

from hpcml import mpi
from hpcml.methods.psbml import selection
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.rows import RowStore, distinct
from hpcml.methods.psbml.selection import Population
from hpcml.methods.psbml.snapshot import CycleFacts, Snapshot, entries_of
from hpcml.model import learner as learners
from hpcml.slices import Look, never_stop


class Synchronous:
    """The nodes of this rank. `slots` are their rows, by node."""

    def __init__(self, problem: TorusProblem, slots: dict[int, np.ndarray], cycle: int = 0) -> None:
        """`cycle` is the number of cycles done. Local; raises DataError, OSError, MemoryError."""
        self.problem, self.slots, self.cycle = problem, slots, cycle
        places = distinct([np.empty(0, problem.place_type), *slots.values()])
        self.store = RowStore(problem.dataset.n_features, places, problem.read(places))

    def step(self, look: Look = never_stop) -> Snapshot:
        """Collective. One cycle.

        What `look` raises before a node is trained or tests, on any rank, all ranks raise; the
        cycle is then still to be done.
        """
        problem, comm, begin = self.problem, self.problem.comm, time.monotonic()
        self.sent = 0
        with mpi.agreed(comm, "training the nodes"):
            judges = {}
            with problem.computing("train"):
                for node in self.slots:
                    look()
                    judges[node] = self._train(node, self.cycle + 1)
            own = {node: selection.population(slots) for node, slots in self.slots.items()}
        around = own | self._exchange_rows(own)
        with mpi.agreed(comm, "testing the nodes' rows"), problem.computing("test"):
            confidences = self._test(judges, around, look)
        for node, confidence in self._exchange_values(confidences, given=problem.placement.wanted, wanted=problem.placement.given):
            np.minimum(confidences[node], confidence, out=confidences[node])
        own = {node: rows._replace(fitness=confidences[node]) for node, rows in own.items()}
        ranges = [selection.finite_range(rows.fitness) for rows in own.values()]
        with problem.profile("exchange"):
            extremes = np.array(
                [max((-low for low, _ in ranges), default=-np.inf), max((high for _, high in ranges), default=-np.inf)]
            )
            mpi.allreduce_maxima(comm, extremes)
        low, high = -float(extremes[0]), float(extremes[1])
        fitness = {node: rows.fitness for node, rows in own.items()}
        found = self._exchange_values(fitness, problem.placement.given, problem.placement.wanted)
        around = own | {node: around[node]._replace(fitness=values) for node, values in found}
        self.cycle += 1
        with mpi.agreed(comm, "drawing rows"):
            new = self._draw(around, low, high)
            entries = entries_of(new, low, high)
        return Snapshot(self.cycle, entries, CycleFacts(low, high, self.sent, time.monotonic() - begin))

    def _train(self, node: int, cycle: int) -> object:
        """Train the classifier of a node in a cycle. Local."""
        slots = self.slots[node]
        return self.problem.train(self.store.take(slots), slots, "train", cycle * self.problem.n_nodes + node)

    def _exchange(self, parts: dict[int, mpi.Arrays]) -> dict[int, mpi.Arrays]:
        """Collective over neighbours. Exchange messages and count their bytes."""
        self.sent += sum(array.nbytes for arrays in parts.values() for array in arrays)
        with self.problem.profile("exchange"):
            return mpi.exchange_with(self.problem.comm, parts)

    def _exchange_values(
        self, values: dict[int, np.ndarray], given: dict[int, list[int]], wanted: dict[int, list[int]]
    ) -> list[tuple[int, np.ndarray]]:
        """Collective over neighbours. Give values of nodes, by rank; those of the wanted nodes."""
        parts = {rank: [values[node] for node in nodes] for rank, nodes in given.items()}
        return [pair for rank, arrays in self._exchange(parts).items() for pair in zip(wanted[rank], arrays, strict=True)]

    def _exchange_rows(self, own: dict[int, Population]) -> dict[int, Population]:
        """Collective over neighbours. Their nodes' populations; the store then has their rows."""
        comm, placement, parts, found = self.problem.comm, self.problem.placement, {}, {}
        with mpi.agreed(comm, "writing letters to neighbours"):
            for rank, nodes in placement.given.items():
                places = distinct(own[node].places for node in nodes)
                letter = self.store.letter(rank, places)
                parts[rank] = [*letter, *(array for node in nodes for array in (own[node].places, own[node].counts))]
        received = self._exchange(parts)
        with mpi.agreed(comm, "reading letters of neighbours"):
            for rank, arrays in received.items():
                nodes = placement.wanted[rank]
                split = len(arrays) - 2 * len(nodes)
                self.store.open_letter(rank, arrays[:split])
                for node, places, counts in zip(nodes, arrays[split::2], arrays[split + 1 :: 2], strict=True):
                    found[node] = Population(places, counts, np.full(places.size, np.inf))
        return found

    def _test(self, judges: dict[int, object], around: dict[int, Population], look: Look) -> dict[int, np.ndarray]:
        """By node, here or near: its rows' least confidence of judges here. Raises as `look`."""
        problem, torus = self.problem, self.problem.placement.torus
        least = {node: np.full(rows.places.size, np.inf) for node, rows in around.items()}
        before: tuple[int, ...] = ()
        for judge, classifier in judges.items():
            look()
            neighbours = torus.neighbours(judge)
            if neighbours != before:  # on a small torus all nodes have the same neighbours
                places = distinct(around[node].places for node in neighbours)
                matrix, before = problem.prepared(self.store.take(places)), neighbours
                at = {node: np.searchsorted(places, around[node].places) for node in neighbours}
            confidence = learners.confidence(classifier, matrix)
            for node in neighbours:
                np.minimum(least[node], confidence[at[node]], out=least[node])
        return least

    def _draw(self, around: dict[int, Population], low: float, high: float) -> dict[int, Population]:
        """Replace rows of the nodes here, after all have drawn; populations, as fit as before."""
        torus, options, new = self.problem.placement.torus, self.problem.options, {}
        for node, slots in self.slots.items():
            pool = [around[neighbour] for neighbour in torus.neighbours(node)]
            fitness = around[node].fitness_of(slots)
            new[node] = selection.replace(options.seed, self.cycle, node, slots, fitness, pool, options.replace, low, high)
        self.slots = {node: slots for node, (slots, _) in new.items()}
        return {node: selection.population(slots, fitness) for node, (slots, fitness) in new.items()}
