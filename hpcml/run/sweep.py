"""The table of a sweep over options: runs, the options in which they differ, how good they are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.atomic import check_output
from hpcml.files.opening import read_small
from hpcml.files.table import joined_names, table, write_table
from hpcml.log import joined
from hpcml.model.linear import Trained
from hpcml.model.open import open_model
from hpcml.run.folder import CONFIG, MEASURES, read_config


@dataclass(frozen=True)
class Sweep:
    """The table: its columns, and a line for each run, best first by the first measure."""

    columns: list[str]
    lines: list[list[object]]

    def __str__(self) -> str:
        return joined(table([self.columns, *([_shown(value) for value in line] for line in self.lines)]))


def merge_sweep(
    comm: mpi.Comm, runs: list[Path], output: Path, force: bool, free: Callable[[str], Collection[str]] = lambda _: ()
) -> Sweep:
    """Collective over `comm`. Write the table of the runs to `output`; rank 0 reads them.

    `free` tells of a method which keys of config.toml do not change its result: they have no
    column. Raises ConfigError if a folder is no run folder, DataError for a damaged one. A run that
    is not finished, or was not judged (`hpcml evaluate --json RUN/measures.json`), has empty cells.
    """

    def written() -> Sweep:
        check_output(output, force)
        found = _sweep(runs, free)
        write_csv(output, found)
        return found

    return mpi.run_on_root(comm, f"writing {output}", written)


def write_csv(path: Path, sweep: Sweep) -> None:
    """A line for each run; unknown cells are empty, lists `joined_names`. Raises DataError."""
    lines = ([_cell(value) for value in line] for line in sweep.lines)
    write_table(path, [sweep.columns, *lines])


def _sweep(runs: list[Path], free: Callable[[str], Collection[str]]) -> Sweep:
    for run in runs:
        if not (run / CONFIG).is_file():
            raise ConfigError(f"{run}: not a run folder (no {CONFIG})")
    configs = [read_config(run / CONFIG) for run in runs]
    unseen = set.intersection(*(set(free(str(config.get("method")))) for config in configs)) - {"data"}
    keys = sorted({key for config in configs for key in config} - unseen)
    differing = [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]
    facts, judged = [_facts(run) for run in runs], [_measures(run) for run in runs]
    measures = list(dict.fromkeys(name for one in judged for name in one))
    lines: list[list[Any]] = []
    for run, config, fact, values in zip(runs, configs, facts, judged, strict=True):
        lines.append([str(run), *(config.get(key) for key in differing), *fact.values(), *(values.get(name) for name in measures)])
    if measures:
        best = len(lines[0]) - len(measures)
        lines.sort(key=lambda line: math.inf if _is_unknown(line[best]) else -float(line[best]))
    return Sweep(["run", *differing, *facts[0], *measures], lines)


def _facts(run: Path) -> dict[str, object]:
    """The description in a run's model; unknown if the run is not finished."""
    if not (run / "model.h5").exists():
        return {"state": "not finished", "labels": None, "iterations": None}
    model: Trained = open_model(run / "model.h5")
    steps = model.labels["steps"][model.labels["steps"] > 0]
    return {"state": "finished", "labels": model.n_labels, "iterations": float(steps.mean()) if steps.size else None}


def _measures(run: Path) -> dict[str, float | None]:
    """The means over the labels that an evaluation left in the run folder, if any did."""
    file = run / MEASURES
    if not file.exists():
        return {}
    try:
        means = json.loads(read_small(file))["macro"].items()
        return {name: None if mean["value"] is None else float(mean["value"]) for name, mean in means}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{file}: damaged; judge the model again with `hpcml evaluate`") from None


def _is_unknown(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cell(value: object) -> object:
    if _is_unknown(value):
        return ""
    return joined_names(map(str, value)) if isinstance(value, list) else value


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and not _is_unknown(value) else str(_cell(value)) or "-"
