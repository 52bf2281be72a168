"""The MPI layer: the only code that imports mpi4py. Communicators are passed as arguments; none is global.

If mpi4py finds no MPI library, a communicator of one process (`single`) replaces mpi4py's.

    def load(comm, path):
        with mpi.agreed(comm, f"reading {path}"):  # if one rank fails, all raise its error
            rows = read(path, comm.rank, comm.size)
        total = mpi.exact_sum(comm, losses, bound, n_global)  # the same bits on any number of ranks

Begin with `collectives`, then `exact`. `start` begins and ends the program on all ranks, `messages` exchanges arrays between a few
of them, `memory` computes how much memory a rank may use.
"""

# ruff: noqa: F401  # names for other packages
from hpcml.mpi import binding  # first: connect ranks before NumPy is loaded, which takes longer on some ranks
from hpcml.mpi.collectives import (
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
    exclusive_sum,
    groups_agreed,
    run_on_root,
    stream_to_root,
)
from hpcml.mpi.exact import SHIFT_OF_LEVEL, exact_sum, grid, grid_levels, lies_on_grid
from hpcml.mpi.messages import Arrays, Mailbox, exchange, exchange_with
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
