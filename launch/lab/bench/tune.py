"""Compare quality and cost of `hpcml tune` with `hpcml train dual` with its defaults.

Ways: `train dual`; `tune` with one setting (thresholds alone), by default, and with --one. `lost` names the measures that are worse
than by the defaults by more than 0.002 (P@k and nDCG: 0.005): F1 is compared with the thresholds alone, all else with `train dual`.
Seconds are those of a command less those of one that trains one label, so without loading.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.bench import read_rows, rounded
from launch.lab.core.timing import Usage, run_hpcml

ALONE = "tune, one setting"
WAYS: dict[str, tuple[object, ...]] = {
    "train dual": (),
    ALONE: ("--lambdas", 1, "--weights", 1),
    "tune": (),
    "tune --one": ("--one",),
}
OF_ROWS, OF_THRESHOLDS = ("p1", "p3", "p5", "ndcg5"), ("macro_f1", "micro_f1")
ALLOWED = dict.fromkeys(OF_ROWS, 0.005) | dict.fromkeys(("micro_ap", "map", *OF_THRESHOLDS), 0.002)  # what a split may do by chance


def measures(model: Path, data: Path) -> dict[str, float]:
    judged = hpcml.evaluate(model, data, split="test", labels=range(hpcml.open_model(model).n_labels))
    values = {f"p{k}": value for k, value in judged.precision_at.items()} | {"ndcg5": judged.ndcg_at.get(5)}
    values |= {"micro_ap": judged.micro["average_precision"], "map": judged.macro("average_precision")}
    return values | {"macro_f1": judged.macro("f1"), "micro_f1": judged.micro["f1"]}


def run(
    scratch: Path, data: tuple[Path, ...], *, min_positives: int = 10, seed: int = 0, ranks: int = 2
) -> Iterator[dict[str, Any]]:
    for path in data:
        rows = read_rows(path)
        frequent = rows.names[int(np.argmax(rows.Y.sum(axis=0)))]

        def command(way: str, *more: object, path: Path = path) -> Usage:
            words = ("train", "dual") if way == "train dual" else ("tune",)
            shared = ("--force", "--min-positives", min_positives, "--seed", seed)
            return run_hpcml(*words, path, "-o", scratch / "run", *shared, *WAYS[way], *more, ranks=ranks)

        command("tune", "--label", frequent)  # compiles
        loading = command("train dual", "--label", frequent)
        first, defaults = (), dict[str, Any]()
        for way in WAYS:
            used = command(way)
            seconds = tuple(max(0.001, after - before) for after, before in zip(used[:2], loading[:2], strict=True))
            values = measures(scratch / "run" / "model.h5", path)
            defaults |= values if way == "train dual" else {name: values[name] for name in OF_THRESHOLDS if way == ALONE}
            lost = [name for name, most in ALLOWED.items() if values.get(name) is not None and values[name] < defaults[name] - most]
            first = first or seconds
            line = {"data": path.stem, "ranks": ranks, "way": way, "labels": hpcml.open_model(scratch / "run").n_labels}
            line |= rounded(**values) | {"lost": lost, "wall_s": seconds[0], "cpu_s": seconds[1]}
            yield rounded(**line, ratio_wall=seconds[0] / first[0], ratio_cpu=seconds[1] / first[1])
