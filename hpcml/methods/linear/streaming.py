"""Where memory is short: how many values of the rows are read at a time, and how many stay."""

from __future__ import annotations

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.linear.layout import VALUE_BYTES, chunk_values, fewer_lanes, kept_values
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.mpi.memory import return_freed_memory


def plan_streaming(
    comm: mpi.Comm, problem: LabelProblem, options: LinearOptions, n_lanes: int, before: int, log: Log
) -> tuple[int, int, tuple[int, int]]:
    """Collective over `comm`. How many labels share a pass, and how rows are read from the disk.

    Fewer labels than `n_lanes` if that is better than small chunks (`fewer_lanes`), unless the user
    said how many. Then values in a chunk by which the model differs, or 0. Where a run is continued,
    chunks are no larger than they were `before`; 0: it had none. Then values in a streamed row slice
    and how many stay in memory; (0, 0) if memory holds all rows. The model does not depend on these.
    """
    rows, method = problem.rows, problem.method
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):  # a node with one rank may have rows of its own
        return n_lanes, 0, (0, 0)
    return_freed_memory()
    mb = VALUE_BYTES / 1e6

    def needed(n: int) -> int:  # bytes of a rank beside the rows, if n labels share a pass
        return method.memory(0, rows.n_global, rows.n_columns, n, 1, PRECISIONS[options.precision].itemsize)

    def chunk_for(n: int, largest: int) -> int:
        return chunk_values(comm, rows, needed(n), largest)

    most = int(mpi.allreduce_max(comm, n_lanes))  # ranks with few labels left ask for fewer
    chunk = chunk_for(most, method.chunk)
    if before:
        chunk = min(chunk or before, before)
    elif chunk and not options.labels_per_pass:
        most, chunk = fewer_lanes(most, lambda n: chunk_for(n, rows.data.size), lambda n: chunk_for(n, method.chunk))
        n_lanes = min(most, n_lanes)
    if chunk:
        log(
            f"warning: memory is short, so the rows ({mb * rows.data.size:,.0f} MB) are read from the disk in every pass, "
            f"{chunk:,} values at a time; the model differs, within the tolerance, from one made with more memory: give the job "
            "more, or fewer ranks on a node"
        )
    most = int(mpi.allreduce_max(comm, n_lanes))
    kept = kept_values(comm, rows, needed(most), chunk or method.chunk)
    if kept is None:
        return n_lanes, chunk, (chunk, 0)
    if not chunk:
        log(
            f"a rank has room for {mb * (method.chunk + kept):,.0f} MB of the rows ({mb * rows.data.size:,.0f} MB): others are "
            "read from the disk where they are needed; the model is the same"
        )
    return n_lanes, chunk, (chunk or method.chunk, kept)
