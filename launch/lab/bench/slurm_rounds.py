"""One training by `hpcml job --requeue` that is disturbed again and again on a private Slurm: preempted by another job, signalled,
its node set DOWN. Does it end with the bits of an undisturbed run?"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from launch.lab.core.bench import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from support.make import dataset, random_data
from support.private_slurm import hpcml, node_down, preempt, private_slurm, signal

DISTURBANCES = (preempt, signal, node_down)


def run(scratch: Path, *, rounds: int = 100, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield one line."""
    draw = random.Random(seed)
    with private_slurm(scratch) as slurm:
        X, Y = random_data(seed, 8000, 600, 60 * rounds, density=0.05)  # a round trains some 40 of the labels
        data = dataset(scratch / "data.h5", X, Y)
        options = ("--no-dormant", "--checkpoint-every", "0.3")
        hpcml("train", "probe", data, "-o", scratch / "undisturbed", *options, limit=3600)
        begin, kinds = time.monotonic(), Counter()
        words = ("train", "probe", data, "-o", scratch / "run", *options, "--nodes", "2", "--requeue", "--directive=--exclusive")
        job = slurm.submit_script(slurm.script(*words).replace("starts < 20", f"starts < {2 * rounds}"))
        starts, checkpoints = scratch / "run" / "environment.jsonl", scratch / "run" / "checkpoint"

        def started(times: int) -> bool:
            return starts.exists() and len(starts.read_text().splitlines()) > times

        def wrote(known: set[Path]) -> bool:
            return not known.issuperset(checkpoints.glob("state-*.h5"))

        for done in range(rounds):
            slurm.until(job, partial(started, done), f"start {done + 1}")
            slurm.until(job, partial(wrote, set(checkpoints.glob("state-*.h5"))), "new checkpoint")
            disturb = draw.choice(DISTURBANCES)
            disturb(slurm, job)
            slurm.until(job, lambda: slurm.states(job) != ["RUNNING"], "end of a start")
            kinds[disturb.__name__] += 1
        codes = slurm.end_of(job, limit=3600)
        same = (scratch / "run" / "model.h5").read_bytes() == (scratch / "undisturbed" / "model.h5").read_bytes()
        resumed, seconds = slurm.printed(job).count("resuming from"), round(time.monotonic() - begin)
        yield {"rounds": kinds, "resumed": resumed, "exit_code": codes, "same_bits": same, "seconds": seconds}
