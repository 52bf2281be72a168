"""The table of a sweep over options: runs, options that differ, and measures."""

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

    def write_csv(self, path: Path) -> None:
        """Write a row per run; unknown cells are empty, lists are `joined_names`. Raises DataError."""
        write_table(path, [self.columns, *([_csv_cell(value) for value in line] for line in self.lines)])

    def __str__(self) -> str:
        return joined(table([self.columns, *([_format_value(value) for value in line] for line in self.lines)]))


def merge_sweep(
    comm: mpi.Comm, runs: list[Path], output: Path, force: bool, free: Callable[[str], Collection[str]] = lambda _: ()
) -> Sweep:
    """Write the table of runs to `output`, without columns for `free` keys of config.toml. Raises ConfigError, DataError.
    Collective over `comm`.
    """

    def write() -> Sweep:
        check_output(output, force)
        configs = [read_config(run / CONFIG) for run in runs]
        hidden = set.intersection(*(set(free(str(config.get("method")))) for config in configs)) - {"data"}
        keys = sorted({key for config in configs for key in config} - hidden)
        differing = [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]
        measured = [_read_measures(run) for run in runs]
        measures = list(dict.fromkeys(name for values in measured for name in values))
        lines: list[list[Any]] = []
        for run, config, values in zip(runs, configs, measured, strict=True):
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
        sweep.write_csv(output)
        return sweep

    return mpi.run_on_root(comm, f"writing {output}", write)


def _read_measures(run: Path) -> dict[str, float | None]:
    """Return the macro averages that an evaluation stored in the run folder, if any; None for an undefined value."""
    file = run / MEASURES
    if not file.exists():
        return {}
    try:
        means = json.loads(read_small(file))["macro"].items()
        values = {name: math.nan if mean["value"] is None else float(mean["value"]) for name, mean in means}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{file}: damaged; evaluate the model again with `hpcml evaluate`") from None
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _csv_cell(value: object) -> object:
    return joined_names(map(str, value)) if isinstance(value, list) else "" if value is None else value


def _format_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(_csv_cell(value)) or "-"
