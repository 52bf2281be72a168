"""The MPI layer: the only code that imports mpi4py. Communicators are passed in; nothing else here is global."""

import warnings

with warnings.catch_warnings():  # hpcml.mpi.start says the same with its consequence and the remedy
    warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
    from mpi4py import MPI as _MPI  # noqa: F401

from hpcml.mpi.collectives import (
    agreed,
    agreed_any,
    allgather_arrays,
    allreduce_max,
    allreduce_maxima,
    allreduce_sum,
    bcast_array,
    collective,
    exchange,
    exclusive_sum,
    stream_to_root,
)
from hpcml.mpi.exact import SHIFT_OF_LEVEL, exact_sum, grid, grid_levels, lies_on_grid, shared_shift
from hpcml.mpi.start import Comm, duplicated, node_first, self_comm, start

__all__ = [
    "SHIFT_OF_LEVEL",
    "Comm",
    "agreed",
    "agreed_any",
    "allgather_arrays",
    "allreduce_max",
    "allreduce_maxima",
    "allreduce_sum",
    "bcast_array",
    "collective",
    "duplicated",
    "exact_sum",
    "exchange",
    "exclusive_sum",
    "grid",
    "grid_levels",
    "lies_on_grid",
    "node_first",
    "self_comm",
    "shared_shift",
    "start",
    "stream_to_root",
]
