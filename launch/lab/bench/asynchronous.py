"""PSBML's asynchronous mode beside the synchronous one, on a simulated clock: one process plays all ranks, the first of them slow.

usage: python launch/bench/asynchronous.py [SET …] [--bases kernel-nb gaussian-nb] [--seeds 10] [--rows 10000]

The clock counts rows: what training on one and scoring one takes at best here, times the rank's factor. Letters arrive at once.
Steps and assessments are those of `hpcml train psbml`, in its order. So a busy machine will do. HPCML_DATA names the folder with
the data: SET.svm.xz, and SET.t.svm.xz where a set has rows to test on; else three tenths are set aside.

A seed draws the rows of a set (at most so many to train on and as many to test on), spreads them and makes all other draws. Beside
each asynchronous run stand two synchronous ones, of the same rows; in the second all other draws are other ones, so it shows what
chance does. A line of JSON for each seed, then a table: differences from the first synchronous run in points, mean ± standard
deviation over the seeds; distinct rows left after the last cycle, as a share of its; the median share of its time for the whole,
and until a cycle is assessed that is no worse than its best one, where runs that never get there count as endless.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from hpcml import mpi
from hpcml.data.classes import Classes
from hpcml.methods.psbml import asynchronous
from hpcml.methods.psbml.asynchronous import Asynchronous
from hpcml.methods.psbml.estimator import ProblemInMemory, RowsInMemory
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.pocket import Pocket
from hpcml.methods.psbml.rows import distinct
from hpcml.methods.psbml.selection import VALIDATION
from hpcml.methods.psbml.snapshot import Assessor, Snapshot, all_rows, area_under_roc, assign
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.methods.psbml.torus import Placement, Torus, parse_grid
from hpcml.methods.psbml.train import lay_out
from hpcml.model import learner as learners

DATA = Path(os.environ.get("HPCML_DATA", "data"))


class Clock:
    """The simulated seconds of a rank, which is so many times slower than this process."""

    def __init__(self, factor: float) -> None:
        self.factor, self.now, self.until = factor, 0.0, 0.0

    def spend(self, seconds: float) -> None:
        """Let work of so many seconds begin; `until` is when it ends."""
        self.now, self.until = self.until, self.until + self.factor * seconds


class Post:
    """The letters of a rank to others, and theirs to it: they arrive at once, but nobody reads a letter of the future."""

    everyone: dict[int, Post] = {}  # noqa: RUF012 - of the run that is under way

    def __init__(self, comm: SimpleNamespace, ranks: dict) -> None:
        self.rank, self.clock = comm.rank, comm.clock
        self.arrived: list[tuple[float, int, mpi.Arrays]] = []
        Post.everyone[comm.rank] = self

    def post(self, rank: int, write: partial) -> None:
        """Send a letter at the end of a step."""
        Post.everyone[rank].arrived.append((self.clock.until, self.rank, write()))

    def collect(self) -> list[tuple[int, mpi.Arrays]]:
        """The letters that had arrived when the step began, oldest first."""
        letters = sorted(self.arrived, key=lambda letter: letter[0])
        self.arrived = [letter for letter in letters if letter[0] > self.clock.now]
        return [(rank, arrays) for sent, rank, arrays in letters if sent <= self.clock.now]


class Costs(NamedTuple):
    """Seconds of training on a row, and of scoring one."""

    train: float
    score: float

    @classmethod
    def measured(cls, problem: ProblemInMemory) -> Costs:
        """The least of five trials with the processor's time."""
        some = np.flatnonzero(problem.start >= 0)[:5000]
        matrix, found = problem.prepared(problem.read(some)), []
        for _ in range(6):  # the first one compiles
            begin = time.process_time()
            classifier = problem.train(matrix, some, "train", 0)
            between = time.process_time()
            learners.confidence(classifier, matrix)
            found.append((between - begin, time.process_time() - between))
        return cls(*(np.min(found[1:], axis=0) / some.size))


@dataclass
class Course:
    """What a run found, cycle by cycle, and when its user knew."""

    clocks: list[Clock]
    assessor: Assessor
    costs: Costs
    pocket: Pocket = field(default_factory=Pocket)
    errors: list[float] = field(default_factory=list)
    known: list[float] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)

    def meet(self) -> float:
        """All ranks wait for the slowest; the time."""
        now = max(clock.until for clock in self.clocks)
        for clock in self.clocks:
            clock.until = now
        return now

    def assess(self, cycles: list[tuple[int, np.ndarray]], speeds: list[float]) -> None:
        """Each rank judges its part; `speeds` are the ranks' seconds for an equal amount of work."""
        n_validation = np.count_nonzero(self.assessor.problem.start == VALIDATION)
        for (cycle, entries), rank in zip(cycles, assign(len(cycles), speeds), strict=True):
            judged = self.assessor._assess(cycle, entries, lambda: None)
            n_rows = distinct([entries["place"]]).size
            self.distinct.append(n_rows)
            self.clocks[rank].spend(self.costs.train * n_rows + self.costs.score * n_validation)
            self.errors.append(judged.error)
            judge = self.assessor.problem.options.judge
            if judged.rank(judge) < self.pocket.rank(judge):
                self.pocket = judged

    def gather(self) -> None:
        """All learn of what has been judged."""
        now = self.meet()
        self.known += [now] * (len(self.errors) - len(self.known))


def in_step(problem: ProblemInMemory, clocks: list[Clock], costs: Costs) -> Course:
    """The synchronous mode: a rank waits for its neighbours, and each assesses a cycle after as many as there are ranks."""
    course, grid, n_ranks = Course(clocks, Assessor(problem), costs), Synchronous(problem, problem.first_slots), len(clocks)
    waiting, owners = [(0, all_rows(problem.first_slots).entries)], Placement(problem.placement.torus, n_ranks, 0).owners
    for cycle in range(1, problem.options.cycles + 1):
        judged, waiting = (waiting, []) if len(waiting) >= n_ranks else ([], waiting)
        course.assess(judged, [1.0] * n_ranks)
        scored = distinct(grid.slots.values()).size  # on a small torus each node's neighbours are all nodes
        for rank, clock in enumerate(clocks):
            nodes = np.flatnonzero(owners == rank)
            clock.spend(sum(costs.train * grid.slots[node].size + costs.score * scored for node in nodes.tolist()))
        waiting.append((cycle, grid.step().entries))
        course.gather()
    rest(course, waiting, [1.0] * n_ranks)
    return course


def rest(course: Course, waiting: list[tuple[int, np.ndarray]], costs: list[float]) -> None:
    """Assess the cycles that wait."""
    some = 2 * len(course.clocks)
    for first in range(0, len(waiting), some):
        course.assess(waiting[first : first + some], costs)
        course.gather()


def at_will(problem: ProblemInMemory, clocks: list[Clock], costs: Costs) -> Course:
    """The asynchronous mode: nobody waits but for the assessments."""
    n_ranks, cycles = len(clocks), problem.options.cycles
    first: dict[int, dict[int, mpi.Arrays]] = {}
    grids: list[Asynchronous] = []

    def note(rank: int, comm: Any, parts: dict[int, mpi.Arrays]) -> dict:
        first[rank] = parts
        return {}

    Post.everyone = {}
    for rank, clock in enumerate(clocks):
        comm = SimpleNamespace(rank=rank, size=n_ranks, clock=clock)
        part = replace(problem, comm=comm, placement=Placement(problem.placement.torus, n_ranks, rank))
        fitness = {node: np.full(slots.size, np.inf) for node, slots in part.first_slots.items()}
        begun = partial(note, rank)
        stand_in = SimpleNamespace(agreed=lambda *_: nullcontext(), exchange_with=begun, Mailbox=Post)
        with mock.patch.object(asynchronous, "mpi", stand_in):
            grids.append(Asynchronous(part, part.first_slots, fitness, np.zeros(part.n_nodes)))
    for sender, parts in first.items():
        for rank, arrays in parts.items():
            grids[rank]._read(sender, arrays)
    course = Course(clocks, Assessor(problem), costs)
    taken: list[list[Snapshot]] = [[] for _ in grids]
    nodes, turns, steps, worked = [list(grid.slots) for grid in grids], [0] * n_ranks, [0] * n_ranks, [0.0] * n_ranks
    waiting, done = [(0, all_rows(problem.first_slots).entries)], 0

    def keep() -> None:
        nonlocal done, waiting
        course.meet()
        most = max(len(each) for each in taken)
        for grid, each in zip(grids, taken, strict=True):
            each += [grid.snapshot(number) for number in range(len(each) + 1, most + 1)]
        waiting += [(n + 1, np.concatenate([each[n].entries for each in taken])) for n in range(done, most)]
        rest(course, waiting, [w / s if s else 1e-3 for w, s in zip(worked, steps, strict=True)])
        waiting, done = [], most

    while True:
        busy: list[tuple[float, int]] = []
        for rank, grid in enumerate(grids):
            clocks[rank].now = clocks[rank].until
            grid.deliver()
            if nodes[rank] and grid.cycles_done < cycles:
                busy.append((clocks[rank].until, rank))
        if not busy:
            break
        _, rank = min(busy)
        grid, node = grids[rank], nodes[rank][turns[rank]]
        neighbours, cycle = problem.placement.torus.neighbours(node), grid.table[node, asynchronous.CYCLES] + 1
        ahead = [other for other in neighbours if grid.table[other, asynchronous.CYCLES] >= cycle]
        rows = [*(grid.around[other] for other in neighbours), *(grid.before[other] for other in ahead)]
        scored = distinct(part.places for part in rows).size
        before = clocks[rank].until
        clocks[rank].spend(costs.train * grid.slots[node].size + costs.score * scored)
        grid.step(node)
        turns[rank] = (turns[rank] + 1) % len(nodes[rank])
        steps[rank], worked[rank] = steps[rank] + 1, worked[rank] + clocks[rank].until - before
        while len(taken[rank]) < min(cycles, grid.cycles_done):
            taken[rank].append(grid.snapshot(len(taken[rank]) + 1))
        if len(waiting) + max(map(len, taken)) - done >= 2 * n_ranks:
            keep()
    keep()
    return course


def rows_of(name: str, n_rows: int, seed: int) -> tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]:
    """Rows to train on and to test on, as float32, and their classes 0 and 1."""
    random, (train, *test) = np.random.default_rng(seed), lines_of(name)
    order = random.permutation(len(train))
    n_test = 0 if test else round(0.3 * order.size)
    drawn = random.permutation(len(test[0]))[:n_rows] if test else order[:n_test][:n_rows]
    some = [train[i] for i in order[n_test:][:n_rows]]
    more = [(test[0] if test else train)[i] for i in drawn]
    X, y = load_svmlight_file(BytesIO(b"\n".join(some + more)), dtype=np.float32)
    y = (y > 0).astype(np.int32)
    return X[: len(some)], y[: len(some)], X[len(some) :], y[len(some) :]


@cache
def lines_of(name: str) -> list[list[bytes]]:
    """The rows of a set as lines, and those of its test file, if there is one."""
    paths = (DATA / f"{name}.svm.xz", DATA / f"{name}.t.svm.xz")
    return [lzma.decompress(path.read_bytes()).splitlines() for path in paths if path.exists()]


class Named(RowsInMemory):
    """Rows in memory that say where they are from."""

    path = "memory"


def problem_of(X: sp.csr_matrix, y: np.ndarray, options: PsbmlOptions) -> ProblemInMemory:
    """What is to be trained on."""
    comm, torus = mpi.self_comm(), Torus(*parse_grid(options.grid), options.neighbourhood)
    rows, classes, learner = Named(X), Classes(["1"], np.arange(y.size), y), learners.parse_learner(options.base)
    start, dense = lay_out(comm, rows, classes, torus, learner, options)
    return ProblemInMemory(comm, rows, "", classes, start, Placement(torus, 1, 0), learner, dense, options)


def area(course: Course, problem: ProblemInMemory, X: sp.csr_matrix, y: np.ndarray) -> float:
    """The area under the ROC curve of the chosen cycle on the rows to test on, in per cent."""
    scores = learners.scores(course.pocket.classifier, X.toarray() if problem.dense else X, 2)[:, 0]
    return 100 * area_under_roc(scores[y == 1], scores[y == 0])


def compare(name: str, base: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """What the three runs of a seed found."""
    X, y, X_test, y_test = rows_of(name, arguments.rows, seed)
    options = PsbmlOptions(base=(base,), seed=seed, cycles=arguments.cycles, judge=arguments.judge)
    problem = problem_of(X, y, options)
    other = replace(problem, options=replace(options, seed=seed + 2**31))
    costs, lowest = Costs.measured(problem), None
    line: dict[str, Any] = {"set": name, "base": base, "seed": seed, "rows": y.size}
    for who, make, given in (("synchronous", in_step, problem), ("another", in_step, other), ("asynchronous", at_will, problem)):
        course = make(given, [Clock(arguments.slow_factor), *(Clock(1.0) for _ in range(arguments.ranks - 1))], costs)
        lowest = min(course.errors) if lowest is None else lowest
        until = next((at for at, error in zip(course.known, course.errors, strict=True) if error <= lowest), np.inf)
        found = {"area": area(course, problem, X_test, y_test), "error": 100 * min(course.errors), "distinct": course.distinct[-1]}
        line[who] = found | {"cycle": course.pocket.cycle, "seconds": course.known[-1], "until": until}
    return line


def row(name: str, base: str, lines: list[dict[str, Any]], who: str) -> str:
    """A row of the table."""
    pairs = [(line["synchronous"], line[who]) for line in lines]

    def spread(what: str) -> str:
        values = [b[what] - a[what] for a, b in pairs]
        return f"{np.mean(values):+.2f} ± {np.std(values, ddof=1) if len(values) > 1 else np.nan:.2f}"

    def ratio(what: str) -> float:
        return float(np.median([b[what] / a[what] for a, b in pairs]))

    reached = f"{sum(np.isfinite(b['until']) for _, b in pairs)} of {len(pairs)}"
    times = f"{ratio('seconds'):.2f} | {ratio('until'):.2f} ({reached})"
    return f"| {name} | {base} | {who} | {spread('area')} | {spread('error')} | {ratio('distinct'):.2f} | {times} |"


def main() -> None:
    """Parse the command line, print lines and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["a9a", "w8a", "ijcnn1", "covtype"])
    parser.add_argument("--bases", nargs="+", default=["kernel-nb", "gaussian-nb"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=PsbmlOptions.cycles)
    parser.add_argument("--judge", default=PsbmlOptions.judge)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--slow-factor", type=float, default=2.0)
    arguments = parser.parse_args()
    table = ["| data | base | run | ROC area | lowest error | distinct rows | time | to the lowest error |", "|---" * 8 + "|"]
    for name in arguments.sets:
        for base in arguments.bases:
            lines = []
            for seed in range(arguments.seeds):
                lines.append(compare(name, base, seed, arguments))
                print(json.dumps(lines[-1]), flush=True)
            table += [row(name, base, lines, who) for who in ("another", "asynchronous")]
    print("\n" + "\n".join(table))


if __name__ == "__main__":
    main()
