"""The program `hpcml`: it prints one sentence and sets an exit code for a user's mistake, and a traceback for a bug."""

import gc
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from hpcml import loading
from hpcml.deferred import defer
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard


def main() -> None:
    """Run the command line. Exit code: 0 done, 2 user error, 73 folder in use, 75 resumable, 128 + N after signal N."""
    # Open a closed standard stream on /dev/null; else the next file that is opened gets its descriptor.
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null > 2:
                os.close(null)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - until the end

    gc.set_threshold(20_000)  # objects of the start-up stay; collecting after every 700 objects takes a tenth of the start-up
    signals = StopSignals().__enter__()  # before the slow imports
    defer()
    loading.in_program = True
    loading.cap_threads()
    from hpcml.cli.guard import Guard

    guard = Guard(signals).start()
    code = run(sys.argv[1:], guard)
    if "hpcml.mpi" in sys.modules:
        from hpcml import mpi

        mpi.finish(code)
    sys.exit(code)


def connect(guard: "Guard") -> "mpi.Comm":
    if lack := loading.lacking(loading.START_BYTES):
        raise MemoryError(lack)
    with loading.in_time():
        from hpcml import mpi

    comm = mpi.start()
    guard.rank, guard.connected = comm.rank, True
    return comm


def run(tokens: list[str], guard: "Guard") -> int:
    from hpcml.cli import app as cli
    from hpcml.cli.guard import write_exit_code
    from hpcml.errors import EXIT_USER, HpcmlError, is_out_of_memory, out_of_memory
    from hpcml.log import say

    if guard.rank > 0 and (not tokens or tokens[0] == "job" or {"--help", "-h", "--version", "--install-completion"} & set(tokens)):
        return 0  # only rank 0 prints
    failure: HpcmlError | None = None
    try:
        cli.run(tokens, partial(connect, guard), guard)
    except HpcmlError as error:
        failure = error
    except Exception as error:
        if guard.connected or not is_out_of_memory(error):
            raise
        guard.begin_exit(EXIT_USER)
        say(f"hpcml: {out_of_memory(guard.rank, 'while starting', error)}", sys.stderr)
        return EXIT_USER
    code = 0 if failure is None else failure.exit_code
    guard.begin_exit(code)
    if guard.rank == 0:
        if failure is not None:
            say(f"hpcml: {failure}", sys.stderr)
        write_exit_code(code)
    if guard.connected:
        from hpcml import mpi

        if failure is None:
            mpi.meet()
        else:
            mpi.leave(failure, was_printed=guard.rank == 0)
    return code


if __name__ == "__main__":
    main()
