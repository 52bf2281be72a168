"""Quality and cost of `hpcml tune`: measures of test rows, and seconds, beside `hpcml train dual` by default.

Ways: `train dual`; `tune` with one setting (thresholds alone), by default, and with --one. `lost` names the measures that are worse
than by the defaults by more than 0.002 (P@k and nDCG: 0.005): F1 beside the thresholds alone, all else beside `train dual`. Seconds
are those of a command less those of one that trains one label, so without loading. Prints JSON lines.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.bench._common import parser_of, read_rows
from launch.lab.core.timing import Usage, print_json, run_hpcml

ALONE = "tune, one setting"
WAYS: dict[str, tuple[object, ...]] = {
    "train dual": ("train", "dual"),
    ALONE: ("tune", "--lambdas", 1, "--weights", 1),
    "tune": ("tune",),
    "tune --one": ("tune", "--one"),
}
OF_ROWS, OF_THRESHOLDS = ("p1", "p3", "p5", "ndcg5"), ("macro_f1", "micro_f1")


def compare(data: Path, given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Return the measures and seconds of every way of training."""
    rows = read_rows(data)
    frequent = rows.names[int(np.argmax(rows.Y.sum(axis=0)))]

    def run(way: str, *more: object) -> Usage:
        command, *options = WAYS[way]
        words = [command, *([options.pop(0)] if command == "train" else []), data, "-o", folder / "run", "--force"]
        return run_hpcml(*words, "--min-positives", given.min_positives, "--seed", given.seed, *options, *more, ranks=given.ranks)

    run("tune", "--label", frequent)  # compiles
    loading = run("train dual", "--label", frequent)
    once, defaults = loading, dict[str, Any]()
    for way in WAYS:
        used = run(way)
        wall, cpu = (max(0.001, after - before) for after, before in zip(used[:2], loading[:2], strict=True))
        once = Usage(wall, cpu, 0) if way == "train dual" else once
        model = folder / "run" / "model.h5"
        trained = range(hpcml.open_model(model).n_labels)  # rarer labels are not judged
        judged = hpcml.evaluate(model, data, split="test", labels=trained)
        line: dict[str, Any] = {"data": data.stem, "ranks": given.ranks, "way": way, "labels": len(trained)}
        line |= {f"p{k}": value for k, value in judged.precision_at.items()} | {"ndcg5": judged.ndcg_at.get(5)}
        line |= {"micro_ap": judged.micro["average_precision"], "map": judged.macro("average_precision")}
        line |= {"macro_f1": judged.macro("f1"), "micro_f1": judged.micro["f1"]}
        defaults |= line if way == "train dual" else {name: line[name] for name in OF_THRESHOLDS if way == ALONE}
        line |= {"lost": worse(line, defaults), "wall_s": wall, "cpu_s": cpu}
        line |= {"ratio_wall": wall / once.seconds, "ratio_cpu": cpu / once.cpu_seconds}
        yield {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in line.items()}


def worse(line: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    """Return the measures that are worse than by the defaults by more than a split may do by chance."""
    allowed = {name: 0.005 if name in OF_ROWS else 0.002 for name in (*OF_ROWS, "micro_ap", "map", *OF_THRESHOLDS)}
    return [name for name, most in allowed.items() if line.get(name) is not None and line[name] < defaults[name] - most]


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("tune", __doc__)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        for data in given.data:
            for line in compare(data, given, Path(folder)):
                print_json(**line)
