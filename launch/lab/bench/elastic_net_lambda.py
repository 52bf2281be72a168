"""Quality of `elastic-net` at pairs of λ₁ and λ₂, beside `dual` by default: all labels, judged on test rows.

SET is a name of the benchmark `defaults`, or a dataset (.h5). `seconds` are CPU seconds of the command; `touched` is the mean share
of the rows that a round of a label visits, `features` the mean number of weights that are not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.errors import ConfigError
from launch.lab.bench.defaults import convert_set, judge
from launch.lab.core.bench import train

PAIRS = ("0.1/m,0.01/m", "0.01N/m,0.01X/m")  # the default until 0.11, and the default


def run(
    scratch: Path, sets: tuple[str, ...], *, at: tuple[str, ...] = PAIRS, min_positives: int = 10, most_rows: int = 30_000
) -> Iterator[dict[str, Any]]:
    """Yield a line for `dual` and for every pair, on every set."""
    if wrong := [pair for pair in at if pair.count(",") != 1]:
        raise ConfigError(f"--at {wrong[0]}: expected L1,LAMBDA")
    for name in sets:
        files = (Path(name),) * 2 if name.endswith(".h5") else convert_set(name, scratch, most_rows)
        for pair in ("", *at):
            method = "elastic-net" if pair else "dual"
            l1, _, lam = pair.partition(",")
            options = ("--l1", l1, "--lambda", lam) if pair else ()
            trained = train(method, files[0], scratch / "run", "--min-positives", min_positives, *options)
            model = hpcml.Model(trained.model)
            line = {"set": name, "labels": model.n_labels, "method": method, "l1": l1, "lambda": lam, **judge(trained.model, files)}
            line |= {"seconds": round(trained.usage.cpu_seconds, 2), "features": round(model.n_weights / model.n_labels, 1)}
            yield line | {"touched": round(float(np.mean(model.labels["visited"])), 3)}
