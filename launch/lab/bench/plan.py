"""Compare the plans of `hpcml plan` with the resources that training uses.

Plans, then trains: every method on --data, or else on a corpus of `hpcml convert synthetic text` (psbml and adaboost: on points in
the plane). --large takes larger corpora for `dual`. Nothing else should run on the machine.

A line has planned and measured seconds: of the whole command by the clock, of the processor on all ranks, and of training by the
clock; the peak of resident memory of the rank with most (MiB): by the plan, and by its formulas alone; the bytes of the model; and
planned/measured. On a shared machine only CPU seconds are meaningful.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch.lab.core.bench import rounded, train
from launch.lab.core.tables import read_json
from launch.lab.core.timing import run_hpcml

TEXT = (50_000, 200_000, 400)  # rows, features, labels
LARGER = ((100_000, 500_000, 400), (300_000, 2_000_000, 200))
POINTS = 20_000
FREQUENT = ("--min-positives", 2000)
RUNS: dict[str, tuple[object, ...]] = {  # options, with which a training takes a minute at most
    "dual": (),
    "probe": FREQUENT,
    "pegasos": (*FREQUENT, "--max-steps", 100),
    "svmperf": FREQUENT,
    "liblinear": (),
    "elastic-net": (),
    "elastic-net fobos": ("--solver", "fobos", "--passes", 3, "--l1", "1/m"),
    "bernoulli-nb": (),
    "boosted-bayes": (),
    "staged-bayes": (),
    "staged-svm": (),
    **dict.fromkeys(("mbw", "pa", "bw", "pw", "perceptron", "romma"), ()),
    "psbml": (),
    "adaboost": ("--rounds", 50),
}
OF_POINTS = ("psbml", "adaboost")


def compared(scratch: Path, ranks: int, data: Path, name: str) -> dict[str, Any]:
    """Return a plan, the measurements of its training, and their ratios."""
    method, out = name.split()[0], scratch / "plan.json"
    planning = run_hpcml("plan", method, data, *RUNS[name], "--json", out, "--force", ranks=ranks)
    planned = read_json(out)
    trained = train(method, data, scratch / "run", *RUNS[name], ranks=ranks)
    last = json.loads((scratch / "run" / "environment.jsonl").read_text().splitlines()[-1])
    peak, phases = max(last["peak_mib"]), planned["seconds"]
    pairs = {
        "seconds": (planned["total_seconds"], trained.usage.seconds),
        "cpu": (ranks * (planned["total_seconds"] - phases.get("force it to the disk", 0.0)), trained.usage.cpu_seconds),
        "train": (phases["train"], trained.seconds),
        "MiB": (planned["rank_bytes"] / 2**20, peak),
        "MiB_by_formulas": ((sum(planned["own_bytes"].values()) + planned["shared_bytes"]) / 2**20, peak),
        "model_bytes": (planned["model_bytes"], trained.model.stat().st_size),
    }
    line = {"size": f"{planned['rows']:,} × {planned['features']:,}, {planned['labels']:,}", "method": name, "ranks": ranks}
    for what, (plan, measured) in pairs.items():
        line[what] = rounded(4, planned=float(plan), measured=float(measured), ratio=plan / measured)
    return line | rounded(3, seconds_of_plan=planning.seconds)


def run(
    scratch: Path,
    *,
    ranks: tuple[int, ...] = (1,),
    data: tuple[Path, ...] = (),
    method: tuple[str, ...] = tuple(RUNS),
    large: bool = False,
) -> Iterator[dict[str, Any]]:
    if data:
        yield from (compared(scratch, n, path, name) for path in data for name in method for n in ranks)
        return
    path = scratch / "corpus.h5"
    for number, size in enumerate((TEXT, *LARGER) if large else (TEXT,)):
        words = [word for pair in zip(("--rows", "--features", "--labels"), size, strict=True) for word in pair]
        run_hpcml("convert", "synthetic", "text", *words, "-o", path, "--force")
        names = [name for name in method if name not in OF_POINTS and (number == 0 or name == "dual")]
        yield from (compared(scratch, n, path, name) for name in names for n in ranks)
    run_hpcml("convert", "synthetic", "checkerboard", "--rows", POINTS, "-o", path, "--force")
    yield from (compared(scratch, n, path, name) for name in method if name in OF_POINTS for n in ranks)
