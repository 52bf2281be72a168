"""Start and end of MPI without Python's lock, while holding which a waiting rank could not be stopped.

MPICH ends the process if it cannot start. So obstacles are checked first: variables of another launcher, and too little shared
memory. Any other failure of `MPI_Init` also ends with exit code 2.
"""

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

_THREAD_MULTIPLE = 3  # in MPICH, its derivatives and Open MPI
SHARED_MEMORY = Path("/dev/shm")
CELLS = "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS"
# Bytes of shared memory that MPICH 5.0 uses per rank, and per cell of its message queue. Messages are as fast with 4 cells as
# with 64 (8 bytes to 16 MiB, on 2 ranks).
_RANK_BYTES, _CELL_BYTES, _FEW_CELLS, _MOST_CELLS = 12_500, 16_400, 4, 64
_ENLARGE = "enlarge it (docker run --shm-size=1g; Kubernetes: an emptyDir with medium: Memory on /dev/shm)"
_ABSENT = re.compile(r"libmpi\.so[.\d]*: cannot open shared object file: No such file")
_RELAY_SECONDS = 0.3  # for a launcher to forward a line, or to end the other ranks


def load() -> tuple[ModuleType, str]:
    """Return mpi4py's module with MPI started, or `single` and the reason why there is no library. Raises ConfigError."""
    if "mpi4py.MPI" not in sys.modules:
        try:
            if (spec := importlib.util.find_spec("mpi4py.MPI")) is None:
                raise OSError("mpi4py has no build for the MPI library")
            library = ctypes.CDLL(spec.origin, mode=ctypes.RTLD_GLOBAL)
        except (RuntimeError, OSError) as error:
            if is_out_of_memory(error):
                raise
            lines = str(error).splitlines()
            # Prefer the error of a library that exists.
            reason = ([line for line in lines if not _ABSENT.search(line)] or lines)[-1]
            if path := os.environ.get("MPI4PY_LIBMPI"):
                raise ConfigError(f"MPI4PY_LIBMPI={path}: not an MPI library for mpi4py ({reason}); correct or unset it") from None
            return importlib.import_module("hpcml.mpi.single"), reason
        # mpi4py reads the variable only later.
        is_disabled = not mpi4py.rc.initialize or os.environ.get("MPI4PY_RC_INITIALIZE") == "0"
        if not is_disabled and "mpiabi" not in str(spec.origin):
            _start_mpi(library)
    from mpi4py import MPI

    return MPI, ""


def _start_mpi(library: ctypes.CDLL) -> None:
    name, provided = ctypes.create_string_buffer(8192), ctypes.c_int()
    library.MPI_Get_library_version(name, ctypes.byref(provided))
    is_mpich, is_connected = name.value.startswith(b"MPICH"), has_connection()
    if not is_connected:  # a joblib worker, or a later command of a script, inherits the variable, but no socket
        os.environ.pop("PMI_FD", None)
    if is_mpich and not launching_ancestor():
        os.environ.pop("PMI_PORT", None)
    if is_mpich:
        try:
            fit_shared_memory(number_in("MPI_LOCALNRANKS") or launcher()[1])
        except ConfigError as error:
            if loading.in_program and is_connected:  # otherwise ranks on other nodes would wait for this one
                _end_job(str(error))
            raise
    # MPICH without PMIx does not start with these variables, for example of srun --mpi=pmix. `mpi.start` reads them later.
    has_pmix = not is_mpich or hasattr(library, "PMIx_Init")
    hidden = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith("PMIX_") and not has_pmix}
    _call_init(library, provided)
    os.environ.update(hidden)
    if is_connected:  # commands that this process starts are not ranks
        os.set_inheritable(int(os.environ["PMI_FD"]), False)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGHUP))  # restore it: UCX uses SIGHUP to switch on its messages
    mpi4py.rc.finalize = True  # by default mpi4py does not finalize an MPI that it did not start


def fit_shared_memory(n_ranks: int) -> None:
    """Reduce MPICH's use of shared memory by its total size, as all ranks of a node must alike. Raises ConfigError."""
    with suppress(OSError):  # a killed process with this number may have left it, and MPICH would use its content
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
    """Unlink MPICH's shared memory, which all ranks of the node have mapped by now; otherwise it would stay in /dev/shm."""
    with suppress(OSError):  # no /proc
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        for name in set(re.findall(rf"{SHARED_MEMORY}/mpich_shm_\S+", maps)):
            Path(name).unlink(missing_ok=True)  # another rank may have unlinked it


def _call_init(library: ctypes.CDLL, provided: ctypes.c_int) -> None:
    """Call MPI_Init_thread. If it ends the process or shared memory is full, end the job with a message."""
    is_running = False

    def on_exit(_: object) -> None:
        if not is_running:
            _end_job("MPI could not start (see above); if the message names PMI, unset the variables of an outer mpirun or srun")

    def on_bus_error(_: int) -> None:
        unname_shared_memory()
        _end_job(f"{SHARED_MEMORY} is full, so MPI could not start; remove unused files, or {_ENLARGE}")

    system = ctypes.CDLL(None)
    callbacks = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(on_exit), ctypes.CFUNCTYPE(None, ctypes.c_int)(on_bus_error)
    system.signal.restype = ctypes.c_void_p
    earlier = system.signal(signal.SIGBUS, callbacks[1])
    owner = ctypes.cast(callbacks[0], ctypes.c_void_p)
    if is_glibc := hasattr(system, "gnu_get_libc_version"):  # other C libraries cannot unregister an exit function
        system.__cxa_atexit(callbacks[0], None, owner)
    library.MPI_Init_thread(None, None, _THREAD_MULTIPLE, ctypes.byref(provided))
    is_running = True
    if is_glibc:
        system.__cxa_finalize(owner)
    system.signal(signal.SIGBUS, ctypes.c_void_p(earlier))


def _end_job(sentence: str) -> NoReturn:
    time.sleep(3 * _RELAY_SECONDS * min(number_in("MPI_LOCALRANKID"), 10))
    os.write(2, f"hpcml: {sentence}\n".encode())
    if has_connection():
        time.sleep(_RELAY_SECONDS)  # the launcher stops reading output once a rank has aborted
        os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={EXIT_USER}\n".encode())  # the message that MPI_Abort would send
        time.sleep(_RELAY_SECONDS)
    os._exit(EXIT_USER)


def end() -> None:
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        ctypes.CDLL(MPI.__file__).MPI_Finalize()


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
