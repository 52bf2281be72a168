"""The synchronous cycle: neighbours wait for one another, and every number is that of one rank alone.

Between two ranks that host neighbours three messages go to and fro in a cycle: the nodes' rows (of
those that the other has not seen also the values), the confidences that the other's rows met with
here, and the fitness of the rows here. Over the whole grid two numbers are reduced.
"""

from __future__ import annotations

import time

import numpy as np

from hpcml import mpi
from hpcml.methods.psbml import selection
from hpcml.methods.psbml.problem import RowStore, TorusProblem, distinct
from hpcml.methods.psbml.selection import Population
from hpcml.methods.psbml.snapshot import CycleFacts, Snapshot, entries_of
from hpcml.model import learner as learners
from hpcml.slices import StopCheck, never_stop


class Synchronous:
    """The nodes of this rank. `slots` are their rows, by node."""

    def __init__(self, problem: TorusProblem, slots: dict[int, np.ndarray], cycle: int = 0) -> None:
        """`cycle` is the number of cycles done. Local; raises DataError, OSError, MemoryError."""
        self.problem, self.slots, self.cycle = problem, slots, cycle
        self.store = RowStore(problem, slots)

    def step(self, look: StopCheck = never_stop) -> Snapshot:
        """Collective. One cycle.

        What `look` raises before a node is trained or tests, on any rank, all ranks raise; the cycle is then still to be done.
        """
        problem, comm, torus, begin = self.problem, self.problem.comm, self.problem.torus, time.monotonic()
        self.sent = 0
        with mpi.agreed(comm, "training the nodes"):
            judges = {}
            with problem.computing("train"):
                for node in self.slots:
                    look()
                    judges[node] = self._train(node, self.cycle + 1)
            own = {node: selection.population(slots) for node, slots in self.slots.items()}

        # The neighbours' rows: the store then has their values.
        around, letters = dict(own), {}
        with mpi.agreed(comm, "writing letters to neighbours"):
            for rank, nodes in torus.given.items():
                letter = self.store.letter(rank, distinct(own[node].places for node in nodes))
                letters[rank] = [*letter, *(array for node in nodes for array in (own[node].places, own[node].counts))]
        received = self._exchange(letters)
        with mpi.agreed(comm, "reading letters of neighbours"):
            for rank, arrays in received.items():
                nodes = torus.wanted[rank]
                split = len(arrays) - 2 * len(nodes)
                self.store.open_letter(rank, arrays[:split])
                for node, places, counts in zip(nodes, arrays[split::2], arrays[split + 1 :: 2], strict=True):
                    around[node] = Population(places, counts, np.full(places.size, np.inf))

        # The fitness of the rows here: the least confidence of all judges.
        with mpi.agreed(comm, "testing the nodes' rows"), problem.computing("test"):
            fitness = self._test(judges, around, look)
        for node, confidence in self._exchange_values(fitness, torus.wanted, torus.given):
            np.minimum(fitness[node], confidence, out=fitness[node])
        ranges = [selection.finite_range(fitness[node]) for node in own]
        with problem.profile("exchange"):
            extremes = np.array(
                [max((-low for low, _ in ranges), default=-np.inf), max((high for _, high in ranges), default=-np.inf)]
            )
            mpi.allreduce_maxima(comm, extremes)
        low, high = -float(extremes[0]), float(extremes[1])
        for node, values in [*((node, fitness[node]) for node in own), *self._exchange_values(fitness, torus.given, torus.wanted)]:
            around[node] = around[node]._replace(fitness=values)

        # All nodes draw before any row is replaced.
        self.cycle += 1
        with mpi.agreed(comm, "drawing rows"):
            new, options = {}, problem.options
            for node, slots in self.slots.items():
                pool, mine = [around[neighbour] for neighbour in torus.neighbours(node)], around[node]
                known = (mine.fitness[np.searchsorted(mine.places, slots)], pool, options.replace, low, high)
                new[node] = selection.replace(options.seed, self.cycle, node, slots, *known)
            self.slots = {node: slots for node, (slots, _) in new.items()}
            populations = {node: selection.population(*of_node) for node, of_node in new.items()}
            entries = entries_of(populations, low, high)
        return Snapshot(self.cycle, entries, CycleFacts(low, high, self.sent, time.monotonic() - begin))

    def _train(self, node: int, cycle: int) -> object:
        """Train the classifier of a node in a cycle. Local."""
        slots = self.slots[node]
        return self.problem.train(self.store.take(slots), slots, "train", cycle * self.problem.torus.n_nodes + node)

    def _test(self, judges: dict[int, object], around: dict[int, Population], look: StopCheck) -> dict[int, np.ndarray]:
        """By node, here or near: its rows' least confidence of judges here. Raises as `look`."""
        problem = self.problem
        least = {node: np.full(rows.places.size, np.inf) for node, rows in around.items()}
        before: tuple[int, ...] = ()
        for judge, classifier in judges.items():
            look()
            neighbours = problem.torus.neighbours(judge)
            if neighbours != before:  # on a small torus all nodes have the same neighbours
                places = distinct(around[node].places for node in neighbours)
                matrix, before = problem.prepared(self.store.take(places)), neighbours
                at = {node: np.searchsorted(places, around[node].places) for node in neighbours}
            confidence = learners.confidence(classifier, matrix)
            for node in neighbours:
                np.minimum(least[node], confidence[at[node]], out=least[node])
        return least

    def _exchange(self, parts: dict[int, mpi.Arrays]) -> dict[int, mpi.Arrays]:
        """Collective over neighbours. Exchange messages and count their bytes."""
        self.sent += sum(array.nbytes for arrays in parts.values() for array in arrays)
        with self.problem.profile("exchange"):
            return mpi.exchange_with(self.problem.comm, parts)

    def _exchange_values(
        self, values: dict[int, np.ndarray], given: dict[int, list[int]], wanted: dict[int, list[int]]
    ) -> list[tuple[int, np.ndarray]]:
        """Collective over neighbours. Give values of nodes, by rank; those of the wanted nodes."""
        received = self._exchange({rank: [values[node] for node in nodes] for rank, nodes in given.items()})
        return [pair for rank, arrays in received.items() for pair in zip(wanted[rank], arrays, strict=True)]
