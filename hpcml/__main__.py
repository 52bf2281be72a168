"""The guarded main program: one sentence and an exit code for a user's mistake, else an abort."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from hpcml import loading
from hpcml.deferred import defer
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml.cli.guard import Guard


def open_streams() -> None:
    """Let a closed standard stream lead nowhere, or the next file opened would take its place."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, descriptor)
            if nowhere > 2:
                os.close(nowhere)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - until the end


def main() -> None:
    """Run the command line; exit with 0 done, 2 user, 75 resumable, or 128 + N for signal N."""
    open_streams()
    gc.set_threshold(20_000)  # what a start makes stays: to look for garbage after every 700 objects takes a tenth of it
    signals = StopSignals().__enter__()  # before anything is imported that takes its time
    defer()
    loading.in_program = True
    from hpcml.cli.guard import Guard

    guard = Guard(signals).start()
    code = run(sys.argv[1:], guard)
    if "hpcml.mpi" in sys.modules:
        from hpcml import mpi

        mpi.finish(code)
    sys.exit(code)


def run(tokens: list[str], guard: Guard) -> int:
    """Run one command line: its exit code, after its sentence."""
    from hpcml.cli import app as cli
    from hpcml.cli.guard import write_exit_code
    from hpcml.errors import EXIT_USER, HpcmlError, is_out_of_memory, out_of_memory
    from hpcml.log import say

    connected = False

    def connect():
        nonlocal connected
        if lack := loading.lacking(loading.START_BYTES):
            raise MemoryError(lack)
        with loading.in_time():
            from hpcml import mpi

        comm = mpi.start()
        guard.rank, connected = comm.rank, True
        return comm

    if guard.rank > 0 and (not tokens or {"--help", "-h", "--version", "--install-completion"} & set(tokens)):
        return 0  # one copy of the help is enough
    try:
        cli.run(tokens, connect, guard)
    except HpcmlError as error:
        guard.end_begins(error.exit_code)
        if guard.rank == 0:
            say(f"hpcml: {error}", sys.stderr)
            write_exit_code(error.exit_code)
        if connected:
            from hpcml import mpi

            mpi.leave(error, said=guard.rank == 0)
        return error.exit_code
    except Exception as error:
        if connected or not is_out_of_memory(error):
            raise
        guard.end_begins(EXIT_USER)
        say(f"hpcml: {out_of_memory(guard.rank, 'while starting', error)}", sys.stderr)
        return EXIT_USER
    guard.end_begins(0)
    if guard.rank == 0:
        write_exit_code(0)
    if connected:
        from hpcml import mpi

        mpi.meet()
    return 0


if __name__ == "__main__":
    main()
