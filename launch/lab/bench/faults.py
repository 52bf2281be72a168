"""What becomes of a run that something befalls: the table of tests/support/faults.py, measured. Prints a line for each fault.

usage: python -m launch.lab bench faults [-k PART_OF_A_NAME] [--memory] [--commands] [--rounds N [--seed 0]]

--commands: every command stopped in every phase (tests/support/interrupts.py), with the seconds to its end and what is left.
--memory: rank 1 with less and less memory, instead of the table. --rounds: one run that is preempted N times (SIGTERM, SIGUSR1 or
kill -9, of one rank or all, at a random moment, on one to three ranks) and resumed each time; it must end with the same bits.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "jobs"), str(ROOT / "tests")]

import pytest  # noqa: E402
from conftest import Mpirun  # noqa: E402  (of tests/jobs)
from support import faults as table  # noqa: E402
from support import interrupts  # noqa: E402
from support.make import dataset, random_data  # noqa: E402

from hpcml import train  # noqa: E402
from launch.lab.bench._common import parser_of  # noqa: E402

MEMORY = (0, 1, 2, 5, 10, 20, 50, 100, 200, 400)  # MiB besides what the libraries take
LABELS = 600  # of --rounds: more than so many rounds can train
HOW = (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL)


def sentence(stderr: str) -> str:
    """What we said, or else the last that anybody said."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("hpcml: ")), lines[-1] if lines else "")


def walk(faults: list[table.Fault], folder: Path) -> None:
    """Print the outcome of every fault."""
    mpirun, samples = Mpirun(folder), table.make_samples(folder, {method for fault in faults for method in fault.methods})
    for fault in faults:
        for method in fault.methods:
            case = table.Case(mpirun, method, *samples[method], Path(tempfile.mkdtemp(dir=folder)))
            with case.stack:
                try:
                    result = fault.inject(case)
                    if fault.resumes:
                        case.resume(fault.ranks)
                except (pytest.skip.Exception, pytest.fail.Exception) as reason:  # no mount; a job that does not end
                    print(f"{fault.name} ({method}): {type(reason).__name__}: {reason}", flush=True)
                    continue
                same = {None: "no model", True: "same bits", False: "OTHER BITS"}[case.same]
                took = f"{case.ended - case.struck:.2f} s" if case.struck else "-"
                said = sentence(result.stderr).replace(f"{case.folder}/", "")
                print(f"{fault.name} ({method}): exit code {result.returncode}, {took}, {same}; {said}", flush=True)


def interrupt_all(word: str, folder: Path) -> bool:
    """Print how every command with this word in its name ends in every phase at every signal; whether all is as it should be."""
    mpirun, samples = Mpirun(folder), folder / "samples"
    samples.mkdir()
    interrupts.make_samples(samples)
    good, slowest = True, collections.defaultdict(float)
    for name in (name for name in interrupts.COMMANDS if word in name):
        for phase in (*interrupts.phases_of(name), "compile"):
            for how in interrupts.SIGNALS:
                if phase == "end" or (name in interrupts.ALONE and "rank 1" in how) or (phase == "start" and "rank 1" in how):
                    continue
                try:
                    outcome = interrupts.interrupt(mpirun, samples, Path(tempfile.mkdtemp(dir=folder)), name, phase, how)
                except interrupts.NotReached:  # it compiles nothing
                    continue
                except pytest.fail.Exception as reason:
                    good = False
                    print(f"{name}, {phase}, {how}: {reason}", flush=True)
                    continue
                wrong = interrupts.problems(outcome, name, phase, how)
                good, slowest[name] = good and not wrong, max(slowest[name], outcome.seconds)
                end = f"exit code {outcome.code}, {outcome.seconds:.2f} s, left: {len(outcome.left)}"
                print(f"{name}, {phase}, {how}: {end}{''.join(f'; {what}' for what in wrong)}", flush=True)
    for name, seconds in slowest.items():
        print(f"{name:20} at most {seconds:5.2f} s")
    return good


def preempt(rounds: int, seed: int, folder: Path) -> bool:
    """Preempt and resume one run; whether it ends with the bits of one that nothing befell."""
    draw, mpirun, run = random.Random(seed), Mpirun(folder), folder / "run"
    data = dataset(folder / "data.h5", *random_data(7, 4000, 1000, LABELS, density=0.05))
    train("probe", data, folder / "undisturbed")
    done, began = collections.Counter(), time.monotonic()
    for number in range(rounds):
        n, how, delay = draw.choice((1, 2, 3)), draw.choice(HOW), draw.uniform(0.0, 1.0)
        again = ("--resume",) if (run / "config.toml").exists() else ()
        job = mpirun.start(n, "train", "probe", data, "-o", run, "--checkpoint-every", "0.1", *again)
        pids = job.rank_pids()
        if draw.random() < 0.75:  # else while it starts
            job.until(lambda job=job: f"training {LABELS}" in job.output()[1])
        time.sleep(delay)
        victims = draw.choice(([draw.choice(pids)], pids))
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):  # mpirun was quicker
                os.kill(pid, how)
        result = job.wait(60)
        kind = f"{how.name} of {'all' if len(victims) == n else 'one'}, {n} rank(s)"
        done[kind, result.returncode] += 1
        if result.returncode == 0:
            break
        if "Traceback" in result.stderr or (result.returncode == 2):
            print(f"round {number + 1}, {kind}: exit code {result.returncode}\n{result.stderr}", flush=True)
    seconds = time.monotonic() - began
    if not (run / "model.h5").exists():
        train("probe", data, run, resume=True)
    for (kind, code), count in sorted(done.items()):
        print(f"{count:4d} x {kind}: exit code {code}")
    same = table.result_of(run) == table.result_of(folder / "undisturbed")
    print(f"{sum(done.values())} rounds in {seconds:.0f} s: {'the same bits' if same else 'OTHER BITS'}")
    return same


def main(words: list[str]) -> None:
    """Parse the options and run."""
    parser = parser_of("faults", __doc__)
    parser.add_argument("-k", default="", help="only faults with this in their name")
    parser.add_argument("--memory", action="store_true", help="sweep of memory limits")
    parser.add_argument("--commands", action="store_true", help="every command, stopped in every phase")
    parser.add_argument("--rounds", type=int, default=0, help="preempt one run so often")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        if given.rounds:
            sys.exit(not preempt(given.rounds, given.seed, Path(folder)))
        if given.commands:
            sys.exit(not interrupt_all(given.k, Path(folder)))
        faults = [fault for fault in table.FAULTS if given.k in fault.name]
        if given.memory:
            limits = [(f"{size} MiB", table.little_memory(size, wide=False)) for size in MEMORY]
            faults = [table.Fault(name, inject, 2, methods=("probe", "psbml")) for name, inject in limits]
        walk(faults, Path(folder))
