"""Plans beside runs: what `hpcml plan` says, and what training then takes; and how labels are labels_of_group to many ranks.

usage: python -m launch.lab bench plan [--machine FILE] [--ranks N...] [--data FILE.h5...] [--method METHOD...]
       python -m launch.lab bench plan [--machine FILE] --checks
       python -m launch.lab bench plan [--machine FILE] --simulate FILE.h5...
       python -m launch.lab bench plan [--machine FILE] --medline
       python -m launch.lab bench plan --table FILE.h5

The first one plans, then trains. --checks does so with `dual` on three corpora and `probe` on the first one, on 1 and 2 ranks, and
prints the table of docs/evidence/time-and-memory.md. --simulate deals labels to 16, 64 and 256 ranks, without training.
--medline prints the table of docs/notebook.md. --table prints the passes of `dual` that hpcml/methods/dual/forecast.py assumes
without --pilot.

Prints JSON lines, or the table. Without --machine it measures the machine first (a minute or two, with the most ranks), without
--data it makes three corpora with `hpcml convert synthetic text`; no constant was measured on them. Nothing else should run beside
it. --checks takes some eight minutes.

A line of a comparison has planned and measured seconds: of the whole command by the clock; of the processor on all ranks; and of
training by the clock; the peak of resident memory of the rank with most (MiB), and the bytes of the model; and planned/measured. On
a machine that is shared only those of the processor tell anything. `refused` is the share of large pages that the system did not
give while training ran: a visit of a value then takes up to half as long again where there are many columns.

A line of a simulation has, for ranks in groups × shards, the labels of the largest and the smallest hand and how many rows these
have, and the seconds of the slowest group beside the mean (1: balance).
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.forecast import Cluster, Machine, Sizes
from hpcml.methods.linear.layout import labels_of_group
from hpcml.methods.registry import method_named
from hpcml.planning.machine import read_machine
from hpcml.planning.measure import processor_seconds
from hpcml.planning.plan import Plan
from hpcml.planning.report import duration, size
from hpcml.planning.sizes import read_samples, sizes_from, sizes_of
from launch.lab.bench._common import parser_of

TOP = Path(__file__).resolve().parents[3]
SIZES = ((50_000, 200_000, 400), (100_000, 500_000, 400), (300_000, 2_000_000, 200))  # rows, features, labels
RUNS = {
    "dual": (),
    "probe": ("--min-positives", "2000"),
    "elastic-net": ("--solver", "fobos", "--passes", "3", "--l1", "1/m"),
    "pa": (),
}
COMPUTED = ("start", "load", "train", "keep")
TRAINED = re.compile(r" in ([0-9.e+]+) s[,:]")
PILOTED = ("dual", "probe")
HEAD = (
    "| rows × features, labels | method | ranks | measured, s | planned/measured time | of the processor | planned/measured memory "
    "| large pages refused |\n|---|---|---|---|---|---|---|---|"
)
CHECKED = {"dual": 3, "probe": 1}  # methods, and the corpora that they are checked on
ROUNDS = ((16, 1), (16, 4), (64, 1), (64, 16), (256, 1), (256, 16))  # ranks, shards
MEDLINE = (13_004_182, 66_208_706, 25_000, 66.0)  # rows, features, labels, values a row
PLANNED = (("dual", 1, 1), ("dual", 16, 1), ("dual", 256, 1), ("probe", 1, 1), ("probe", 16, 16), ("probe", 256, 16))
NETWORK = (2e-6, 12e9)  # latency in seconds, bytes a second
PLENTY = 10**15  # bytes of a node: memory is not what is simulated


def command(ranks: int, *words: object) -> list[str]:
    """`hpcml` on some ranks."""
    start = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return [*start, sys.executable, "-m", "hpcml", *map(str, words)]


def processor() -> float:
    """Seconds that the commands have computed so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(ranks: int, *words: object) -> tuple[str, float, float]:
    """What a command printed, and its seconds by the clock and of the processor; ends the script if it fails."""
    more = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    if ranks > len(os.sched_getaffinity(0)):
        more["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"
    began, before = time.perf_counter(), processor()
    done = subprocess.run(command(ranks, *words), env=os.environ | more, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"hpcml {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr, time.perf_counter() - began, processor() - before


def beside(folder: Path, machine: Path, ranks: int, data: Path, method: str, *options: str) -> dict[str, Any]:
    """A plan, the training that it is of, and their ratios."""
    pilot = ["--pilot"] if method in PILOTED else []
    where = ("--machine", machine, "--ranks-per-node", ranks, "--json", folder / "plan.json", "--force")
    _, _, seconds_of_plan = run(1, "plan", method, data, *options, *where, *pilot)
    planned = json.loads((folder / "plan.json").read_text())
    shutil.rmtree(folder / "run", ignore_errors=True)
    pages = large_pages()
    said, seconds, computed = run(ranks, "train", method, data, "-o", folder / "run", *options)
    given, refused = large_pages() - pages
    trained = TRAINED.search(said) or sys.exit(f"no time of training in: {said}")
    last = json.loads((folder / "run" / "environment.jsonl").read_text().splitlines()[-1])
    model = (folder / "run" / "model.h5").stat().st_size
    found = {
        "seconds": (planned["total_seconds"] or math.nan, seconds),
        "processor": (ranks * sum(planned["seconds"].get(name, 0.0) or 0.0 for name in COMPUTED), computed),
        "train": (sum(planned["seconds"].get(name, 0.0) or math.nan for name in COMPUTED[2:3]), float(trained[1])),
        "MiB": (planned["rank_bytes"] / 2**20, max(last["peak_mib"])),
        "model_bytes": (planned["model_bytes"], model),
    }
    line: dict[str, Any] = {"bench": "plan", "method": " ".join((method, *options)), "rows": planned["rows"], "ranks": ranks}
    line["size"] = f"{planned['rows']:,} × {planned['features']:,}, {planned['labels']:,}"
    for name, (plan, measured) in found.items():
        line[name] = {"planned": round(plan, 2), "measured": round(measured, 2), "ratio": round(plan / measured, 3)}
    return line | {"refused": round(refused / max(1, given + refused), 3), "seconds_of_plan": round(seconds_of_plan, 1)}


def markdown(line: dict[str, Any]) -> str:
    """A comparison as a line of the table in docs/evidence/time-and-memory.md: planned/measured."""
    ratios = (f"{line[name]['ratio']:.2f}" for name in ("seconds", "processor", "MiB"))
    what = (line["size"], f"`{line['method'].split()[0]}`", str(line["ranks"]), f"{line['seconds']['measured']:.1f}", *ratios)
    return f"| {' | '.join(what)} | {line['refused']:.0%} |"


def large_pages() -> np.ndarray:
    """How many large pages the system has given since it started, and refused (2); zeros where it does not tell."""
    with suppress(OSError):
        lines = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
        return np.array([int(lines.get(name, 0)) for name in ("thp_fault_alloc", "thp_fault_fallback")])
    return np.zeros(2, int)


def corpora(folder: Path) -> Iterator[Path]:
    """A file of each size, one after the other."""
    for n_rows, n_features, n_labels in SIZES:
        sizes = ("--rows", n_rows, "--features", n_features, "--labels", n_labels)
        run(1, "convert", "synthetic", "text", *sizes, "-o", folder / "corpus.h5", "--force")
        yield folder / "corpus.h5"


def medline(machine: Path) -> None:
    """Print plans for rows of the size of MEDLINE, as the PROBE paper had it, on nodes with one rank each."""
    print("| method | nodes | groups × shards | memory of a node | sent by each rank | training | model written | node-hours |")
    print("|---|---|---|---|---|---|---|---|")
    sizes = sizes_from(*MEDLINE)
    for name, nodes, shards in PLANNED:
        method, constants = method_named(name), read_machine(machine)
        options = method.options(ranks_per_group=shards if shards > 1 else None)
        cluster = Cluster(nodes, 1, 64 * 10**9, *NETWORK)
        plan = Plan(
            name, None, sizes, cluster, constants, method.load(method.forecast).forecast(sizes, cluster, options, constants, None)
        )
        spent = plan.forecast.seconds
        written, hours = spent["write the model"], f"{plan.seconds * nodes / 3600:.0f}"
        sent_bytes = size(plan.forecast.sent_bytes) if plan.forecast.sent_bytes else "–"
        figures = (size(plan.node_bytes), sent_bytes, duration(plan.seconds - written), duration(written), hours)
        print("|", " | ".join((f"`{name}`", str(nodes), f"{nodes // shards} × {shards}", *figures)), "|")


def simulated(sizes: Sizes, machine: Machine, ranks: int, shards: int) -> dict[str, Any]:
    """How the labels are labels_of_group, and how long the groups take: those of the real dealing and the forecast of `dual`."""
    forecaster = method_named("dual").load(method_named("dual").forecast)
    cluster = Cluster(ranks, 1, PLENTY, 2e-6, 10e9)
    options = DualOptions(ranks_per_group=shards if shards > 1 else None)
    trained = np.flatnonzero((sizes.n_positive > 0) & (sizes.n_positive < sizes.n_rows))
    hands = [labels_of_group(trained, sizes.n_positive, group, ranks // shards) for group in range(ranks // shards)]
    alone = Cluster(shards, 1, PLENTY, 2e-6, 10e9)
    each = []
    for hand in hands:
        some = replace(sizes, n_positive=sizes.n_positive[hand])
        each.append(forecaster.forecast(some, alone, options, machine, None).seconds["train"])
    whole = forecaster.forecast(sizes, cluster, options, machine, None)
    return {
        "bench": "plan",
        "simulated": "dual",
        "rows": sizes.n_rows,
        "labels": int(trained.size),
        "ranks": ranks,
        "groups": ranks // shards,
        "shards": shards,
        "labels_of_a_group": [min(hand.size for hand in hands), max(hand.size for hand in hands)],
        "positives_of_a_group": [int(pick(sizes.n_positive[hand].sum() for hand in hands)) for pick in (min, max)],
        "slowest_to_mean": round(max(each) / float(np.mean(each)), 3),
        "seconds": {name: round(value, 4) for name, value in whole.seconds.items()},
        "rank_bytes": sum(whole.own_bytes.values()) + whole.shared_bytes,
    }


def table(file: Path) -> None:
    """Print what a pilot of `dual` finds on all rows of a file."""
    options = DualOptions()
    *_, rows = read_samples(file, options, 1 << 60)
    work = method_named("dual").load(method_named("dual").forecast).pilot([rows], options, processor_seconds)
    for line in work.table:
        print(json.dumps({"bench": "plan", "rows": rows.n_global, "table": [float(f"{value:.3g}") for value in line]}))


def simulate(machine: Path, files: list[Path]) -> None:
    """Print a line for every file and number of ranks."""
    constants = read_machine(machine)
    for file in files:
        sizes, _ = sizes_of(mpi.self_comm(), file, DualOptions(split="all"))
        for ranks, shards in ROUNDS:
            print(json.dumps({"data": file.name} | simulated(sizes, constants, ranks, shards)), flush=True)


def main(words: list[str]) -> None:
    """Take the command line."""
    parser = parser_of("plan", __doc__)
    parser.add_argument("--machine", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1])
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--method", nargs="+", default=list(RUNS), choices=RUNS)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--medline", action="store_true")
    parser.add_argument("--simulate", type=Path, nargs="+", default=[])
    given = parser.parse_args(words)
    if given.checks:
        given.ranks, given.method = [1, 2], list(CHECKED)
    if given.table is not None:
        table(given.table)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        machine = given.machine or folder / "machine.json"
        if given.machine is None:
            quick = ["--quick"] if given.quick else []
            run(max(given.ranks), "bench", "machine", "-o", machine, "--folder", folder, *quick)
        if given.medline:
            medline(machine)
        elif given.simulate:
            simulate(machine, given.simulate)
        else:
            if given.checks:
                print(HEAD)
            for number, data in enumerate(given.data or corpora(folder)):
                for method, ranks in product(given.method, given.ranks):
                    if given.checks and number >= CHECKED[method]:
                        continue
                    line = beside(folder, machine, ranks, data, method, *RUNS[method])
                    print(markdown(line) if given.checks else json.dumps(line), flush=True)
