"""Start and end of the program on all ranks: world communicator, launcher check, abort hook."""

import ctypes
import fcntl
import math
import mmap
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import mpi4py

from hpcml.errors import EXIT_USER, ConfigError, HpcmlError, is_out_of_memory, out_of_memory
from hpcml.launcher import has_connection, promised_ranks, sign_of_other_ranks
from hpcml.mpi import runtime
from hpcml.mpi.binding import MPI, missing

Comm = MPI.Comm

RELAY_SECONDS = 0.2  # for the launcher to forward output before an abort, which kills at once
LEAVE_SECONDS = 5.0  # time between ranks that end with the same error
MEET_SECONDS = 120.0  # time between ranks that finish their work: rank 0 may still print
FINISH_SECONDS = 20.0  # for MPI to end once all ranks have called for it


def library() -> str:
    if missing:
        return "no MPI library: one process"
    return " ".join(MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0").split())


def abi() -> str:
    """Return the MPI ABI in use (MPICH, Open MPI, or the standard one) and mpi4py's build; without MPI the reason."""
    if missing:
        return f"mpi4py {mpi4py.__version__}: {missing}"
    kind = Path(MPI.__file__).name.split(".")[1]
    is_wheel = not kind.startswith(("cpython", "abi3", "so"))
    family = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "MPICH", "mpiabi": "standard"}.get(kind)
    family = family or ("Open MPI" if MPI.get_vendor()[0] == "Open MPI" else "MPICH")
    built = f"its wheel's build for {kind}" if is_wheel else f"built with {mpi4py.get_config().get('mpicc', 'an MPI of its own')}"
    return f"{family} ABI; mpi4py {mpi4py.__version__}, {built}"


def _abort_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    rank = MPI.COMM_WORLD.rank
    if issubclass(kind, KeyboardInterrupt):
        print("hpcml: interrupted", file=sys.stderr, flush=True)
        _abort(130)
    if is_out_of_memory(error):
        ours = [frame for frame in traceback.extract_tb(trace) if f"{os.sep}hpcml{os.sep}" in frame.filename]
        _end_all_ranks(out_of_memory(rank, f"in {ours[-1].name}" if ours else "", error))
    if issubclass(kind, MPI.Exception):
        time.sleep(LEAVE_SECONDS)  # another rank was probably killed; the launcher then ends this one and reports it
    text = "".join(traceback.format_exception(kind, error, trace))
    print(f"hpcml: rank {rank} failed unexpectedly; all ranks end now\n{text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if MPI.COMM_WORLD.size > 1:
        _abort(1)


def _abort(code: int) -> NoReturn:
    """End all ranks at once. MPICH's Abort returns until the launcher has killed this rank."""
    time.sleep(RELAY_SECONDS)
    MPI.COMM_WORLD.Abort(code)
    time.sleep(LEAVE_SECONDS)
    os._exit(code)


def _end_all_ranks(message: str, code: int = EXIT_USER) -> NoReturn:
    print(f"hpcml: {message}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if MPI.COMM_WORLD.size == 1:
        os._exit(code)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)  # in case MPI cannot abort, because memory is missing or the fault is inside MPI
    _abort(code)


def leave(error: HpcmlError, was_printed: bool) -> None:
    """Wait for the other ranks to end with the same error; if they do not, end them."""
    if not wait_for_request(MPI.COMM_WORLD.Ibarrier(), LEAVE_SECONDS):
        _end_all_ranks("ending the other ranks" if was_printed else f"rank {MPI.COMM_WORLD.rank}: {error}", error.exit_code)


def meet() -> None:
    """Wait for the other ranks to finish their work; if they do not, end all ranks."""
    if not wait_for_request(MPI.COMM_WORLD.Ibarrier(), MEET_SECONDS):
        others = f"other ranks have not finished after {MEET_SECONDS:g} s; ending all ranks"
        _end_all_ranks(f"rank {MPI.COMM_WORLD.rank}: finished, but {others}", 1)


def wait_for_request(request: MPI.Request, seconds: float = math.inf) -> bool:
    """Return whether a request is complete within `seconds`; sleeps, so that other ranks can use the core."""
    end, pause = time.monotonic() + seconds, 1e-5
    while not request.Test():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True


def finish(code: int) -> None:
    """End MPI or, if that takes too long, this process, with its exit code."""
    if not MPI.Is_initialized():
        return

    def late() -> None:
        print(f"hpcml: rank {rank}: MPI did not end within {FINISH_SECONDS:g} s; exiting without it", file=sys.stderr, flush=True)
        os._exit(code)

    rank = MPI.COMM_WORLD.rank
    timer = threading.Timer(FINISH_SECONDS, late)
    timer.daemon = True
    timer.start()
    runtime.end()
    timer.cancel()


def _on_bus_error(_number: int) -> None:
    """End the job after a page of a mapped file was lost. The reader of the page cannot continue."""
    # Find the mapped file that is shorter than its map, if the system shows it.
    name = "a file"
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            span, access, offset, _, _, *path = line.split(maxsplit=5)
            if access != "r--s" or not path or not Path(path[0]).is_file():  # hpcml's maps are shared, those of libraries private
                continue
            begin, end = (int(address, 16) for address in span.split("-"))
            if -(-Path(path[0]).stat().st_size // mmap.PAGESIZE) * mmap.PAGESIZE < int(offset, 16) + end - begin:
                name = path[0]
                break
    # One rank reports the file: if another rank holds its lock, wait to be killed.
    with suppress(OSError):
        file = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_EX)  # the holder was a rank of another job
            time.sleep(RELAY_SECONDS)
    why = "became shorter while it was in use, or its disk failed; restore it and run again"
    _end_all_ranks(f"rank {MPI.COMM_WORLD.rank}: {name} {why}")


_late = ""  # message for the alarm; only in programs that called `start`


def _on_alarm(_number: int) -> None:
    _end_all_ranks(f"rank {MPI.COMM_WORLD.rank}: {_late}")


_ON_BUS_ERROR, _ON_ALARM = (ctypes.CFUNCTYPE(None, ctypes.c_int)(action) for action in (_on_bus_error, _on_alarm))


@contextmanager
def time_limit(seconds: int, message: str) -> Iterator[None]:
    """End all ranks with `message` if the body takes longer, even in C code; only in the main thread after `start`."""
    global _late
    if sys.excepthook is not _abort_hook or threading.current_thread() is not threading.main_thread():
        yield
        return
    _late = message
    ctypes.CDLL(None).signal(signal.SIGALRM, _ON_ALARM)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def start() -> MPI.Comm:
    """Set the abort hook and return a duplicate of COMM_WORLD. Raises ConfigError if a launcher's ranks do not see each other."""
    sys.excepthook = _abort_hook
    ctypes.CDLL(None).signal(signal.SIGBUS, _ON_BUS_ERROR)  # Python's handlers would run only after the faulting instruction
    if missing and (sign := sign_of_other_ranks()):
        raise ConfigError(
            f"a launcher may have started several processes ({sign}), and several processes need an MPI library, but mpi4py "
            f"finds none ({missing}); pip install 'hpcml[mpi]', load the cluster's MPI module, or install the distribution's "
            "MPICH or Open MPI; to run one process, start it without the launcher, or unset the variable"
        )
    promised = {name: size for name, (size, _) in promised_ranks().items() if size > 1}
    if promised and MPI.COMM_WORLD.size == 1 and not has_connection():  # N copies of a program with one rank
        name, size = next(iter(promised.items()))
        raise ConfigError(
            f"the launcher started {size} ranks ({name}={os.environ[name]}) but MPI sees only one: mpirun or srun belongs to "
            f"another MPI than mpi4py's ({library()}), or started the shell around this command; start each command with this "
            f"environment's mpirun, reinstall mpi4py against the cluster's MPI, or `unset {' '.join(promised)}` to run one process"
        )
    return MPI.COMM_WORLD.Dup()


def self_comm() -> MPI.Comm:
    return MPI.COMM_SELF


@contextmanager
def freeing(own: MPI.Comm) -> Iterator[MPI.Comm]:
    try:
        yield own
    except HpcmlError:  # raised on all ranks; after any other exception other ranks do not come here
        own.Free()
        raise
    own.Free()


def duplicated(comm: MPI.Comm | None) -> AbstractContextManager[MPI.Comm]:
    """Return a private duplicate (None: of COMM_SELF), freed after the body. Collective over `comm`."""
    return freeing((MPI.COMM_SELF if comm is None else comm).Dup())


def divided(comm: MPI.Comm, size: int) -> AbstractContextManager[MPI.Comm]:
    """Return the communicator of this rank's group of `size` neighbours (a divisor of the ranks). Collective over `comm`."""
    return freeing(comm.Split(comm.rank // size, comm.rank))


def on_node(comm: MPI.Comm) -> AbstractContextManager[MPI.Comm]:
    """Return the communicator of the ranks on this node. Collective over `comm`."""
    return freeing(comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank))


def ranks_on_node(comm: MPI.Comm) -> int:
    with on_node(comm) as node:
        return node.size


@contextmanager
def node_first(comm: MPI.Comm) -> Iterator[None]:
    """Run the body on each node's first rank before the others, which sleep, so that caches are filled once. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if node.rank != 0:
        wait_for_request(node.Ibarrier())
    try:
        yield
    finally:
        if node.rank == 0:
            wait_for_request(node.Ibarrier())
        wait_for_request(node.Ibarrier())
        node.Free()
