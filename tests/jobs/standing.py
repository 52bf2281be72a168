"""Ranks that stand by and run one command of `hpcml` after another, for starting them takes seconds.

usage: mpirun -n N python tests/jobs/standing.py FOLDER PROCESS

They end when the process of that number, which sends the commands, has ended. The arguments of command K are put into FOLDER/K.json
(null: end), or {"arguments": …, "folder": …} for a command that is run in another folder. What its
ranks print is then in FOLDER/K.RANK.out and .err, and their exit codes in FOLDER/K.codes.
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


def run(tokens):
    """The exit code of a command; an accident ends all ranks, as it does in a process of its own."""
    sys.argv[1:] = tokens
    try:
        return run_command(tokens, Guard(StopSignals()))
    except SystemExit as end:
        return end.code or 0
    except BaseException:  # noqa: BLE001 - whatever it is, as the interpreter would take it
        sys.excepthook(*sys.exc_info())
        return 1


def stand(folder, sender, comm):
    """Run the commands that come, in order, as long as there is somebody to send them."""
    number = 0
    while True:
        command, pause = folder / f"{number}.json", 0.002
        while not command.exists():
            if not sender.exists():
                return
            time.sleep(pause)
            pause = min(0.1, 1.1 * pause)  # ranks that have waited for long leave the cores to others
        if (tokens := json.loads(command.read_text())) is None:
            return
        begun_in = Path.cwd()
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
            part = folder / "part"
            part.write_text(json.dumps(codes))
            part.rename(folder / f"{number}.codes")
        number += 1


if __name__ == "__main__":
    stand(Path(sys.argv[1]), Path("/proc", sys.argv[2]), MPI.COMM_WORLD.Dup())
