"""The guarded main program: one sentence and an exit code for what the user can mend, an abort of all ranks for the rest."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from hpcml.errors import EXIT_RESUMABLE, HpcmlError
from hpcml.log import say


def _is_first() -> bool:
    """Whether this process should speak: rank 0, as far as the launcher tells before MPI has started."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"


def _leave_word(code: int) -> None:
    """Write the exit code to the file that HPCML_EXIT_FILE names: what a launcher makes of the codes of many ranks differs."""
    if path := os.environ.get("HPCML_EXIT_FILE"):
        with suppress(OSError):
            Path(path).write_text(f"{code}\n", encoding="ascii")


def main() -> None:
    """Run the command line of this process and exit with its code (0 done, 2 user, 75 resumable)."""
    from hpcml import cli

    speaks, connected = _is_first(), False

    def connect():
        nonlocal speaks, connected
        from hpcml import mpi

        comm = mpi.start()
        speaks, connected = comm.rank == 0, True
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
            _leave_word(error.exit_code)
        if connected:
            from hpcml import mpi

            mpi.leave(error, said=speaks)
        sys.exit(error.exit_code)
    if speaks:
        _leave_word(0)


if __name__ == "__main__":
    main()
