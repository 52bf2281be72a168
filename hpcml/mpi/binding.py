"""The module `MPI`: mpi4py's, with MPI started, or `single` if mpi4py finds no MPI library."""

import warnings
from typing import TYPE_CHECKING

from hpcml.mpi import runtime

if TYPE_CHECKING:
    from mpi4py import MPI as MPI

    missing: str
else:
    with warnings.catch_warnings():  # hpcml.mpi.start reports it with a remedy
        warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
        MPI, missing = runtime.load()  # `missing`: why there is no library, or ""

runtime.unname_shared_memory()  # also if other code has started MPI
