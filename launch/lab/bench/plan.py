"""Plans beside runs: what `hpcml plan` says, and what training then takes.

Plans with `--pilot`, then trains, on --data or else on three corpora of `hpcml convert synthetic text`; no constant was measured on
them. --checks does so with `dual` on the three corpora and `probe` on the first one, on 1 and 2 ranks: the table of
docs/evidence/time-and-memory.md, in some eight minutes. --pilot-table-of FILE.h5 prints the passes of `dual` on all rows of a file,
the table that hpcml/methods/dual/forecast.py assumes without --pilot. Without --machine the machine is measured first (a minute or
two, with the most ranks; --quick: seconds). Nothing else should run beside it.

A line has planned and measured seconds: of the whole command by the clock; of the processor on all ranks; and of training by the
clock; the peak of resident memory of the rank with most (MiB), and the bytes of the model; and planned/measured. On a machine that
is shared only those of the processor tell anything. `refused` is the share of large pages that the system did not give while
training ran: a visit of a value then takes up to half as long again where there are many columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from launch.lab.core.bench import rounded, train
from launch.lab.core.tables import read_json
from launch.lab.core.timing import run_hpcml

SIZES = ((50_000, 200_000, 400), (100_000, 500_000, 400), (300_000, 2_000_000, 200))  # rows, features, labels
RUNS = {
    "dual": (),
    "probe": ("--min-positives", 2000),
    "elastic-net": ("--solver", "fobos", "--passes", 3, "--l1", "1/m"),
    "pa": (),
}
PILOTED = ("dual", "probe")
COMPUTED = ("start", "load", "train", "keep")
CHECKED = {"dual": 3, "probe": 1}  # methods, and the corpora that they are checked on


def large_pages() -> np.ndarray:
    """Return how many large pages the system has given since it started, and refused (2); zeros where it does not tell."""
    with suppress(OSError):
        lines = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
        return np.array([int(lines.get(name, 0)) for name in ("thp_fault_alloc", "thp_fault_fallback")])
    return np.zeros(2, int)


def compared(scratch: Path, machine: Path, ranks: int, data: Path, method: str) -> dict[str, Any]:
    """Return a plan, the training that it is of, and their ratios."""
    options, out, where = RUNS[method], scratch / "plan.json", ("--machine", machine, "--ranks-per-node", ranks)
    pilot = ("--pilot",) if method in PILOTED else ()
    planning = run_hpcml("plan", method, data, *options, *where, *pilot, "--json", out, "--force")
    planned, pages = read_json(out), large_pages()
    trained = train(method, data, scratch / "run", *options, ranks=ranks)
    given, refused = large_pages() - pages
    last = json.loads((scratch / "run" / "environment.jsonl").read_text().splitlines()[-1])
    seconds = {name: planned["seconds"].get(name) or 0.0 for name in COMPUTED}
    pairs = {
        "seconds": (planned["total_seconds"], trained.usage.seconds),
        "processor": (ranks * sum(seconds.values()), trained.usage.cpu_seconds),
        "train": (seconds["train"], trained.seconds),
        "MiB": (planned["rank_bytes"] / 2**20, max(last["peak_mib"])),
        "model_bytes": (planned["model_bytes"], trained.model.stat().st_size),
    }
    line = {"size": f"{planned['rows']:,} × {planned['features']:,}, {planned['labels']:,}", "method": method, "ranks": ranks}
    for name, (plan, measured) in pairs.items():
        plan = plan or math.nan
        line[name] = rounded(4, planned=float(plan), measured=float(measured), ratio=plan / measured)
    return line | rounded(3, refused=float(refused / max(1, given + refused)), seconds_of_plan=planning.cpu_seconds)


def pilot_table(data: Path) -> Iterator[dict[str, Any]]:
    """Yield what a pilot of `dual` finds on all rows of a file."""
    from hpcml.methods.dual.options import DualOptions
    from hpcml.methods.registry import method_named
    from hpcml.planning.measure import processor_seconds
    from hpcml.planning.sizes import read_samples

    options, method = DualOptions(), method_named("dual")
    *_, rows = read_samples(data, options, 1 << 60)
    work = method.load(method.forecast).pilot([rows], options, processor_seconds)
    for line in work.table:
        yield {"rows": rows.n_global, "table": [float(f"{value:.3g}") for value in line]}


def run(
    scratch: Path,
    *,
    machine: Path | None = None,
    ranks: tuple[int, ...] = (1,),
    data: tuple[Path, ...] = (),
    method: tuple[Literal["dual", "probe", "elastic-net", "pa"], ...] = tuple(RUNS),
    checks: bool = False,
    quick: bool = False,
    pilot_table_of: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a line for every comparison."""
    if pilot_table_of:
        yield from pilot_table(pilot_table_of)
        return
    ranks, method = ((1, 2), tuple(CHECKED)) if checks else (ranks, method)
    if machine is None:
        machine = scratch / "machine.json"
        run_hpcml("bench", "machine", "-o", machine, "--folder", scratch, *["--quick"] * quick, ranks=max(ranks))
    for number, path in enumerate(data or SIZES):
        if not data:
            sizes = [word for pair in zip(("--rows", "--features", "--labels"), path, strict=True) for word in pair]
            path = scratch / "corpus.h5"
            run_hpcml("convert", "synthetic", "text", *sizes, "-o", path, "--force")
        for name in method:
            for n in () if checks and number >= CHECKED[name] else ranks:
                yield compared(scratch, machine, n, path, name)
