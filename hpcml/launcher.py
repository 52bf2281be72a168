"""The launcher of this process (mpirun, srun), detected by its environment variables.

A shell inside a job step passes these variables on to commands that no launcher started. So a variable alone proves nothing: a rank
has a launcher among its ancestors, and a rank of MPICH also has an open socket to it.
"""

import os
import re
import select
import stat
from contextlib import suppress
from pathlib import Path

# Variables of the number of ranks and of the rank, the most reliable first.
_OPEN_MPI, _PMI = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK")
_OTHERS = (("PMIX_SIZE", "PMIX_RANK"), ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"))
_STARTERS = r"mpirun|mpiexec|hydra_|pmi_proxy|orted|prte|palsd"  # programs that start only ranks
_PROGRAMS = rf"{_STARTERS}|srun|slurmstepd|jsmd|flux-"  # some also start a job's script


def number_in(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0


def promised_ranks() -> dict[str, tuple[int, int]]:
    pairs = [_PMI] if has_connection() else [_OPEN_MPI, _PMI, *_OTHERS]
    if "SLURM_STEP_ID" in os.environ or "SLURM_STEPID" in os.environ:  # inside srun, not merely inside an allocation
        # An interactive step has one task, but also the variable of its allocation's tasks.
        name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in os.environ else "SLURM_NTASKS"
        pairs.append((name, "SLURM_PROCID"))
    promised = {size: (number, number_in(rank)) for size, rank in pairs if (number := number_in(size))}
    if not promised and "PMIX_RANK" in os.environ:  # launchers that set no size
        promised["PMIX_RANK"] = (number_in("PMIX_RANK") + 1, number_in("PMIX_RANK"))
    return promised


def launcher() -> tuple[str, int]:
    """Return the launcher's variable and the promised number of ranks; ("", 1) if no launcher started this process."""
    promised = {name: size for name, (size, _) in promised_ranks().items()}
    # MPICH's launcher would have left a connection, and srun may have started only the shell.
    return next(((name, size) for name, size in promised.items() if size > 1 or name in _OPEN_MPI or has_connection()), ("", 1))


def launched_rank() -> int:
    """Return the launcher's rank of this process; 0 without a launcher, or if it started only the shell."""
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
    """Return the variable or ancestor that suggests that this process is one of several ranks; "" if there is none."""
    promised = promised_ranks()
    several = [f"{name}={os.environ[name]}" for name, (size, _) in promised.items() if size > 1]
    # With these two, rank 0, or the only rank on this node, may be one of several.
    if several or promised.keys() - {"PMIX_RANK", "MPI_LOCALNRANKS"}:
        return "".join(several[:1])
    return "PMI_FD" if has_connection() else launching_ancestor(_STARTERS)


def launching_ancestor(programs: str = _PROGRAMS) -> str:
    process = os.getppid()
    with suppress(OSError):
        while process > 0:
            status = Path(f"/proc/{process}/stat").read_bytes().decode("ascii", "replace")
            name, _, rest = status.partition("(")[2].rpartition(")")
            if re.match(programs, name):
                return name
            process = int(rest.split()[1])
    return ""
