"""The launcher of this process (mpirun, srun), by the environment variables that it sets.

A shell inside a job step hands them on to commands that no launcher started. So a variable alone proves nothing: a rank has a
launcher among its ancestors, and a rank of MPICH also has an open socket to it.
"""

from __future__ import annotations

import os
import re
import select
import stat
from contextlib import suppress
from pathlib import Path

# The number of ranks, and the rank, in the order in which they are believed.
_OPEN_MPI, _PMI = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK")
_OTHERS = (("PMIX_SIZE", "PMIX_RANK"), ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"))
_STARTERS = r"mpirun|mpiexec|hydra_|pmi_proxy|orted|prte|palsd"  # of ranks only
_PROGRAMS = rf"{_STARTERS}|srun|slurmstepd|jsmd|flux-"  # some of which start a job's script, too


def number_in(name: str) -> int:
    """Return the whole number that is the value of a variable, or 0."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0


def promised_ranks() -> dict[str, tuple[int, int]]:
    """Return the number of ranks and the rank by each variable that has a number, the most reliable first."""
    pairs = [_PMI] if has_connection() else [_OPEN_MPI, _PMI, *_OTHERS]
    if "SLURM_STEP_ID" in os.environ or "SLURM_STEPID" in os.environ:  # inside srun, not merely inside an allocation
        # an interactive step has one task, but the number of tasks of its allocation, too
        name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in os.environ else "SLURM_NTASKS"
        pairs.append((name, "SLURM_PROCID"))
    found = {size: (number, number_in(rank)) for size, rank in pairs if (number := number_in(size))}
    if not found and "PMIX_RANK" in os.environ:  # of launchers that set no size
        found["PMIX_RANK"] = (number_in("PMIX_RANK") + 1, number_in("PMIX_RANK"))
    return found


def launcher() -> tuple[str, int]:
    """Return the variable of the launcher and the number of ranks that it promises; ("", 1) if none started this process."""
    promised = {name: size for name, (size, _) in promised_ranks().items()}
    # MPICH's would have left a connection, and srun may have started the shell alone
    return next(((name, size) for name, size in promised.items() if size > 1 or name in _OPEN_MPI or has_connection()), ("", 1))


def launched_rank() -> int:
    """Return the rank that the launcher gave this process; 0 if it did not start it, or only the shell around it."""
    size, rank = next(iter(promised_ranks().values()), (1, 0))
    return rank if size > 1 and launching_ancestor() and not os.isatty(0) else 0


def has_connection() -> bool:
    """Return whether PMI_FD, of MPICH's and Slurm's launchers, is a socket whose other end is open."""
    with suppress(ValueError, OSError, OverflowError):
        number, poll = int(os.environ.get("PMI_FD", "")), select.poll()
        poll.register(number, 0)  # hang-ups and errors are always reported
        return stat.S_ISSOCK(os.fstat(number).st_mode) and not poll.poll(0)
    return False


def sign_of_other_ranks() -> str:
    """Return the variable or the ancestor by which this process may be one of several ranks; "" if it is alone."""
    promised = promised_ranks()
    several = [f"{name}={os.environ[name]}" for name, (size, _) in promised.items() if size > 1]
    if several or promised.keys() - {"PMIX_RANK", "MPI_LOCALNRANKS"}:  # rank 0, or 1 rank on this node, may have others beside it
        return "".join(several[:1])
    return "PMI_FD" if has_connection() else launching_ancestor(_STARTERS)


def launching_ancestor(programs: str = _PROGRAMS) -> str:
    """Return the name of the nearest ancestor of this process that is a launcher; "" if none is."""
    process = os.getppid()
    with suppress(OSError):
        while process > 0:
            status = Path(f"/proc/{process}/stat").read_bytes().decode("ascii", "replace")
            name, _, rest = status.partition("(")[2].rpartition(")")
            if re.match(programs, name):
                return name
            process = int(rest.split()[1])
    return ""
