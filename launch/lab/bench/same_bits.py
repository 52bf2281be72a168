"""Compare the models of two versions of hpcml by their digests.

Every method is trained on three sets at 1 and 3 ranks, by `mpirun … python -m hpcml`, whichever hpcml this Python finds (PYTHONPATH
says which); what is imported here (the list of trainings, and how digests are made) is this clone's. The sets, of HPCML_DATA, are
reuters (labels of at least 300 rows; where there is one classifier for all rows, earn against all others), a9a and chess; --data
names a dataset to use instead. The trainings are those of `hpcml check --bits`, which does the same with tiny data.

OUT.json has the digest of each converted set and each model. With --processor all runs on a simulated processor of processors.py.

Exit code 1: a training failed, or a digest differs between numbers of ranks or from EARLIER.json.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcml.check.bits import OF_CLASSES, TRAININGS, compute_digest, name_training
from launch.lab.bench.processors import SETTINGS, made_up_processors, with_kernels
from launch.lab.core.bench import Failed
from launch.lab.core.corpora import file_of
from launch.lab.core.tables import read_json, write_json
from launch.lab.core.timing import CommandError, hpcml_command, run_command

SETS = {
    "reuters": ("jsonl", "reuters21578.jsonl.xz", "--min-df", "5"),
    "a9a": ("svmlight", "a9a.svm.xz"),
    "chess": ("svmlight", "chess.svm.xz"),
}
LIMIT = 300  # seconds of a command


def run(
    scratch: Path,
    out: Path,
    *,
    against: Path | None = None,
    data: tuple[Path, ...] = (),
    sets: tuple[str, ...] = tuple(SETS),
    methods: tuple[str, ...] = (),
    ranks: tuple[int, ...] = (1, 3),
    processor: str = "",
) -> Iterator[dict[str, Any]]:
    earlier, digests = read_json(against) if against else None, dict[str, str]()
    env = SETTINGS | (with_kernels(made_up_processors()[processor], scratch / "kernels") if processor else {})
    files = {path.stem: path for path in data}
    for name in () if data else sets:
        source, file, *options = SETS[name]
        files[name] = scratch / f"{name}.h5"
        run_command(hpcml_command(("convert", source, file_of(file), "-o", files[name], *options), 2), env=env)
    for name, path in files.items():
        digests[f"{name}, data"] = compute_digest(path)
        for method, more in TRAININGS:
            one_class, few = (("--label", "earn"), ("--min-positives", "300")) if name == "reuters" else ((), ())
            options = (*name_training(method, more).split()[1:], *(one_class if method in OF_CLASSES else few))
            for n in ranks if not methods or method in methods else ():
                command = hpcml_command(("train", method, path, "-o", scratch / "run", "--force", *options), n)
                try:
                    run_command(command, env=os.environ | env, timeout=LIMIT)
                    value = compute_digest(scratch / "run" / "model.h5")
                except CommandError as error:
                    value = str(error)
                digests[f"{name}, {name_training(method, more)}, {n} rank(s)"] = value
    write_json(out, digests)
    alike: dict[str, set[str]] = {}
    for name, value in digests.items():
        alike.setdefault(re.sub(r", \d+ rank\(s\)$", "", name), set()).add(value)
    wrong = [{"model": name, "wrong": value} for name, value in digests.items() if " " in value]
    wrong += [{"model": name, "wrong": "differs between numbers of ranks"} for name, values in alike.items() if len(values) > 1]
    changed = [name for name, value in digests.items() if earlier is not None and earlier.get(name) != value]
    wrong += [{"model": name, "wrong": "differs" if name in earlier else "is new"} for name in changed]
    yield from wrong
    yield {"digests": len(digests), "problems": len(wrong)}
    if wrong:
        raise Failed(f"{len(wrong)} problems, in {out}")
