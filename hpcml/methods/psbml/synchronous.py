"""The synchronous cycle: neighbours wait for one another, and the result has the bits of a run on one rank.

Two ranks that host neighbours exchange three messages in a cycle: the nodes' rows (with values for rows that the other rank has not
received), the confidences of the local classifiers on the other's rows, and the fitness of the local rows. Two numbers are reduced
over the whole grid.
"""

import time

import numpy as np

from hpcml import mpi
from hpcml.methods.psbml import selection
from hpcml.methods.psbml.problem import RowStore, TorusProblem, unique_sorted
from hpcml.methods.psbml.selection import Population
from hpcml.methods.psbml.snapshot import CycleFacts, Snapshot, make_entries
from hpcml.model import learner as learners
from hpcml.slices import StopCheck, no_stop_check


class Synchronous:
    def __init__(self, problem: TorusProblem, slots: dict[int, np.ndarray], cycle: int = 0) -> None:
        """`cycle` is the number of completed cycles. Raises DataError, OSError, MemoryError."""
        self.problem, self.slots, self.cycle = problem, slots, cycle
        self.store = RowStore(problem, slots)

    def step(self, look: StopCheck = no_stop_check) -> Snapshot:
        """Run one cycle. An error raised by `look` is raised on all ranks; the cycle is then repeated. Collective."""
        problem, comm, torus, begin = self.problem, self.problem.comm, self.problem.torus, time.monotonic()
        self.sent = 0
        with mpi.agreed(comm, "training the nodes"):
            judges = {}
            with problem.computing("train"):
                for node in self.slots:
                    look()
                    judges[node] = self._train(node, self.cycle + 1)
            own = {node: selection.population(slots) for node, slots in self.slots.items()}

        # Exchange rows with the neighbours; the store then has their values.
        populations, messages = dict(own), {}
        with mpi.agreed(comm, "packing rows for neighbours"):
            for rank, nodes in torus.to_send.items():
                packed = self.store.pack_for(rank, unique_sorted(own[node].positions for node in nodes))
                messages[rank] = [*packed, *(array for node in nodes for array in (own[node].positions, own[node].counts))]
        received = self._exchange(messages)
        with mpi.agreed(comm, "unpacking rows of neighbours"):
            for rank, arrays in received.items():
                nodes = torus.to_receive[rank]
                split = len(arrays) - 2 * len(nodes)
                self.store.unpack_from(rank, arrays[:split])
                for node, positions, counts in zip(nodes, arrays[split::2], arrays[split + 1 :: 2], strict=True):
                    populations[node] = Population(positions, counts, np.full(positions.size, np.inf))

        # The fitness of a row: the minimum confidence over all judging nodes.
        with mpi.agreed(comm, "testing the nodes' rows"), problem.computing("test"):
            fitness = self._test(judges, populations, look)
        for node, confidence in self._exchange_values(fitness, torus.to_receive, torus.to_send):
            np.minimum(fitness[node], confidence, out=fitness[node])
        ranges = np.array([(np.inf, -np.inf), *(selection.finite_range(fitness[node]) for node in own)])
        with problem.profile("exchange"):
            extremes = mpi.allreduce_maxima(comm, (ranges * (-1, 1)).max(axis=0))
        low, high = -float(extremes[0]), float(extremes[1])
        for node, values in [
            *((node, fitness[node]) for node in own),
            *self._exchange_values(fitness, torus.to_send, torus.to_receive),
        ]:
            populations[node] = populations[node]._replace(fitness=values)

        # All nodes draw before any row is replaced.
        self.cycle += 1
        with mpi.agreed(comm, "drawing rows"):
            new, options = {}, problem.options
            for node, slots in self.slots.items():
                pool, own_rows = [populations[neighbour] for neighbour in torus.neighbours(node)], populations[node]
                known = (own_rows.fitness[np.searchsorted(own_rows.positions, slots)], pool, options.replace, low, high)
                new[node] = selection.replace(options.seed, self.cycle, node, slots, *known)
            self.slots = {node: slots for node, (slots, _) in new.items()}
            new_populations = {node: selection.population(*of_node) for node, of_node in new.items()}
            entries = make_entries(new_populations, low, high)
        return Snapshot(self.cycle, entries, CycleFacts(low, high, self.sent, time.monotonic() - begin))

    def _train(self, node: int, cycle: int) -> object:
        slots = self.slots[node]
        return self.problem.train(self.store.take(slots), slots, "train", cycle * self.problem.torus.n_nodes + node)

    def _test(self, judges: dict[int, object], populations: dict[int, Population], look: StopCheck) -> dict[int, np.ndarray]:
        problem = self.problem
        least = {node: np.full(rows.positions.size, np.inf) for node, rows in populations.items()}
        before: tuple[int, ...] = ()
        for judge, classifier in judges.items():
            look()
            neighbours = problem.torus.neighbours(judge)
            if neighbours != before:  # on a small torus all nodes have the same neighbours
                positions = unique_sorted(populations[node].positions for node in neighbours)
                matrix, before = problem.prepared(self.store.take(positions)), neighbours
                at = {node: np.searchsorted(positions, populations[node].positions) for node in neighbours}
            confidence = learners.confidence(classifier, matrix)
            for node in neighbours:
                np.minimum(least[node], confidence[at[node]], out=least[node])
        return least

    def _exchange(self, parts: dict[int, mpi.Arrays]) -> dict[int, mpi.Arrays]:
        self.sent += sum(array.nbytes for arrays in parts.values() for array in arrays)
        with self.problem.profile("exchange"):
            return mpi.exchange_with(self.problem.comm, parts)

    def _exchange_values(
        self, values: dict[int, np.ndarray], to_send: dict[int, list[int]], to_receive: dict[int, list[int]]
    ) -> list[tuple[int, np.ndarray]]:
        received = self._exchange({rank: [values[node] for node in nodes] for rank, nodes in to_send.items()})
        return [pair for rank, arrays in received.items() for pair in zip(to_receive[rank], arrays, strict=True)]
