"""How long `hpcml` takes to start: from the launch of the ranks to the first word of training, and to the end of a tiny command.

REPEATS: of each measurement (3); COMMAND: info, a method of `hpcml train`, or all (all); RANKS: 1 2 4. Prints JSON lines with the
medians: `seconds` to the end, `first_step` to the line that says what is trained on how many rows, `cpu` of all ranks together.

`info` needs no compiled kernel; a training run compiles its kernels where the cache is empty ("cold", of probe only) and reads
them where it is not ("warm").
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hpcml.methods.registry import METHODS
from launch.lab.bench._common import parser_of

TOP = Path(__file__).resolve().parents[3]
RANKS = (1, 2, 4)
BEGINS = ("training ", "learning ")  # what a training run says first


def commit() -> str:
    """The commit that is measured."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Times(NamedTuple):
    """Seconds of one launch; `first_step` is NaN without training."""

    seconds: float
    first_step: float
    cpu: float


def cpu_seconds() -> float:
    """Of the processes that have ended, launched from here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def launched(ranks: int, program: list[str], cache: Path | None = None) -> Times:
    """The times of one launch; without `cache`, kernels are kept where they always are."""
    more = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    if cache is not None:
        more["NUMBA_CACHE_DIR"] = str(cache)
    if ranks > len(os.sched_getaffinity(0)):
        more["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # as launch/env.sh has it
    command = ["mpirun", "-n", str(ranks), sys.executable, *program]
    step, said, used, begin = float("nan"), [], cpu_seconds(), time.perf_counter()
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=os.environ | more, text=True, **streams) as run:
        for line in run.stdout:
            said.append(line)
            if step != step and line.startswith(BEGINS):
                step = time.perf_counter() - begin
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}\n{''.join(said)}")
    return Times(time.perf_counter() - begin, step, cpu_seconds() - used)


def measure(name: str, program: list[str], folder: Path, repeats: int, all_ranks: Sequence[int], cold: bool) -> None:
    """Print the medians of one command on all numbers of ranks, with an empty (if `cold`) and with a full cache."""
    for ranks in all_ranks:
        for cache in ("cold", "warm") if cold else ("warm",):
            found = []
            if cache == "warm":
                launched(ranks, program)
            for _ in range(repeats):
                if cache == "cold":
                    shutil.rmtree(folder / "cache", ignore_errors=True)
                found.append(launched(ranks, program, folder / "cache" if cache == "cold" else None))
            median = Times(*(statistics.median(column) for column in zip(*found, strict=True)))
            line = {"bench": "startup", "commit": commit(), "command": name, "ranks": ranks, "cache": cache}
            line |= {key: round(value, 2) for key, value in median._asdict().items() if value == value}
            print(json.dumps(line), flush=True)


def main(words: list[str]) -> None:
    """Make a tiny dataset and measure on it."""
    parser = parser_of("startup", __doc__)
    parser.add_argument("repeats", type=int, nargs="?", default=3)
    parser.add_argument("command", nargs="?", default="all")
    parser.add_argument("ranks", type=int, nargs="*")
    given = parser.parse_args(words)
    repeats, command, ranks = given.repeats, given.command, given.ranks
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = folder / "data.h5"
        rows = (f"{2 * (k % 3 == 0) - 1} 1:{k % 7 + 1} 2:{(k * k) % 11 + 1}\n" for k in range(1000))  # Winnow takes none below 0
        (folder / "rows.svm").write_text("".join(rows))
        make = ["convert", "svmlight", str(folder / "rows.svm"), "-o", str(data)]
        subprocess.run([sys.executable, "-m", "hpcml", *make], capture_output=True, check=True)
        if command in ("all", "info"):
            measure("info", ["-m", "hpcml", "info", str(data)], folder, repeats, ranks or RANKS, cold=False)
        for method in METHODS if command == "all" else {command} - {"info"}:
            train = ["-m", "hpcml", "train", method, str(data), "-o", str(folder / "run"), "--force"]
            measure(f"train {method}", train, folder, repeats, ranks or RANKS, cold=method == "probe")
