"""How long `hpcml` takes to start: from the launch of the ranks to the end of a command that hardly computes.

usage: python launch/bench/startup.py [REPEATS [COMMAND [RANKS...]]]

REPEATS: of each measurement (3); COMMAND: info, train, or all (all); RANKS: 1 2 4. Prints JSON lines with the medians.

`info` needs no compiled kernel; `train` (PROBE, one step) compiles all of its kernels where the cache is empty ("cold") and reads
them where it is not ("warm"). `first_step` are the seconds from the launch to the first step of training.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RANKS = (1, 2, 4)
STEP = """
import sys, time
from hpcml.__main__ import main
from hpcml.methods.linear import run
train = run.Run.train
def stamped(*args):
    print(f"FIRST STEP {time.time()}", file=sys.stderr, flush=True)
    return train(*args)
run.Run.train = stamped
main()
"""


def commit() -> str:
    """The commit that is measured."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def launched(ranks: int, program: list[str], cache: Path) -> tuple[float, float]:
    """Seconds from the launch to the end, and to the last rank's first step (NaN without one)."""
    more = {"NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    if ranks > len(os.sched_getaffinity(0)):
        more["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # as launch/env.sh has it
    begin, wall = time.perf_counter(), time.time()
    command = ["mpirun", "-n", str(ranks), sys.executable, *program]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    steps = [float(found) - wall for found in re.findall(r"FIRST STEP ([\d.]+)", done.stderr)]
    return seconds, max(steps, default=float("nan"))


def measure(name: str, program: list[str], folder: Path, repeats: int, all_ranks: Sequence[int]) -> None:
    """Print the medians of one command on all numbers of ranks, with an empty and with a full cache."""
    for ranks in all_ranks:
        for cache in ("cold", "warm"):
            found = []
            for _ in range(repeats):
                if cache == "cold":
                    shutil.rmtree(folder / "cache", ignore_errors=True)
                found.append(launched(ranks, program, folder / "cache"))
            seconds, step = (statistics.median(column) for column in zip(*found, strict=True))
            line = {"bench": "startup", "commit": commit(), "command": name, "ranks": ranks, "cache": cache}
            line |= {"seconds": round(seconds, 2)} | ({} if step != step else {"first_step": round(step, 2)})
            print(json.dumps(line), flush=True)


def main(repeats: int = 3, command: str = "all", *ranks: int) -> None:
    """Make a tiny dataset and measure on it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = folder / "data.h5"
        make = ["convert", "synthetic", "circle", "--rows", "1000", "-o", str(data)]
        subprocess.run([sys.executable, "-m", "hpcml", *make], capture_output=True, check=True)
        if command != "train":
            measure("info", ["-m", "hpcml", "info", str(data)], folder, repeats, ranks or RANKS)
        train = ["train", "probe", str(data), "-o", str(folder / "run"), "--force", "--max-steps", "1"]
        if command != "info":
            measure("train", ["-c", STEP, *train], folder, repeats, ranks or RANKS)


if __name__ == "__main__":
    main(*(int(word) if word.isdecimal() else word for word in sys.argv[1:]))
