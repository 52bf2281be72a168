"""A run that is interrupted and resumed many times must end with the bits of an undisturbed run.

usage: python -m launch.lab bench faults [--rounds 20] [--seed 0]

Each round sends SIGTERM, SIGUSR1 or SIGKILL to one rank or to all, at a random moment, on one to three ranks.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch.lab.core.bench import ROOT, Failed

sys.path[:0] = [str(ROOT / "tests" / "jobs"), str(ROOT / "tests")]

from conftest import Mpirun  # noqa: E402  (of tests/jobs)
from support.faults import result_of  # noqa: E402
from support.make import dataset, random_data  # noqa: E402

from hpcml import train  # noqa: E402

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL)


def run(folder: Path, *, rounds: int = 20, seed: int = 0) -> Iterator[dict[str, Any]]:
    draw, mpirun, output = random.Random(seed), Mpirun(folder), folder / "run"
    n_labels = 30 * rounds  # more than the rounds can train
    data = dataset(folder / "data.h5", *random_data(7, 4000, 1000, n_labels, density=0.05))
    train("probe", data, folder / "undisturbed")
    done, began = Counter(), time.monotonic()
    for number in range(rounds):
        n, how, delay = draw.choice((1, 2, 3)), draw.choice(SIGNALS), draw.uniform(0.0, 1.0)
        again = ("--resume",) if (output / "config.toml").exists() else ()
        job = mpirun.start(n, "train", "probe", data, "-o", output, "--checkpoint-every", "0.1", *again)
        pids = job.rank_pids()
        # a rank that is killed before MPI has started is not noticed by MPICH's launcher
        job.until(lambda job=job: f"training {n_labels}" in job.output()[1])
        time.sleep(delay)
        victims = draw.choice(([draw.choice(pids)], pids))
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):  # mpirun was quicker
                os.kill(pid, how)
        result = job.wait()
        kind = f"{how.name} of {'all' if len(victims) == n else 'one'}, {n} rank(s)"
        done[kind, result.returncode] += 1
        if result.returncode == 0:
            break
        if "Traceback" in result.stderr or (result.returncode == 2):
            print(f"round {number + 1}, {kind}: exit code {result.returncode}\n{result.stderr}", file=sys.stderr)
    seconds = time.monotonic() - began
    if not (output / "model.h5").exists():
        train("probe", data, output, resume=True)
    for (kind, code), count in sorted(done.items()):
        yield {"kind": kind, "code": code, "times": count}
    same = result_of(output) == result_of(folder / "undisturbed")
    yield {"rounds": sum(done.values()), "seconds": round(seconds), "bits": "same" if same else "OTHER"}
    if not same:
        raise Failed("an interrupted run has other bits")
