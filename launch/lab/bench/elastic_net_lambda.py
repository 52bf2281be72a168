"""Quality of `elastic-net` at pairs of λ₁ and λ₂, beside `dual` by default: all labels, judged on test rows. Prints JSON lines.

SET is a name of the benchmark `defaults`, or a dataset (.h5). `seconds` are CPU seconds of the command; `touched` is the mean share
of the rows that a round of a label visits, `features` the mean number of weights that are not 0.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import hpcml
from launch.lab.bench._common import parser_of, train
from launch.lab.bench.defaults import convert_set, judge
from launch.lab.core.timing import print_json

PAIRS = ["0.1/m,0.01/m", "0.01N/m,0.01X/m"]  # the default until 0.11, and the default


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("elastic_net_lambda", __doc__)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--at", nargs="+", default=PAIRS, metavar="L1,LAMBDA")
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=30_000)
    given = parser.parse_args(words)
    for pair in given.at:
        if pair.count(",") != 1:
            parser.error(f"--at {pair}: expected L1,LAMBDA")
    for name in given.sets:
        with tempfile.TemporaryDirectory() as own:
            folder = Path(own)
            files = (Path(name),) * 2 if name.endswith(".h5") else convert_set(name, folder, given.most_rows)
            for pair in (None, *given.at):
                l1, lam = pair.split(",") if pair else ("", "")
                options = ("--l1", l1, "--lambda", lam) if pair else ()
                method = "elastic-net" if pair else "dual"
                run = train(method, files[0], folder / "run", "--min-positives", given.min_positives, *options)
                model = hpcml.Model(run.model)
                line = {"set": name, "labels": model.n_labels, "method": method, "l1": l1, "lambda": lam, **judge(run.model, files)}
                line |= {"seconds": round(run.usage.cpu_seconds, 2), "features": round(model.n_weights / model.n_labels, 1)}
                print_json(**line, touched=round(float(np.mean(model.labels["visited"])), 3))
