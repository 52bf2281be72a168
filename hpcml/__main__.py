"""The guarded main program: one sentence and an exit code for what the user can mend, an abort of all ranks for the rest."""

from __future__ import annotations

import os
import sys

from hpcml.errors import EXIT_RESUMABLE, HpcmlError
from hpcml.log import say


def _is_first() -> bool:
    """Whether this process should speak: rank 0, as far as the launcher tells before MPI has started."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"


def main() -> None:
    """Run the command line of this process and exit with its code (0 done, 2 user, 75 resumable)."""
    from hpcml import cli

    speaks = _is_first()

    def connect():
        nonlocal speaks
        from hpcml import mpi

        comm = mpi.start()
        speaks = comm.rank == 0
        return comm

    if not speaks and (not sys.argv[1:] or {"--help", "-h", "--version"} & set(sys.argv[1:])):
        return  # one copy of the help is enough
    try:
        cli.run(sys.argv[1:], connect)
    except HpcmlError as error:
        if error.exit_code == EXIT_RESUMABLE:
            cli.Session.signals.ignore()
        if speaks:
            say(f"hpcml: {error}", sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
