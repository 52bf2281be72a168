"""Ranks that run one command of `hpcml` after another, because starting ranks takes seconds.

usage: mpirun -n N python tests/jobs/standing.py FOLDER PROCESS

FOLDER/K.json has the arguments of command K, as a list or as {"arguments": …, "folder": …}; null ends the ranks. Each rank writes
its output to FOLDER/K.RANK.out and .err, and FOLDER/K.codes gets the exit codes. The ranks also end when the process PROCESS ends.
"""

import json
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

from hpcml.__main__ import run as run_command
from hpcml.cli.guard import Guard
from hpcml.signals import StopSignals


def run(arguments):
    sys.argv[1:] = arguments
    try:
        return run_command(arguments, Guard(StopSignals()))
    except SystemExit as end:
        return end.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter handles any exception
        sys.excepthook(*sys.exc_info())
        return 1


def run_commands(folder, sender, comm):
    number, begun_in = 0, Path.cwd()
    while True:
        command, pause = folder / f"{number}.json", 0.002
        while not command.exists():
            if not sender.exists():
                return
            time.sleep(pause)
            pause = min(0.1, 1.1 * pause)  # idle ranks leave the cores to others
        if (tokens := json.loads(command.read_text())) is None:
            return
        if isinstance(tokens, dict):
            os.chdir(tokens["folder"])
            tokens = tokens["arguments"]
        for descriptor, name in ((1, "out"), (2, "err")):
            file = os.open(folder / f"{number}.{comm.rank}.{name}", os.O_WRONLY | os.O_CREAT)
            os.dup2(file, descriptor)
            os.close(file)
        code = run(tokens)
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(begun_in)
        codes = comm.gather(code)
        if comm.rank == 0:
            (folder / "part").write_text(json.dumps(codes))
            (folder / "part").rename(folder / f"{number}.codes")
        number += 1


if __name__ == "__main__":
    run_commands(Path(sys.argv[1]), Path("/proc", sys.argv[2]), MPI.COMM_WORLD.Dup())
