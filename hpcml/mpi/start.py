"""Start-up and shut-down: the world communicator, the launcher check, the abort hook."""

from __future__ import annotations

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
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import mpi4py

from hpcml.errors import EXIT_USER, ConfigError, HpcmlError, is_out_of_memory, out_of_memory
from hpcml.launcher import has_connection, promised_ranks, sign_of_other_ranks
from hpcml.mpi import runtime
from hpcml.mpi.binding import MPI, missing

Comm = MPI.Comm

RELAY_SECONDS = 0.2  # for the launcher to pass on what was printed: at an abort it kills at once
LEAVE_SECONDS = 5.0  # that ranks may be apart when they end by the same error
MEET_SECONDS = 120.0  # and when they have done their work: rank 0 may still print
FINISH_SECONDS = 20.0  # that MPI may take to end when all ranks are at it


def library() -> str:
    """The MPI library that mpi4py uses: name and version."""
    if missing:
        return "no MPI library: one process"
    return " ".join(MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0").split())


def abi() -> str:
    """The MPI ABI in use (MPICH, Open MPI, or the standard one), and what mpi4py was built for; without MPI the reason."""
    if missing:
        return f"mpi4py {mpi4py.__version__}: {missing}"
    kind, is_wheel = loaded_build(Path(MPI.__file__).name)
    family = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "MPICH", "mpiabi": "standard"}.get(kind)
    family = family or ("Open MPI" if MPI.get_vendor()[0] == "Open MPI" else "MPICH")
    built = f"its wheel's build for {kind}" if is_wheel else f"built with {mpi4py.get_config().get('mpicc', 'an MPI of its own')}"
    return f"{family} ABI; mpi4py {mpi4py.__version__}, {built}"


def loaded_build(file: str) -> tuple[str, bool]:
    """Of the name of mpi4py's module: the ABI in it, and whether there is one, as in wheels."""
    kind = file.split(".")[1]
    is_wheel = not kind.startswith(("cpython", "abi3", "so"))
    return (kind if is_wheel else ""), is_wheel


def _abort_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback with the rank (a sentence for lack of memory), then end all."""
    rank = MPI.COMM_WORLD.rank
    if issubclass(kind, KeyboardInterrupt):
        print("hpcml: interrupted", file=sys.stderr, flush=True)
        _abort(130)
    if is_out_of_memory(error):
        ours = [frame for frame in traceback.extract_tb(trace) if f"{os.sep}hpcml{os.sep}" in frame.filename]
        _end(out_of_memory(rank, f"in {ours[-1].name}" if ours else "", error))
    if issubclass(kind, MPI.Exception):
        time.sleep(LEAVE_SECONDS)  # probably another rank was killed: then the launcher ends this one, and says why
    text = "".join(traceback.format_exception(kind, error, trace))
    print(f"hpcml: rank {rank} failed unexpectedly; all ranks end now\n{text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if MPI.COMM_WORLD.size > 1:
        _abort(1)


def _abort(code: int) -> NoReturn:
    """End all ranks at once. MPICH's Abort comes back until the launcher has killed this rank."""
    time.sleep(RELAY_SECONDS)
    MPI.COMM_WORLD.Abort(code)
    time.sleep(LEAVE_SECONDS)
    os._exit(code)


def _end(sentence: str, code: int = EXIT_USER) -> NoReturn:
    """Print the reason and end all ranks at once, wherever they are."""
    print(f"hpcml: {sentence}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if MPI.COMM_WORLD.size == 1:
        os._exit(code)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)  # should the memory be gone, or the fault be inside MPI, so that it cannot abort
    _abort(code)


def leave(error: HpcmlError, said: bool) -> None:
    """The end of a rank by an error that all should have. If others wait for it, end all."""
    if not rested(MPI.COMM_WORLD.Ibarrier(), LEAVE_SECONDS):
        _end("the other ranks are ended" if said else f"rank {MPI.COMM_WORLD.rank}: {error}", error.exit_code)


def meet() -> None:
    """The end of a rank that has done its work. If the others do not come, end all."""
    if not rested(MPI.COMM_WORLD.Ibarrier(), MEET_SECONDS):
        _end(f"rank {MPI.COMM_WORLD.rank}: it is done, but others are not after {MEET_SECONDS:g} s; all ranks end now", 1)


def rested(request: MPI.Request, seconds: float = math.inf) -> bool:
    """Return whether a request is complete within `seconds`; sleeps, so others have the core."""
    end, pause = time.monotonic() + seconds, 1e-5
    while not request.Test():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True


def finish(code: int) -> None:
    """End MPI, or, if that takes too long, this process, whose work is done, with its exit code."""
    if not MPI.Is_initialized():
        return

    def late() -> None:
        print(f"hpcml: rank {rank}: MPI did not end within {FINISH_SECONDS:g} s; ended without it", file=sys.stderr, flush=True)
        os._exit(code)

    rank = MPI.COMM_WORLD.rank
    timer = threading.Timer(FINISH_SECONDS, late)
    timer.daemon = True
    timer.start()
    runtime.end()
    timer.cancel()


def _on_bus_error(_number: int) -> None:
    """A page of a mapped file is gone. There is no way back to what was reading it."""
    # The mapped file that ends before its map does, as far as the system tells.
    name = "a file"
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            span, access, offset, _, _, *path = line.split(maxsplit=5)
            if access != "r--s" or not path or not Path(path[0]).is_file():  # ours are, those of libraries are private
                continue
            begin, end = (int(address, 16) for address in span.split("-"))
            if -(-Path(path[0]).stat().st_size // mmap.PAGESIZE) * mmap.PAGESIZE < int(offset, 16) + end - begin:
                name = path[0]
                break
    # Wait to be killed if another rank holds this file: one is enough to say that it is short.
    with suppress(OSError):
        file = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_EX)  # a rank of another job ended by itself
            time.sleep(RELAY_SECONDS)
    _end(f"rank {MPI.COMM_WORLD.rank}: {name} became shorter while it was in use, or its disk failed; restore it and run again")


_late = ""  # what to say when the alarm rings; set in programs begun by `start` only


def _on_alarm(_number: int) -> None:
    _end(f"rank {MPI.COMM_WORLD.rank}: {_late}")


_ON_BUS_ERROR, _ON_ALARM = (ctypes.CFUNCTYPE(None, ctypes.c_int)(action) for action in (_on_bus_error, _on_alarm))


@contextmanager
def time_limit(seconds: int, sentence: str) -> Iterator[None]:
    """End all ranks with `sentence` if the body takes longer, say in C that never comes back.

    Local; does nothing outside of programs that `start` began, and in other threads than the first.
    """
    global _late
    if sys.excepthook is not _abort_hook or threading.current_thread() is not threading.main_thread():
        yield
        return
    _late = sentence
    ctypes.CDLL(None).signal(signal.SIGALRM, _ON_ALARM)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def start() -> MPI.Comm:
    """COMM_WORLD duplicated, with the abort hook set. Raises ConfigError if a launcher's ranks do not see each other."""
    sys.excepthook = _abort_hook
    ctypes.CDLL(None).signal(signal.SIGBUS, _ON_BUS_ERROR)  # Python's own handlers would only run after the faulting step
    if missing and (sign := sign_of_other_ranks()):
        raise ConfigError(
            f"a launcher may have started several processes ({sign}), and several processes need an MPI library, but mpi4py "
            f"finds none ({missing}); pip install 'hpcml[mpi]', load the cluster's MPI module, or install the distribution's "
            "MPICH or Open MPI; to run one process, start it without the launcher, or unset the variable"
        )
    promised = {name: size for name, (size, _) in promised_ranks().items() if size > 1}
    if promised and MPI.COMM_WORLD.size == 1 and not has_connection():  # N copies of "rank 0 of 1"
        name, size = next(iter(promised.items()))
        raise ConfigError(
            f"the launcher started {size} ranks ({name}={os.environ[name]}) but MPI sees only one: mpirun or srun belongs to "
            f"another MPI than mpi4py's ({library()}), or started the shell around this command; start each command with this "
            f"environment's mpirun, reinstall mpi4py against the cluster's MPI, or `unset {' '.join(promised)}` to run one process"
        )
    return MPI.COMM_WORLD.Dup()


def self_comm() -> MPI.Comm:
    """The communicator of this process alone."""
    return MPI.COMM_SELF


@contextmanager
def freed(own: MPI.Comm) -> Iterator[MPI.Comm]:
    """Collective over `own`. A communicator that is freed after the body."""
    try:
        yield own
    except HpcmlError:  # agreed, so all ranks are here; after any other exception the others are not
        own.Free()
        raise
    own.Free()


@contextmanager
def duplicated(comm: MPI.Comm | None) -> Iterator[MPI.Comm]:
    """Collective over `comm`. A private duplicate (None: of COMM_SELF), freed at the end."""
    with freed((MPI.COMM_SELF if comm is None else comm).Dup()) as own:
        yield own


@contextmanager
def divided(comm: MPI.Comm, size: int) -> Iterator[MPI.Comm]:
    """Collective over `comm`. This rank's group of `size` neighbours (a divisor of the ranks)."""
    with freed(comm.Split(comm.rank // size, comm.rank)) as group:
        yield group


@contextmanager
def on_node(comm: MPI.Comm) -> Iterator[MPI.Comm]:
    """Collective over `comm`. Those of its ranks that run on this node."""
    with freed(comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank)) as node:
        yield node


def ranks_on_node(comm: MPI.Comm) -> int:
    """Collective over `comm`. How many of its ranks run on this node."""
    with on_node(comm) as node:
        return node.size


@contextmanager
def node_first(comm: MPI.Comm) -> Iterator[None]:
    """Collective over `comm`. Run the body on each node's first rank, then the others (caches).

    Ranks that wait for others sleep meanwhile: compiling takes seconds, and reading what was compiled before a good part of one.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if node.rank != 0:
        rested(node.Ibarrier())
    try:
        yield
    finally:
        if node.rank == 0:
            rested(node.Ibarrier())
        rested(node.Ibarrier())
        node.Free()
