"""Start-up and shut-down: the world communicator, the launcher check, the abort hook."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from mpi4py import MPI

from hpcml.errors import ConfigError, HpcmlError
from hpcml.mpi.collectives import collective

Comm = MPI.Comm

_PROMISES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")


def _launched_size() -> tuple[str, int]:
    """The launcher's variable and the number of ranks it promised; ("", 1) without a launcher."""
    names = [*_PROMISES]
    if "SLURM_STEP_ID" in os.environ or "SLURM_STEPID" in os.environ:  # inside srun, not merely inside an allocation
        names.append("SLURM_NTASKS")
    for name in names:
        if os.environ.get(name, "").isdigit():
            return name, int(os.environ[name])
    return "", 1


def check_launcher(size: int) -> None:
    """Refuse N copies of "rank 0 of 1": the launcher belongs to another MPI library than mpi4py's.

    Raises ConfigError.
    """
    name, promised = _launched_size()
    if promised > 1 and size == 1:
        library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
        raise ConfigError(
            f"the launcher started {promised} ranks ({name}={promised}) but MPI sees only one: mpirun or srun belongs to another "
            f"MPI than mpi4py's ({library}); use the mpirun of this environment, or reinstall mpi4py against the cluster's MPI"
        )


def _abort_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback with the rank, then end all ranks at once."""
    rank = MPI.COMM_WORLD.rank
    if issubclass(kind, KeyboardInterrupt):
        print("hpcml: interrupted", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(130)
    text = "".join(traceback.format_exception(kind, error, trace))
    print(f"hpcml: rank {rank} failed unexpectedly; all ranks end now\n{text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if MPI.COMM_WORLD.size > 1:
        MPI.COMM_WORLD.Abort(1)


def start() -> MPI.Comm:
    """The communicator of this program: COMM_WORLD duplicated, after the launcher check, with the abort hook set.

    Raises ConfigError if the launcher's number of ranks is not MPI's.
    """
    sys.excepthook = _abort_hook
    check_launcher(MPI.COMM_WORLD.size)
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
    """Collective over `comm`. A private duplicate of a caller's communicator (of COMM_SELF for None), freed at the end."""
    with freed((MPI.COMM_SELF if comm is None else comm).Dup()) as own:
        yield own


@contextmanager
def divided(comm: MPI.Comm, size: int) -> Iterator[MPI.Comm]:
    """Collective over `comm`. This rank's group of `size` neighbouring ranks (a divisor of the number of ranks)."""
    with freed(comm.Split(comm.rank // size, comm.rank)) as group:
        yield group


@collective
def ranks_on_node(comm: MPI.Comm) -> int:
    """Collective over `comm`. How many of its ranks run on this node."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    size = node.size
    node.Free()
    return size


@contextmanager
def node_first(comm: MPI.Comm) -> Iterator[None]:
    """Collective over `comm`. Run the body on the first rank of each node, then on its others (fills caches once)."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if node.rank != 0:
        node.Barrier()
    try:
        yield
    finally:
        if node.rank == 0:
            node.Barrier()
        node.Free()
