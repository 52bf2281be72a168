"""MPI's beginning and end without Python's lock, in which a waiting rank could not be ended."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import socket
import stat
import sys
from contextlib import suppress

import mpi4py

_THREAD_MULTIPLE = 3  # in MPICH, its relatives and Open MPI


def begin() -> None:
    """Start MPI for mpi4py, unless that has been done, or is to be done otherwise."""
    found = importlib.util.find_spec("mpi4py.MPI")
    unwanted = not mpi4py.rc.initialize or os.environ.get("MPI4PY_RC_INITIALIZE") == "0"  # which mpi4py itself reads later
    if "mpi4py.MPI" in sys.modules or unwanted or found is None or "mpiabi" in str(found.origin):
        return
    # A worker process of joblib (n_jobs=2) under mpirun inherits the variable of the launcher's socket, but not the socket: MPI
    # would end it. Without the variable it starts alone.
    number = os.environ.get("PMI_FD", "")
    try:
        if number.isdigit() and not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            del os.environ["PMI_FD"]
    except OSError:  # not open
        del os.environ["PMI_FD"]
    library, provided = ctypes.CDLL(found.origin, mode=ctypes.RTLD_GLOBAL), ctypes.c_int()
    library.MPI_Init_thread(None, None, _THREAD_MULTIPLE, ctypes.byref(provided))
    with suppress(ValueError):  # in another thread than the main one
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGHUP))  # UCX has taken it, to switch its messages on
    mpi4py.rc.finalize = True  # what mpi4py did not start it would leave to others


def end() -> None:
    """End MPI. Waits for the other ranks."""
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        ctypes.CDLL(MPI.__file__).MPI_Finalize()


def node_name() -> str:
    """The name of this node: Slurm's, else the machine's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
