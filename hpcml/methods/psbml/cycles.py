"""All cycles in step at a stretch, without a run folder."""

from __future__ import annotations

from collections.abc import Iterator

from hpcml import mpi
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.snapshot import Assessor, all_rows
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.slices import Look, never_stop


@mpi.collective
def cycles_of(problem: TorusProblem, look: Look = never_stop) -> Iterator[Assessor]:
    """Collective. Do the cycles; yields the assessor each time it has judged some, 0 first.

    What `look` raises between two nodes or assessments, on any rank, all ranks raise.
    """
    comm, cycles = problem.comm, problem.options.cycles
    with mpi.agreed(comm, "reading the rows"):
        grid, assessor = Synchronous(problem, problem.first_slots), Assessor(problem)
    waiting = [all_rows(problem.first_slots)]
    while (waiting or grid.cycle < cycles) and not assessor.at_plateau:
        n_steps = min(comm.size - len(waiting), cycles - grid.cycle)
        taken, waiting = waiting + [grid.step(look=look) for _ in range(n_steps)], []  # one for each rank to assess
        assessor.hand_out(taken, [1.0] * comm.size)
        with mpi.agreed(comm, "assessing the grid"):
            assessor.work(look)
        assessor.gather()
        yield assessor
