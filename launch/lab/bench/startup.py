"""Start-up time of `hpcml`: from the launch of the ranks to the first step of training and to the end of a tiny command.

REPEATS: of each measurement (3); COMMAND: info, a method of `hpcml train`, or all (all); RANKS: 1 2 4. A line has the medians:
`seconds` to the end, `first_step` to the moment at which the run's config.toml is written, just before the first step, `cpu` of all
ranks together.

`info` needs no compiled kernel; a training run compiles its kernels where the cache is empty ("cold", of probe only) and reads
them where it is not ("warm").
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcml.methods.registry import METHODS
from launch.lab.core.bench import rounded
from launch.lab.core.timing import hpcml_command, run_command, run_hpcml


def launched(scratch: Path, ranks: int, words: tuple[object, ...], cold: bool) -> dict[str, float]:
    """Return the times of one launch, with an empty kernel cache if `cold`."""
    env, cache = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"), scratch / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    env |= {"NUMBA_CACHE_DIR": str(cache)} if cold else {}
    if ranks > len(os.sched_getaffinity(0)):
        env["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # as launch/env.sh has it
    began, config = time.time(), scratch / "run" / "config.toml"
    used = run_command(hpcml_command(words, ranks), env=env)
    first = {"first_step": config.stat().st_mtime - began} if words[0] == "train" else {}
    return first | {"seconds": used.seconds, "cpu": used.cpu_seconds}


def run(scratch: Path, repeats: int = 3, command: str = "all", ranks: tuple[int, ...] = (1, 2, 4)) -> Iterator[dict[str, Any]]:
    data, source = scratch / "data.h5", scratch / "rows.svm"
    source.write_text("".join(f"{2 * (k % 3 == 0) - 1} 1:{k % 7 + 1} 2:{(k * k) % 11 + 1}\n" for k in range(1000)))
    run_hpcml("convert", "svmlight", source, "-o", data)
    for name in ("info", *METHODS) if command == "all" else (command,):
        words = ("info", data) if name == "info" else ("train", name, data, "-o", scratch / "run", "--force")
        for n in ranks:
            for cold in (True, False) if name == "probe" else (False,):
                timings = [launched(scratch, n, words, cold) for _ in range(repeats + (not cold))][not cold :]
                medians = {key: statistics.median(times[key] for times in timings) for key in timings[0]}
                yield {"command": name, "ranks": n, "cache": "cold" if cold else "warm"} | rounded(3, **medians)
