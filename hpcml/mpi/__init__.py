"""The MPI layer: the only code that imports mpi4py. Communicators are passed as arguments; none is global.

If mpi4py finds no MPI library, a communicator of one process (`single`) replaces mpi4py's.

    def load(comm, path):
        with mpi.agreed(comm, f"reading {path}"):  # if one rank fails, all raise its error
            rows = read(path, comm.rank, comm.size)
        total = mpi.exact_sum(comm, losses, bound, n_global)  # the same bits on any number of ranks

Begin with `collectives`. `start` begins and ends the program on all ranks, `messages` exchanges arrays between a few
of them, `memory` computes how much memory a rank may use.
"""

# ruff: noqa: F401  # names for other packages
from hpcml.mpi import binding  # first: connect ranks before NumPy is loaded, which takes longer on some ranks
from hpcml.mpi.collectives import (
    SHIFT_OF_LEVEL,
    RepeatedSum,
    agreed,
    agreed_any,
    allgather_arrays,
    allreduce_max,
    allreduce_maxima,
    allreduce_sum,
    bcast_array,
    begin_allgather,
    begin_reduce_scatter,
    exact_sum,
    exclusive_sum,
    grid,
    grid_levels,
    groups_agreed,
    lies_on_grid,
    run_on_root,
    stream_to_root,
)
from hpcml.mpi.messages import Arrays, Mailbox, Routing, exchange, exchange_with
from hpcml.mpi.start import (
    Comm,
    abi,
    divided,
    duplicated,
    finish,
    leave,
    library,
    meet,
    node_first,
    on_node,
    ranks_on_node,
    self_comm,
    start,
    time_limit,
)
