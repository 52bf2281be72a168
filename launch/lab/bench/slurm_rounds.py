"""One training by slurm/run.sbatch that is disturbed again and again on a private Slurm: preempted by another job, signalled, its
node set DOWN, a rank or its slurmstepd killed, or both. Does it end with the bits of an undisturbed run? Prints one JSON line.
"""

import json
import random
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from support.make import dataset, random_data
from support.private_slurm import (
    hpcml,
    kill_both,
    kill_rank,
    kill_slurmstepd,
    node_down,
    preempt,
    private_slurm,
    signal,
    signal_script,
)

from launch.lab.bench._common import parser_of

DISTURBANCES = (preempt, signal, signal_script, node_down, kill_rank, kill_slurmstepd, kill_both)


def disturb_run(rounds: int, seed: int) -> None:
    """Run the rounds."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, private_slurm(Path(name)) as slurm:
        folder = Path(name)
        X, Y = random_data(seed, 8000, 600, 60 * rounds, density=0.05)  # a round trains some 40 of the labels
        data = dataset(folder / "data.h5", X, Y)
        options = ("--no-dormant", "--checkpoint-every", "0.3")
        hpcml("train", "probe", data, "-o", folder / "undisturbed", *options, limit=3600)
        begin, kinds = time.monotonic(), Counter()
        script = slurm.script("run.sbatch", LINGER=10, CHECK_STEP=2, MAX_FAILURES=rounds)
        command = (script, "train", "probe", data, "-o", folder / "run", *options)
        job = slurm.submit(*command, options=("--nodes=2", "--exclusive"))
        starts, checkpoints = folder / "run" / "environment.jsonl", folder / "run" / "checkpoint"

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
        same = (folder / "run" / "model.h5").read_bytes() == (folder / "undisturbed" / "model.h5").read_bytes()
        resumed, seconds = slurm.printed(job).count("resuming from"), round(time.monotonic() - begin)
        print(json.dumps({"rounds": kinds, "resumed": resumed, "exit_code": codes, "same_bits": same, "seconds": seconds}))


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("slurm_rounds", __doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    disturb_run(given.rounds, given.seed)
