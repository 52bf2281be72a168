"""Run `hpcml` on this rank and write where its processor time went: `python -m launch.lab.core.ranks FOLDER LAUNCHED WORD...`.

A signal handler samples the stack every 5 ms of processor time; the time since the last sample counts for the phase of the function
that runs. After a compiled kernel, this is the function that called it. LAUNCHED is the time of the launch (Unix
seconds); `idle` is the time since then without the processor, in which a rank sleeps, or waits for files.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

HPCML = find_spec("hpcml").submodule_search_locations[0] + "/"
PHASES = ("start", "read", "compute", "write", "wait", "idle")
OF_PACKAGE = {"mpi": "wait", "data": "read", "loading": "start", "__main__": "start", "cli": "start"}
OF_PACKAGE |= dict.fromkeys(("files", "run", "reporting"), "write")  # all other packages compute
START = ("importlib._bootstrap", "/numba/", "/llvmlite/")  # modules, and compiled kernels
COLLECTIVE = re.compile(r"\b(comm|node|group)\.\w+\(")
INTERVAL = 0.005


def phase_of(frame: FrameType | None) -> str:
    """Return the phase of the innermost function of hpcml."""
    while frame is not None:
        path = frame.f_code.co_filename
        if any(part in path for part in START):
            return "start"
        if path.startswith(HPCML):
            if COLLECTIVE.search(linecache.getline(path, frame.f_lineno or 0)):
                return "wait"
            return OF_PACKAGE.get(path.removeprefix(HPCML).partition("/")[0].removesuffix(".py"), "compute")
        frame = frame.f_back
    return "start"


def main(folder: Path, launched: float, words: list[str]) -> None:
    seconds, last = dict.fromkeys(PHASES, 0.0), 0.0

    def sample(_number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.process_time()
        seconds[phase_of(frame)] += now - last
        last = now

    signal.signal(signal.SIGPROF, sample)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    sys.argv = ["hpcml", *words]
    try:
        from hpcml.__main__ import main as run_command

        run_command()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds["idle"] = max(0.0, time.time() - launched - time.process_time())
        status, io = (Path(f"/proc/self/{name}").read_text(encoding="ascii") for name in ("status", "io"))
        peak, written = (int(text.partition(name)[2].split()[0]) for text, name in ((status, "VmHWM:"), (io, "\nwrite_bytes:")))
        result = seconds | {"peak_mib": peak / 1024, "written_mb": written / 1e6}
        (folder / f"{os.getpid()}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
