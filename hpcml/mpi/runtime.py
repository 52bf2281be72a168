"""MPI's beginning and end without Python's lock, in which a waiting rank could not be ended.

MPICH ends the process if it cannot start. So what keeps it from starting is looked for before: variables of another
launcher, and too little shared memory. Whatever else goes wrong in `MPI_Init` ends with exit code 2, too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import mpi4py

from hpcml import loading
from hpcml.errors import EXIT_USER, ConfigError, is_out_of_memory
from hpcml.launcher import has_connection, launcher, launching_ancestor, number_in
from hpcml.mpi import single

_THREAD_MULTIPLE = 3  # in MPICH, its relatives and Open MPI
SHARED_MEMORY = Path("/dev/shm")
CELLS = "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS"
# Bytes of shared memory that MPICH 5.0 takes: of each rank, and of each cell of its queue of messages. Messages take no longer
# with 4 cells than with 64 (8 bytes to 16 MiB, on 2 ranks).
_RANK_BYTES, _CELL_BYTES, _FEW_CELLS, _MOST_CELLS = 12_500, 16_400, 4, 64
_ENLARGE = "enlarge it (docker run --shm-size=1g; Kubernetes: an emptyDir with medium: Memory on /dev/shm)"
_ABSENT = re.compile(r"libmpi\.so[.\d]*: cannot open shared object file: No such file")
_RELAY_SECONDS = 0.3  # for a launcher to pass a line on, or to end the other ranks


def load() -> tuple[ModuleType, str]:
    """Return mpi4py's module with MPI started, or `single` and the reason why no MPI library could be loaded.

    Raises ConfigError if MPI cannot start, or cannot be loaded from where MPI4PY_LIBMPI says.
    """
    if "mpi4py.MPI" not in sys.modules:
        try:
            if (found := importlib.util.find_spec("mpi4py.MPI")) is None:
                raise OSError("mpi4py has no build for the MPI library")
            library = ctypes.CDLL(found.origin, mode=ctypes.RTLD_GLOBAL)
        except (RuntimeError, OSError) as error:
            if is_out_of_memory(error):
                raise
            lines = str(error).splitlines()
            why = ([line for line in lines if not _ABSENT.search(line)] or lines)[-1]  # a library that is there comes first
            if path := os.environ.get("MPI4PY_LIBMPI"):
                raise ConfigError(f"MPI4PY_LIBMPI={path}: not an MPI library for mpi4py ({why}); correct or unset it") from None
            return single, why
        unwanted = not mpi4py.rc.initialize or os.environ.get("MPI4PY_RC_INITIALIZE") == "0"  # which mpi4py itself reads later
        if not unwanted and "mpiabi" not in str(found.origin):
            _begin(library)
    from mpi4py import MPI

    return MPI, ""


def _begin(library: ctypes.CDLL) -> None:
    """Start MPI for mpi4py. Raises ConfigError if it cannot start."""
    name, provided = ctypes.create_string_buffer(8192), ctypes.c_int()
    library.MPI_Get_library_version(name, ctypes.byref(provided))
    is_mpich, is_connected = name.value.startswith(b"MPICH"), has_connection()
    if not is_connected:  # a worker of joblib, or a script's second command: it has the variable, but no socket
        os.environ.pop("PMI_FD", None)
    if is_mpich and not launching_ancestor():
        os.environ.pop("PMI_PORT", None)
    if is_mpich:
        try:
            fit_shared_memory(number_in("MPI_LOCALNRANKS") or launcher()[1])
        except ConfigError as error:
            if loading.in_program and is_connected:  # ranks on other nodes would wait for this one
                _end_job(str(error))
            raise
    # MPICH without PMIx does not start if it sees these, of srun --mpi=pmix, say. `mpi.start` reads them afterwards.
    has_pmix = not is_mpich or hasattr(library, "PMIx_Init")
    hidden = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith("PMIX_") and not has_pmix}
    _initialize(library, provided)
    os.environ.update(hidden)
    if is_connected:  # a command that this process starts is no rank
        os.set_inheritable(int(os.environ["PMI_FD"]), False)
    with suppress(ValueError):  # in another thread than the main one
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGHUP))  # UCX has taken it, to switch its messages on
    mpi4py.rc.finalize = True  # what mpi4py did not start it would leave to others


def fit_shared_memory(n_ranks: int) -> None:
    """Let MPICH take less shared memory where there is little. Raises ConfigError where there is none.

    The ranks of a node must choose alike, and what is free changes while they start: they go by the size.
    """
    with suppress(OSError):  # a killed process with this number may have left it, and MPICH would trust its content
        (SHARED_MEMORY / f"mpich_shm_{os.getpid():x}_0").unlink()
    try:
        system, is_writable = os.statvfs(SHARED_MEMORY), os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        why = f"{SHARED_MEMORY} does not exist or cannot be written, but MPICH needs it"
        raise ConfigError(f"{why}; mount it writable (docker run --tmpfs {SHARED_MEMORY})")
    room = (system.f_bavail if n_ranks == 1 else system.f_blocks) * system.f_frsize
    if system.f_blocks == 0:  # no limit
        return
    if room < (needed := n_ranks * (_RANK_BYTES + _CELL_BYTES)):
        raise ConfigError(f"{SHARED_MEMORY} has only {room // 1000} kB, but MPICH needs {needed // 1000 + 1} kB; {_ENLARGE}")
    small, large = ((room // share // n_ranks - _RANK_BYTES) // _CELL_BYTES for share in (2, 64))
    cells = max(1, min(small, _FEW_CELLS), large)
    if cells < _MOST_CELLS:
        os.environ.setdefault(CELLS, str(cells))


def unname_shared_memory() -> None:
    """Unlink MPICH's memory, which all ranks of the node have mapped when MPI has started: it would stay in /dev/shm."""
    with suppress(OSError):  # elsewhere it is not known
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        for name in set(re.findall(rf"{SHARED_MEMORY}/mpich_shm_\S+", maps)):
            Path(name).unlink(missing_ok=True)  # another rank may be quicker


def _initialize(library: ctypes.CDLL, provided: ctypes.c_int) -> None:
    """Call MPI_Init_thread. If it ends the process, or uses shared memory that is full, end the job with a sentence."""
    is_running = False

    def on_exit(_: object) -> None:
        if not is_running:
            _end_job("MPI could not start, for the reason above; if it names PMI, unset the variables of an outer mpirun or srun")

    def on_bus_error(_: int) -> None:
        unname_shared_memory()
        _end_job(f"{SHARED_MEMORY} is full, so MPI could not start; remove files that nobody uses, or {_ENLARGE}")

    system = ctypes.CDLL(None)
    callbacks = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(on_exit), ctypes.CFUNCTYPE(None, ctypes.c_int)(on_bus_error)
    system.signal.restype = ctypes.c_void_p
    earlier = system.signal(signal.SIGBUS, callbacks[1])
    owner = ctypes.cast(callbacks[0], ctypes.c_void_p)
    if is_glibc := hasattr(system, "gnu_get_libc_version"):  # others cannot take a function back that is called at exit
        system.__cxa_atexit(callbacks[0], None, owner)
    library.MPI_Init_thread(None, None, _THREAD_MULTIPLE, ctypes.byref(provided))
    is_running = True
    if is_glibc:
        system.__cxa_finalize(owner)
    system.signal(signal.SIGBUS, ctypes.c_void_p(earlier))


def _end_job(sentence: str) -> NoReturn:
    """Print why MPI cannot start, once a node, and end all ranks with exit code 2."""
    time.sleep(3 * _RELAY_SECONDS * min(number_in("MPI_LOCALRANKID"), 10))
    os.write(2, f"hpcml: {sentence}\n".encode())
    if has_connection():
        time.sleep(_RELAY_SECONDS)  # the launcher does not read what is printed once a rank has aborted
        os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={EXIT_USER}\n".encode())  # what MPI_Abort would send
        time.sleep(_RELAY_SECONDS)
    os._exit(EXIT_USER)


def end() -> None:
    """End MPI. Waits for the other ranks."""
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        ctypes.CDLL(MPI.__file__).MPI_Finalize()


def node_name() -> str:
    """The name of this node: Slurm's, else the machine's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
