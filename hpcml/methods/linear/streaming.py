"""Where memory is short: how many values of the rows are read at a time, and how many stay."""

from __future__ import annotations

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.linear.layout import VALUE_BYTES, chunk_values, fewer_lanes, kept_values
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.mpi.memory import return_freed_memory


def plan_chunks(
    comm: mpi.Comm, problem: LabelProblem, options: LinearOptions, n_lanes: int, before: int, log: Log
) -> tuple[int, int]:
    """Collective over `comm`. How many labels share a pass, and values in a streamed slice, or 0.

    Fewer labels than `n_lanes` if that is better than small chunks (`fewer_lanes`), unless the user
    said how many. Where a run is continued, chunks are no larger than they were `before`; 0: it had
    none.
    """
    rows, method = problem.rows, problem.method
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):  # a node with one rank may have rows of its own
        return n_lanes, 0
    return_freed_memory()

    def chunk_for(n: int, largest: int) -> int:
        return chunk_values(comm, rows, needed_beside_rows(problem, options, n), largest)

    most = int(mpi.allreduce_max(comm, n_lanes))  # ranks with few labels left ask for fewer
    chunk = chunk_for(most, method.chunk)
    if before:
        chunk = min(chunk or before, before)
    elif chunk and not options.labels_per_pass:
        found = fewer_lanes(most, lambda n: chunk_for(n, rows.data.size), lambda n: chunk_for(n, method.chunk))
        n_lanes, chunk = min(found[0], n_lanes), found[1]
    if chunk:
        log(
            f"warning: memory is short, so the rows ({rows.data.size * VALUE_BYTES / 1e6:,.0f} MB) are read from the disk in every "
            f"pass, {chunk:,} values at a time; the model differs, within the tolerance, from one made with more memory: give the "
            "job more, or fewer ranks on a node"
        )
    return n_lanes, chunk


def plan_streaming(
    comm: mpi.Comm, problem: LabelProblem, options: LinearOptions, n_lanes: int, asked: int, log: Log
) -> tuple[int, int]:
    """Collective over `comm`. Values in a streamed row slice, and how many stay in memory.

    (0, 0) if memory holds all rows. `asked` is what `plan_chunks` found; the model does not depend
    on the rest.
    """
    rows, method = problem.rows, problem.method
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):
        return 0, 0
    chunk = asked or method.chunk
    most = int(mpi.allreduce_max(comm, n_lanes))
    kept = kept_values(comm, rows, needed_beside_rows(problem, options, most), chunk)
    if kept is None:
        return asked, 0
    if not asked:
        mb = VALUE_BYTES / 1e6
        log(
            f"a rank has room for {mb * (chunk + kept):,.0f} MB of the rows ({mb * rows.data.size:,.0f} MB): others are read "
            "from the disk where they are needed; the model is the same"
        )
    return chunk, kept


def needed_beside_rows(problem: LabelProblem, options: LinearOptions, n_lanes: int) -> int:
    """Bytes that a rank needs beside the rows if so many labels share a pass. Local."""
    size = PRECISIONS[options.precision].itemsize
    return problem.method.memory(0, problem.rows.n_global, problem.rows.n_columns, n_lanes, 1, size)
