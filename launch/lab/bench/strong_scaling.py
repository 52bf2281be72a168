"""Strong scaling of the commands: time by phase, efficiency, load imbalance, bytes written and peak memory on numbers of ranks.

DATA is a set (core/corpora.py) or a dataset (.h5). FOLDER gets the dataset, a model of `train dual`, and points in the plane for
psbml; what it has is used again. --only names other commands: info, merge, report, threshold, calibrate, prune, retrain. OPTIONS
go to trainings and `tune`. --every K trains every K-th label in order of frequency, and `hours` is the time of all labels on one
core. A command that takes longer than --limit seconds is ended. The least of --repeat counts.

`seconds` are those of the whole command, `training` as it reports them; `efficiency` is that of `seconds` beside the first of
--ranks. Phases are means over ranks: `start` (modules and compiled kernels), `read`, `compute`, `write` and `wait` (also
communication) in seconds of the processor, `idle` without it. `imbalance` is the largest `compute` over the mean, `peak_mib` the
memory of the largest rank, `written_mb` what all ranks wrote to disks (not to tmpfs). Lines of `profile` are means of --profile.
-o draws a plot (.png).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from launch.lab.core.bench import TRAINED, read_rows, rounded, run_sampled
from launch.lab.core.corpora import convert_words
from launch.lab.core.pictures import BLUE, GREEN, ORANGE, PURPLE, VERMILION, drawn
from launch.lab.core.ranks import PHASES
from launch.lab.core.tables import write_atomically
from launch.lab.core.timing import CommandError, run_hpcml

POINTS = ("synthetic", "checkerboard", "--rows", 5000, "--test-share", 0.3)
PROFILE = re.compile(r"^rank \d+: (.+)$", re.MULTILINE)
USUAL = ("convert", "train dual", "train probe", "train elastic-net", "train psbml", "tune", "predict", "evaluate")
LINES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, "0.3", "0.6")
COLOURS = dict(zip(PHASES, ("0.75", GREEN, BLUE, ORANGE, VERMILION, "0.9"), strict=True))


def commands(folder: Path, data: str, options: tuple[object, ...]) -> dict[str, list[object]]:
    rows, model, out, again = folder / "data.h5", folder / "run", folder / "out", "--force"
    test, more = ["--split", "test"], ["-o", out, again, "--profile", *options]
    return {
        "convert": ["convert", *convert_words(data), "-o", f"{out}.h5", again],
        "train dual": ["train", "dual", rows, *more],
        "train probe": ["train", "probe", rows, *more],
        "train elastic-net": ["train", "elastic-net", rows, *more],
        "train psbml": ["train", "psbml", folder / "points.h5", "-o", out, again, "--profile"],
        "tune": ["tune", rows, *more],
        "predict": ["predict", model, rows, *test, "--top", 5, "-o", f"{out}.csv", again],
        "evaluate": ["evaluate", model, rows, *test, "--json", f"{out}.json", again],
        "info": ["info", model],
        "merge": ["merge", folder / "part-1", folder / "part-2", "-o", out, again],
        "report": ["report", model, "--data", rows, *test, "-o", f"{out}.html", again],
        "threshold": ["threshold", model, rows, *test, "--measure", "label", "-o", f"{out}-1.h5", again],
        "calibrate": ["calibrate", model, rows, *test, "-o", f"{out}-2.h5", again],
        "prune": ["prune", model, rows, *test, "--below", 0.2, "-o", f"{out}-3.h5", again],
        "retrain": ["retrain", model, rows, "-o", out, again],
    }


def every_label(rows: Path, every: int, path: Path) -> list[object]:
    """Write every K-th label in order of frequency as a configuration file; return the option that names it."""
    read = read_rows(rows)
    n_positive = np.asarray(read.Y.sum(axis=0)).ravel()
    order = np.argsort(-n_positive, kind="stable")[: np.count_nonzero(n_positive)][every // 2 :: every]
    write_atomically(path, f"label = {json.dumps([read.names[label] for label in order])}\n".encode())
    return ["--config", path]


def prepare(folder: Path, data: str, needed: set[str], ranks: int, options: tuple[str, ...], every: int) -> tuple[object, ...]:
    """Create the files that are missing and return the options of trainings."""
    rows, points, more = folder / "data.h5", folder / "points.h5", list[object](options)
    folder.mkdir(parents=True, exist_ok=True)
    if data.endswith(".h5") and not rows.exists():
        rows.symlink_to(Path(data).resolve())
    if not rows.exists():
        run_hpcml("convert", *convert_words(data), "-o", rows, ranks=ranks)
    if "train psbml" in needed and not points.exists():
        run_hpcml("convert", *POINTS, "-o", points)
    if every > 1:
        more += every_label(rows, every, folder / "labels.toml")
    if needed - set(USUAL[:6]) and not (folder / "run" / "model.h5").exists():
        run_hpcml("train", "dual", rows, "-o", folder / "run", "--force", *more, ranks=ranks)
    for part in (1, 2) if "merge" in needed else ():
        run_hpcml("train", "dual", rows, "-o", folder / f"part-{part}", "--force", "--label-part", f"{part}/2", *more, ranks=ranks)
    return tuple(more)


def measure(words: list[object], ranks: int, limit: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures of a command, and the seconds of its --profile."""
    used, by_rank = run_sampled(*words, ranks=ranks, timeout=limit)
    means = {phase: float(np.mean([rank[phase] for rank in by_rank])) for phase in PHASES}
    line = {"seconds": used.seconds, "cpu": used.cpu_seconds, **means}
    if words[0] in ("train", "tune") and (training := TRAINED.findall(used.output)):
        line["training"] = float(training[-1])
    line["imbalance"] = max(rank["compute"] for rank in by_rank) / max(means["compute"], 1e-9)
    line |= {"peak_mib": max(rank["peak_mib"] for rank in by_rank), "written_mb": sum(rank["written_mb"] for rank in by_rank)}
    profile = defaultdict[str, float](float)
    for text in PROFILE.findall(used.output):
        for phase, _, value in (part.rpartition(" ") for part in text.replace(" s", "").split(", ")):
            profile[phase] += float(value) / ranks
    return line, profile


def draw(path: Path, lines: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(line["command"] for line in lines))
    ranks = sorted({line["ranks"] for line in lines})
    with drawn(path, 11, 4.5) as figure:
        left, right = figure.subplots(1, 2)
        for number, name in enumerate(names):
            colour, mark = LINES[number % len(LINES)], "osv^DPX*"[number % 8]
            own = sorted((line["ranks"], line["efficiency"]) for line in lines if line["command"] == name)
            left.plot(*zip(*own, strict=True), color=colour, marker=mark, label=name)
        left.set(title="Efficiency of the whole command", xlabel="ranks", xscale="log", xticks=ranks, ylim=(0, None))
        left.set_xticklabels(map(str, ranks))
        left.minorticks_off()
        left.axhline(1, color="0.6", linestyle=":")
        left.legend(fontsize=8, ncols=2)
        bars = [line for name in names for line in sorted(lines, key=lambda line: line["ranks"]) if line["command"] == name]
        begin = np.zeros(len(bars))
        for phase in PHASES:
            share = np.array([line[phase] / sum(line[each] for each in PHASES) for line in bars])
            right.barh(range(len(bars)), share, left=begin, color=COLOURS[phase], label=phase)
            begin += share
        right.set(title="Share of a rank's time", yticks=range(len(bars)), xlim=(0, 1))
        right.set_yticklabels([f"{line['command']}, {line['ranks']}" for line in bars], fontsize=8)
        right.invert_yaxis()
        right.grid(visible=False)
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=len(PHASES), fontsize=8)


def run(
    scratch: Path,
    folder: Path | None = None,
    *,
    data: str = "tiny",
    ranks: tuple[int, ...] = (1, 2),
    only: tuple[str, ...] = USUAL,
    every: int = 1,
    repeat: int = 1,
    limit: float = 600.0,
    output: Path | None = None,
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    folder = folder or scratch
    only = tuple(name for name in only if name != "convert" or not data.endswith(".h5"))
    known, lines = commands(folder, data, prepare(folder, data, set(only), max(ranks), options, every)), list[dict[str, Any]]()
    for name in only:
        base = None
        for n in ranks:
            line: dict[str, Any] = {"command": name, "data": Path(data).stem, "ranks": n}
            try:
                used, profile = min((measure(known[name], n, limit) for _ in range(repeat)), key=lambda each: each[0]["seconds"])
            except CommandError as error:  # also that its time limit ended it
                yield line | {"code": error.exit_code, "message": str(error)}
                continue
            base = base or n * used["seconds"]
            line |= rounded(4, **used, efficiency=base / (n * used["seconds"]))
            if every > 1 and "training" in used:
                line |= rounded(3, hours=used["training"] * n * every / 3600)
            lines.append(line)
            yield line
            if profile:
                yield {"profile": name, "ranks": n} | rounded(4, **profile)
    if output and lines:
        draw(output, lines)
