"""The asynchronous mode: no node waits for another, each uses the latest state that its neighbours have sent.

A letter to a rank holds what is new of the nodes here that it has to know (their rows, fitness and cycles), the confidences that
its own rows met with here, and a table of all nodes: how many cycles each has done and the range of its fitness, as far as known.
The tables spread from neighbour to neighbour; by them rows are normalised over the grid and every rank sees when the grid has done
its cycles: those of the fastest rank. A node on a slow rank does fewer, and replaces more rows in each: 1 − (1 − p)^d of them, if p
is the probability in a cycle and the fastest node has done d cycles since the node's last one. So all rows evolve alike.

In step, all nodes draw from the rows that stood there before any was replaced. Here a node keeps these until its next cycle, and
neighbours that come to the same cycle after it draw from them; else rows that only it had would be gone too soon.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from hpcml import mpi
from hpcml.kernels import elementary
from hpcml.methods.psbml import selection
from hpcml.methods.psbml.problem import RowStore, TorusProblem, distinct
from hpcml.methods.psbml.selection import Population
from hpcml.methods.psbml.snapshot import CycleFacts, Snapshot, entries_of
from hpcml.model import learner as learners

CYCLES, LOW, HIGH = range(3)  # columns of the table


class Asynchronous:
    """The nodes of this rank, and what it knows of the others."""

    def __init__(
        self, problem: TorusProblem, slots: dict[int, np.ndarray], fitness: dict[int, np.ndarray], cycles: np.ndarray
    ) -> None:
        """Collective. `cycles` (n_nodes) are done; the neighbours' first states arrive here."""
        self.problem, self.slots, self.fitness = problem, slots, fitness
        self.table = np.zeros((problem.torus.n_nodes, 3))
        self.table[:] = (0, np.inf, -np.inf)
        self.table[:, CYCLES] = cycles
        self._paced = dict.fromkeys(slots, self._newest)  # the cycles of the fastest node for which each node has replaced rows
        self.sent, self.began = 0, time.monotonic()
        with mpi.agreed(problem.comm, f"reading {problem.dataset.path}"):
            self.store = RowStore(problem, slots)
        self.around = {node: selection.population(slots[node], fitness[node]) for node in slots}
        self.before = dict(self.around)  # what stood there before the last replacement
        # confidences[node][judge]: ascending places and how the judge saw them last
        self.confidences: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {node: {} for node in slots}
        self._new_states = {rank: set(nodes) for rank, nodes in problem.torus.given.items()}
        self._new_confidences: dict[int, dict[tuple[int, int], tuple]] = {rank: {} for rank in self._new_states}
        first = mpi.exchange_with(problem.comm, {rank: self._letter(rank) for rank in self._new_states})
        self.mailbox = mpi.Mailbox(problem.comm, self._new_states)
        for rank, arrays in first.items():
            self._read(rank, arrays)

    @property
    def cycles_done(self) -> int:
        """The cycles of the grid: all nodes of the fastest rank have done them, as far as known."""
        _, first = np.unique(self.problem.torus.owners, return_index=True)
        return int(np.minimum.reduceat(self.table[:, CYCLES], first).max())

    @property
    def _newest(self) -> float:
        """The cycles of the node that has done most, as far as known."""
        return float(self.table[:, CYCLES].max())

    def step(self, node: int) -> None:
        """One cycle of one node. Local."""
        problem, options = self.problem, self.problem.options
        self.deliver()
        cycle = int(self.table[node, CYCLES]) + 1
        slots, neighbours = self.slots[node], problem.torus.neighbours(node)
        with problem.computing("train"):
            purpose_number = cycle * problem.torus.n_nodes + node
            classifier = problem.train(self.store.take(slots), slots, "train", purpose_number)
        with problem.computing("test"):
            ahead = {other for other in neighbours if self.table[other, CYCLES] >= cycle}
            judged = [*(self.around[other] for other in neighbours), *(self.before[other] for other in ahead)]
            pool = distinct(part.places for part in judged)
            confidence = learners.confidence(classifier, problem.prepared(self.store.take(pool)))
        for other in neighbours:  # learn how the judge sees their rows: here, or from the next letter
            places = self.around[other].places
            seen = (places, confidence[np.searchsorted(pool, places)])
            if other in self.slots:
                self.confidences[other][node] = seen
            else:
                self._new_confidences[int(problem.torus.owners[other])][other, node] = seen
        own = self._with_fitness(node)
        self.around[node] = own
        self.table[node] = (cycle, *selection.finite_range(own.fitness))
        low, high = float(self.table[:, LOW].min()), float(self.table[:, HIGH].max())  # over the grid, as far as known
        parts = []
        for other in neighbours:
            if other == node:
                parts.append(own)
                continue
            rows = self.before[other] if other in ahead else self._with_fitness(other)
            # The judge here counts even if the neighbour does not know it yet.
            parts.append(rows._replace(fitness=np.minimum(rows.fitness, confidence[np.searchsorted(pool, rows.places)])))
        passed, self._paced[node] = self._newest - self._paced[node], self._newest
        probability = 1 - elementary.power(1.0 - options.replace, float(passed))
        known = (own.fitness[np.searchsorted(own.places, slots)], parts, probability, low, high)
        self.slots[node], self.fitness[node] = selection.replace(options.seed, cycle, node, slots, *known)
        self.before[node], self.around[node] = own, selection.population(self.slots[node], self.fitness[node])
        for rank, nodes in problem.torus.given.items():
            if node in nodes:
                self._new_states[rank].add(node)
            self.mailbox.post(rank, partial(self._letter, rank))
        self.deliver()

    def _with_fitness(self, node: int) -> Population:
        """The population of a node; here with the least of the latest confidences as fitness."""
        rows = self.around[node]
        if node not in self.slots:
            return rows
        least = np.full(rows.places.size, np.inf)
        for places, confidence in self.confidences[node].values():
            if np.array_equal(rows.places, places):  # most have judged the rows that stand there now
                np.minimum(least, confidence, out=least)
                continue
            mine = np.minimum(np.searchsorted(rows.places, places), rows.places.size - 1)
            same = rows.places[mine] == places
            least[mine[same]] = np.minimum(least[mine[same]], confidence[same])
        return rows._replace(fitness=least)

    def _letter(self, rank: int) -> mpi.Arrays:
        """The news for a rank since the letter before."""
        nodes, told = sorted(self._new_states[rank]), self._new_confidences[rank]
        parts = [state[node] for node in nodes for state in (self.around, self.before)]
        places = distinct([np.empty(0, self.problem.place_type), *(part.places for part in parts)])
        arrays = [self.table.reshape(-1), np.array(nodes, dtype=np.int64), np.array(sorted(told), dtype=np.int64).reshape(-1)]
        for part in parts:
            arrays += list(part)
        for key in sorted(told):
            arrays += list(told[key])
        arrays += self.store.letter(rank, places)
        self.sent += sum(array.nbytes for array in arrays)
        self._new_states[rank], self._new_confidences[rank] = set(), {}
        return arrays

    def _read(self, rank: int, arrays: mpi.Arrays) -> None:
        table, nodes, told = arrays[0].reshape(self.table.shape), arrays[1].tolist(), arrays[2].reshape(-1, 2).tolist()
        newer = table[:, CYCLES] > self.table[:, CYCLES]
        self.table[newer] = table[newer]
        rest = iter(arrays[3:])
        parts = [Population(next(rest), next(rest), next(rest)) for _ in range(2 * len(nodes))]
        for node, judge in told:
            self.confidences[node][judge] = (next(rest), next(rest))
        self.store.open_letter(rank, list(rest))
        self.around |= zip(nodes, parts[::2], strict=True)
        self.before |= zip(nodes, parts[1::2], strict=True)

    def deliver(self) -> None:
        """Take in all letters that have arrived. Local."""
        for rank, arrays in self.mailbox.collect():
            self._read(rank, arrays)

    def close(self) -> None:
        """Collective. End the correspondence; see `Mailbox.close`."""
        for rank, arrays in self.mailbox.close():
            self._read(rank, arrays)

    def snapshot(self, number: int) -> Snapshot:
        """The state of the nodes here; facts gather from one snapshot to the next. Local."""
        low, high = float(self.table[:, LOW].min()), float(self.table[:, HIGH].max())  # over the grid, as far as known
        facts = CycleFacts(low, high, self.sent, time.monotonic() - self.began)
        self.sent, self.began = 0, time.monotonic()  # of the next one
        return Snapshot(number, entries_of({node: self.around[node] for node in self.slots}, low, high), facts)
