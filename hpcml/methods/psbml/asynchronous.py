"""The asynchronous mode: nodes do not wait for each other; each uses the latest state received from its neighbours.

A message to a rank contains the new states of the local nodes that it needs (rows, fitness and cycles), the confidences of the
local classifiers on its rows, and a table of all nodes: the number of cycles of each and the range of its fitness, as far as known.
The tables spread from neighbour to neighbour. They give the range of fitness over the grid, and every rank detects from them when
the fastest rank has completed its cycles. A node on a slow rank completes fewer cycles and replaces more rows in each: a share 1 −
(1 − p)^d, where p is the replacement probability and d the number of cycles of the fastest node since the last cycle of this node.
So all rows evolve alike.

In the synchronous mode, all nodes draw from the rows before any replacement. Here a node keeps its previous rows until its next
cycle, and neighbours that reach the same cycle later draw from them; otherwise rows that only this node had would be lost too
early.
"""

import time
from functools import partial

import numpy as np

from hpcml import mpi
from hpcml.kernels import elementary
from hpcml.methods.psbml import selection
from hpcml.methods.psbml.problem import RowStore, TorusProblem, unique_sorted
from hpcml.methods.psbml.selection import Population
from hpcml.methods.psbml.snapshot import CycleFacts, Snapshot, make_entries
from hpcml.model import learner as learners

CYCLES, LOW, HIGH = range(3)  # columns of the table


class Asynchronous:
    def __init__(
        self, problem: TorusProblem, slots: dict[int, np.ndarray], fitness: dict[int, np.ndarray], cycles: np.ndarray
    ) -> None:
        """`cycles` (n_nodes) are completed. Receives the neighbours' first states. Collective."""
        self.problem, self.slots, self.fitness = problem, slots, fitness
        self.table = np.zeros((problem.torus.n_nodes, 3))
        self.table[:] = (0, np.inf, -np.inf)
        self.table[:, CYCLES] = cycles
        self._cycles_at_replacement = dict.fromkeys(slots, self._max_cycles)  # of the fastest node, by local node
        self.sent, self.began = 0, time.monotonic()
        with mpi.agreed(problem.comm, f"reading {problem.dataset.path}"):
            self.store = RowStore(problem, slots)
        self.populations = {node: selection.population(slots[node], fitness[node]) for node in slots}
        self.previous = dict(self.populations)  # before the last replacement
        # confidences[node][judge]: ascending positions and the judge's latest confidences
        self.confidences: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {node: {} for node in slots}
        self._new_states = {rank: set(nodes) for rank, nodes in problem.torus.to_send.items()}
        self._new_confidences: dict[int, dict[tuple[int, int], tuple]] = {rank: {} for rank in self._new_states}
        first = mpi.exchange_with(problem.comm, {rank: self._pack_news(rank) for rank in self._new_states})
        self.mailbox = mpi.Mailbox(problem.comm, self._new_states)
        for rank, arrays in first.items():
            self._unpack(rank, arrays)

    @property
    def cycles_done(self) -> int:
        """Return the cycles of the grid: those that all nodes of the fastest rank have completed, as far as known."""
        _, first = np.unique(self.problem.torus.owners, return_index=True)
        return int(np.minimum.reduceat(self.table[:, CYCLES], first).max())

    @property
    def _max_cycles(self) -> float:
        return float(self.table[:, CYCLES].max())

    def step(self, node: int) -> None:
        problem, options = self.problem, self.problem.options
        self.deliver()
        cycle = int(self.table[node, CYCLES]) + 1
        slots, neighbours = self.slots[node], problem.torus.neighbours(node)
        with problem.computing("train"):
            purpose_number = cycle * problem.torus.n_nodes + node
            classifier = problem.train(self.store.take(slots), slots, "train", purpose_number)
        with problem.computing("test"):
            ahead = {other for other in neighbours if self.table[other, CYCLES] >= cycle}
            judged = [*(self.populations[other] for other in neighbours), *(self.previous[other] for other in ahead)]
            pool = unique_sorted(part.positions for part in judged)
            confidence = learners.confidence(classifier, problem.prepared(self.store.take(pool)))
        for other in neighbours:  # confidences reach local nodes now, others with the next message
            positions = self.populations[other].positions
            seen = (positions, confidence[np.searchsorted(pool, positions)])
            if other in self.slots:
                self.confidences[other][node] = seen
            else:
                self._new_confidences[int(problem.torus.owners[other])][other, node] = seen
        own = self._with_fitness(node)
        self.populations[node] = own
        self.table[node] = (cycle, *selection.finite_range(own.fitness))
        low, high = float(self.table[:, LOW].min()), float(self.table[:, HIGH].max())  # over the grid, as far as known
        parts = []
        for other in neighbours:
            if other == node:
                parts.append(own)
                continue
            rows = self.previous[other] if other in ahead else self._with_fitness(other)
            # This node's confidence counts even if the neighbour has not received it yet.
            parts.append(rows._replace(fitness=np.minimum(rows.fitness, confidence[np.searchsorted(pool, rows.positions)])))
        passed, self._cycles_at_replacement[node] = self._max_cycles - self._cycles_at_replacement[node], self._max_cycles
        probability = 1 - elementary.power(1.0 - options.replace, float(passed))
        known = (own.fitness[np.searchsorted(own.positions, slots)], parts, probability, low, high)
        self.slots[node], self.fitness[node] = selection.replace(options.seed, cycle, node, slots, *known)
        self.previous[node], self.populations[node] = own, selection.population(self.slots[node], self.fitness[node])
        for rank, nodes in problem.torus.to_send.items():
            if node in nodes:
                self._new_states[rank].add(node)
            self.mailbox.post(rank, partial(self._pack_news, rank))
        self.deliver()

    def _with_fitness(self, node: int) -> Population:
        rows = self.populations[node]
        if node not in self.slots:
            return rows
        least = np.full(rows.positions.size, np.inf)
        for positions, confidence in self.confidences[node].values():
            if np.array_equal(rows.positions, positions):  # usual case: the rows have not changed since
                np.minimum(least, confidence, out=least)
                continue
            index = np.minimum(np.searchsorted(rows.positions, positions), rows.positions.size - 1)
            same = rows.positions[index] == positions
            least[index[same]] = np.minimum(least[index[same]], confidence[same])
        return rows._replace(fitness=least)

    def _pack_news(self, rank: int) -> mpi.Arrays:
        nodes, new_confidences = sorted(self._new_states[rank]), self._new_confidences[rank]
        parts = [state[node] for node in nodes for state in (self.populations, self.previous)]
        positions = unique_sorted([np.empty(0, self.problem.position_type), *(part.positions for part in parts)])
        arrays = [
            self.table.reshape(-1),
            np.array(nodes, dtype=np.int64),
            np.array(sorted(new_confidences), dtype=np.int64).reshape(-1),
        ]
        for part in parts:
            arrays += list(part)
        for key in sorted(new_confidences):
            arrays += list(new_confidences[key])
        arrays += self.store.pack_for(rank, positions)
        self.sent += sum(array.nbytes for array in arrays)
        self._new_states[rank], self._new_confidences[rank] = set(), {}
        return arrays

    def _unpack(self, rank: int, arrays: mpi.Arrays) -> None:
        table, nodes, new_confidences = arrays[0].reshape(self.table.shape), arrays[1].tolist(), arrays[2].reshape(-1, 2).tolist()
        newer = table[:, CYCLES] > self.table[:, CYCLES]
        self.table[newer] = table[newer]
        rest = iter(arrays[3:])
        parts = [Population(next(rest), next(rest), next(rest)) for _ in range(2 * len(nodes))]
        for node, judge in new_confidences:
            self.confidences[node][judge] = (next(rest), next(rest))
        self.store.unpack_from(rank, list(rest))
        self.populations |= zip(nodes, parts[::2], strict=True)
        self.previous |= zip(nodes, parts[1::2], strict=True)

    def deliver(self) -> None:
        for rank, arrays in self.mailbox.collect():
            self._unpack(rank, arrays)

    def close(self) -> None:
        for rank, arrays in self.mailbox.close():
            self._unpack(rank, arrays)

    def snapshot(self, number: int) -> Snapshot:
        """Return the state of the local nodes; facts accumulate from one snapshot to the next."""
        low, high = float(self.table[:, LOW].min()), float(self.table[:, HIGH].max())  # over the grid, as far as known
        facts = CycleFacts(low, high, self.sent, time.monotonic() - self.began)
        self.sent, self.began = 0, time.monotonic()  # for the next snapshot
        return Snapshot(number, make_entries({node: self.populations[node] for node in self.slots}, low, high), facts)
