"""The table of a sweep over options: runs, the options in which they differ, how good they are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.atomic import check_output
from hpcml.files.opening import read_small
from hpcml.files.table import joined_names, table, write_table
from hpcml.log import joined
from hpcml.model.open import open_model
from hpcml.model.trained import Trained
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

    def write() -> Sweep:
        check_output(output, force)
        configs = [read_config(run / CONFIG) for run in runs]
        unseen = set.intersection(*(set(free(str(config.get("method")))) for config in configs)) - {"data"}
        keys = sorted({key for config in configs for key in config} - unseen)
        differing = [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]
        judged = [_read_measures(run) for run in runs]
        measures = list(dict.fromkeys(name for values in judged for name in values))
        lines: list[list[Any]] = []
        for run, config, values in zip(runs, configs, judged, strict=True):
            about: list[object] = ["not finished", None, None]
            if (run / "model.h5").exists():
                model: Trained = open_model(run / "model.h5")
                steps = model.labels["steps"][model.labels["steps"] > 0]
                about = ["finished", model.n_labels, float(steps.mean()) if steps.size else None]
            lines.append([*(values.get(name) for name in measures), str(run), *map(config.get, differing), *about])
        if measures:
            lines.sort(key=lambda line: math.inf if line[0] is None else -line[0])
        lines = [[*line[len(measures) :], *line[: len(measures)]] for line in lines]
        sweep = Sweep(["run", *differing, "state", "labels", "iterations", *measures], lines)
        write_csv(output, sweep)
        return sweep

    return mpi.run_on_root(comm, f"writing {output}", write)


def write_csv(path: Path, sweep: Sweep) -> None:
    """A line for each run; unknown cells are empty, lists `joined_names`. Raises DataError."""
    write_table(path, [sweep.columns, *([_cell(value) for value in line] for line in sweep.lines)])


def _read_measures(run: Path) -> dict[str, float | None]:
    """The means over the labels that an evaluation left in the run folder, if any did. None: no number."""
    file = run / MEASURES
    if not file.exists():
        return {}
    try:
        means = json.loads(read_small(file))["macro"].items()
        values = {name: math.nan if mean["value"] is None else float(mean["value"]) for name, mean in means}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{file}: damaged; judge the model again with `hpcml evaluate`") from None
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _cell(value: object) -> object:
    return joined_names(map(str, value)) if isinstance(value, list) else "" if value is None else value


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(_cell(value)) or "-"
