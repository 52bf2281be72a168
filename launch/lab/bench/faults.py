"""The outcome of a run that something befalls: the table of tests/support/faults.py, measured; a line for each fault.

usage: python -m launch.lab bench faults [-k PART_OF_A_NAME] [--memory] [--commands] [--rounds N [--seed 0]]

--commands: every command stopped in every phase (tests/support/interrupts.py), with the seconds to its end and the number of files
left. --memory: rank 1 with less and less memory, instead of the table. --rounds: one run that is preempted N times (SIGTERM,
SIGUSR1 or kill -9, of one rank or all, at a random moment, on one to three ranks) and resumed each time; it must end with the same
bits.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch.lab.core.bench import ROOT, Failed

sys.path[:0] = [str(ROOT / "tests" / "jobs"), str(ROOT / "tests")]

import pytest  # noqa: E402
from conftest import Mpirun  # noqa: E402  (of tests/jobs)
from support import faults as table  # noqa: E402
from support import interrupts  # noqa: E402
from support.make import dataset, random_data  # noqa: E402

from hpcml import train  # noqa: E402

MEMORY = (0, 1, 2, 5, 10, 20, 50, 100, 200, 400)  # MiB besides what the libraries take
LABELS = 600  # of --rounds: more than so many rounds can train
HOW = (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL)
BITS = {None: "no model", True: "same", False: "OTHER"}


def message(stderr: str) -> str:
    """Return our message, or else the last of all."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("hpcml: ")), lines[-1] if lines else "")


def walk(faults: list[table.Fault], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the outcome of every fault."""
    mpirun, samples = Mpirun(folder), table.make_samples(folder, {method for fault in faults for method in fault.methods})
    for fault, method in [(each, method) for each in faults for method in each.methods]:
        case, line = table.Case(mpirun, method, *samples[method], Path(tempfile.mkdtemp(dir=folder))), {"fault": fault.name}
        with case.stack:
            try:
                result = fault.inject(case)
                if fault.resumes:
                    case.resume(fault.ranks)
            except (pytest.skip.Exception, pytest.fail.Exception) as reason:  # no mount; a job that does not end
                yield line | {"method": method, "message": f"{type(reason).__name__}: {reason}"}
                continue
            line |= {"method": method, "code": result.returncode, "bits": BITS[case.same]}
            line |= {"seconds": round(case.ended - case.struck, 2)} if case.struck else {}
            yield line | {"message": message(result.stderr).replace(f"{case.folder}/", "")}


def interrupt_all(word: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield how every command with this word in its name ends in every phase at every signal."""
    mpirun, samples, bad = Mpirun(folder), folder / "samples", 0
    samples.mkdir()
    interrupts.make_samples(samples)
    for name in (name for name in interrupts.COMMANDS if word in name):
        for phase in (*interrupts.phases_of(name), "compile"):
            for how in interrupts.SIGNALS:
                if phase == "end" or (name in interrupts.ALONE and "rank 1" in how) or (phase == "start" and "rank 1" in how):
                    continue
                line = {"command": name, "phase": phase, "how": how}
                try:
                    outcome = interrupts.interrupt(mpirun, samples, Path(tempfile.mkdtemp(dir=folder)), name, phase, how)
                    wrong = interrupts.problems(outcome, name, phase, how)
                    line |= {"code": outcome.code, "seconds": round(outcome.seconds, 2), "left": len(outcome.left)}
                except interrupts.NotReached:  # it compiles nothing
                    continue
                except pytest.fail.Exception as reason:
                    wrong = [str(reason)]
                bad += bool(wrong)
                yield line | {"wrong": wrong}
    if bad:
        raise Failed(f"{bad} commands ended otherwise than they should")


def preempt(rounds: int, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Preempt and resume one run, which must end with the bits of one that nothing befell."""
    draw, mpirun, run = random.Random(seed), Mpirun(folder), folder / "run"
    data = dataset(folder / "data.h5", *random_data(7, 4000, 1000, LABELS, density=0.05))
    train("probe", data, folder / "undisturbed")
    done, began = Counter(), time.monotonic()
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
            print(f"round {number + 1}, {kind}: exit code {result.returncode}\n{result.stderr}", file=sys.stderr)
    seconds = time.monotonic() - began
    if not (run / "model.h5").exists():
        train("probe", data, run, resume=True)
    for (kind, code), count in sorted(done.items()):
        yield {"kind": kind, "code": code, "times": count}
    same = table.result_of(run) == table.result_of(folder / "undisturbed")
    yield {"rounds": sum(done.values()), "seconds": round(seconds), "bits": BITS[same]}
    if not same:
        raise Failed("a run that was preempted has other bits")


def run(
    scratch: Path, *, k: str = "", memory: bool = False, commands: bool = False, rounds: int = 0, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of all faults, commands or rounds."""
    if rounds:
        return preempt(rounds, seed, scratch)
    if commands:
        return interrupt_all(k, scratch)
    if memory:
        limits = [(f"{size} MiB", table.little_memory(size, wide=False)) for size in MEMORY]
        return walk([table.Fault(name, inject, 2, methods=("probe", "psbml")) for name, inject in limits], scratch)
    return walk([fault for fault in table.FAULTS if k in fault.name], scratch)
