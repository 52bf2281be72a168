"""Measure commands with very many labels: seconds, CPU seconds, and the peak of memory of the largest rank.

Makes a dataset (`hpcml convert synthetic text`) in FOLDER, and a model of all its labels (`train dual --drop 0.1`, in two parts
that are merged). Then every command is run with them, on --judged of the test rows, on every number of ranks. A line has seconds by
the clock, seconds of all processors, and the peak of the memory of the largest rank in MiB, mapped files included. A command that
takes longer than --seconds is ended. Files that exist in FOLDER are reused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch.lab.core.bench import rounded
from launch.lab.core.timing import CommandError, run_hpcml


def make(folder: Path, rows: int, features: int, labels: int, judged: int) -> None:
    data, parts = folder / "data.h5", [folder / "part-1", folder / "part-2"]
    run_hpcml("convert", "synthetic", "text", "--rows", rows, "--features", features, "--labels", labels, "-o", data, "--force")
    run_hpcml("split", data, "--test-share", judged / rows, "--valid-share", judged / rows, "--force")
    for number, part in enumerate(parts, 1):
        run_hpcml("train", "dual", data, "--drop", 0.1, "--label-part", f"{number}/2", "-o", part, "--force")
    run_hpcml("merge", *parts, "-o", folder / "run")


def commands(folder: Path, n_labels: int) -> dict[str, list[object]]:
    """Return the commands by name; `tune` uses at most 500 labels."""
    data, run, out, again = folder / "data.h5", folder / "run", folder / "out", "--force"
    test, limit = ["--split", "test"], ["--drop", 0.1, "--time-limit", 60, "-o", out, again]
    return {
        "info of data": ["info", data],
        "info of a model": ["info", run],
        "train dual": ["train", "dual", data, *limit],
        "train elastic-net": ["train", "elastic-net", data, *limit],
        "tune": ["tune", data, "--label-part", f"1/{1 + n_labels // 500}", *limit],
        "merge": ["merge", folder / "part-1", folder / "part-2", "-o", out, again],
        "predict --top 10": ["predict", run, data, *test, "--top", 10, "-o", f"{out}.csv", again],
        "evaluate": ["evaluate", run, data, *test, "--json", f"{out}.json", "--csv", f"{out}-2.csv", again],
        "report": ["report", run, "--data", data, *test, "-o", f"{out}.html", again],
        "threshold": ["threshold", run, data, "--split", "valid", "--measure", "label", "-o", f"{out}-1.h5", again],
        "calibrate": ["calibrate", run, data, "--split", "valid", "-o", f"{out}-2.h5", again],
        "prune": ["prune", run, data, *test, "--below", 0.2, "-o", f"{out}-3.h5", again],
        "retrain": ["retrain", run, data, "-o", out, again],
    }


def run(
    scratch: Path,
    folder: Path,
    *,
    rows: int = 100_000,
    features: int = 135_909,
    labels: int = 670_091,
    judged: int = 1000,
    seconds: float = 3600.0,
    ranks: tuple[int, ...] = (1, 2),
    only: tuple[str, ...] = (),
) -> Iterator[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    if not (folder / "run").exists():
        make(folder, rows, features, labels, judged)
    for name, words in commands(folder, labels).items():
        for n in ranks if not only or name in only else ():
            line: dict[str, Any] = {"command": name, "ranks": n, "code": 0}
            try:
                used = run_hpcml(*words, ranks=n, timeout=seconds)
                line |= rounded(3, seconds=used.seconds, cpu=used.cpu_seconds, peak_mib=used.peak_mib)
            except CommandError as error:  # also that its time limit ended it
                line |= {"code": error.exit_code, "message": str(error)}
            yield line
