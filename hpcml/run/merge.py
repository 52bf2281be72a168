"""Merging of runs: models of label parts (`--label-part`) into one run, and runs of a sweep over options into a table."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.atomic import check_output
from hpcml.files.opening import read_small
from hpcml.files.slabs import new_file
from hpcml.files.table import joined_names, table, write_table
from hpcml.log import joined, plural, visible
from hpcml.model.copy_labels import copy_labels
from hpcml.model.linear import Model, training_attributes
from hpcml.model.open import open_model
from hpcml.model.trained import Trained
from hpcml.options import parse_part
from hpcml.run.folder import CONFIG, MEASURES, RunFolder, read_config
from hpcml.run.session import Session, Target

PART = "label-part"


class _Part(NamedTuple):
    run: Path
    position: tuple[int, int]  # K and N of --label-part K/N
    config: dict[str, Any]
    names: list[str]  # of the labels
    titles: list[str]
    facts: dict[str, Any]  # attributes that must be equal in all parts


def merge_models(session: Session, runs: list[Path], target: Target, free: Callable[[str], Collection[str]]) -> str:
    """Merge models of all parts, whose options without `free` keys must be equal; return a sentence. Collective."""
    comm, output, parts = session.comm, target.output, list[_Part]()

    def read_parts() -> tuple[list[Path], list[int], dict[str, Any]]:
        if any(output.resolve() == run.resolve() for run in runs):
            raise ConfigError(f"{output} is one of the runs to merge; choose another --output")
        parts.extend(sorted(map(_read_part, runs), key=lambda part: part.position))
        first = parts[0]
        _check_complete(parts, free(str(first.config.get("method"))))
        config = {key: value for key, value in first.config.items() if key != PART}
        return [part.run for part in parts], [len(part.names) for part in parts], config

    with RunFolder(comm, output, session.log) as folder:
        run_folders, sizes, config = mpi.run_on_root(comm, "reading the parts", read_parts)
        names, titles = (list(chain.from_iterable(each)) for each in ([p.names for p in parts], [p.titles for p in parts]))
        with folder.replaced(config, target.force) as fresh:
            with new_file(comm, fresh / "model.h5") as out:
                copy_labels(comm, out, [partial(Model, run / "model.h5") for run in run_folders], sizes, names, titles)
            for name in ("history.csv", "choice.csv"):
                sources = [run / name for run in run_folders]
                mpi.run_on_root(comm, f"writing {fresh / name}", partial(_join_tables, sources, fresh / name))
    return visible(f"{folder.model}: {plural(sum(sizes), 'label')} of {plural(len(run_folders), 'run')}")


def _read_part(run: Path) -> _Part:
    config = read_config(run / CONFIG)
    text = config.get(PART)
    if not isinstance(text, str):
        raise ConfigError(f"{run} has no --label-part; merge joins runs with --label-part, or writes a .csv")
    if not (run / "model.h5").is_file():
        raise ConfigError(f"{run}: the run of part {text} is not finished; continue it with --resume")
    if not (run / "history.csv").is_file():
        raise DataError(f"{run}: history.csv is missing; train it again")
    model = Model(run / "model.h5")
    facts = training_attributes(model.attrs) | {
        "form of the weights": f"{model.precision}, {model.n_columns} columns",
        "columns about labels": ", ".join(model.labels),
        "leave-one-out scores": model.scores is not None,
        **{name: hashlib.sha256(getattr(model, name)).hexdigest() for name in ("columns", "factors")},
    }
    titles = model.label_titles or [""] * model.n_labels
    return _Part(run, parse_part(text), config, model.label_names, titles, facts)


def _check_complete(parts: list[_Part], free: Collection[str]) -> None:
    first = parts[0]
    for part in parts[1:]:
        for key in sorted((first.config.keys() | part.config.keys()) - {*free, PART}):
            own, other = part.config.get(key), first.config.get(key)
            if own != other:
                raise ConfigError(
                    f"{part.run} had {key} = {own!r}, but {first.run} {other!r}; all parts must have the same options"
                )
        if part.position[1] != first.position[1]:
            raise ConfigError(f"{part.run} is one of {part.position[1]} parts, but {first.run} one of {first.position[1]}")
        for name in first.facts | part.facts:
            own, other = part.facts.get(name, "none"), first.facts.get(name, "none")
            if not np.array_equal(own, other):
                raise ConfigError(
                    f"{part.run} and {first.run} differ in {name} ({own}; {other}); train all parts on the same data with "
                    "the same options, and compute thresholds and probabilities in the same way"
                )
    for a, b in pairwise(parts):
        if a.position == b.position:
            raise ConfigError(f"{a.run} and {b.run} are both part {a.config[PART]}; give each part once")
    if len(parts) < first.position[1]:
        number = next((k for k, part in enumerate(parts, 1) if part.position[0] != k), len(parts) + 1)
        raise ConfigError(f"part {number} of {first.position[1]} is missing; merge needs the runs of all parts")


def _join_tables(sources: list[Path], target: Path) -> None:
    if not all(source.exists() for source in sources):
        return
    with target.open("wb") as out:
        for number, source in enumerate(sources):
            with source.open("rb") as lines:
                header = lines.readline()
                out.write(header if number == 0 else b"")
                shutil.copyfileobj(lines, out)


def merge_sweep(comm: mpi.Comm, runs: list[Path], output: Path, force: bool, free: Callable[[str], Collection[str]]) -> str:
    """Write a table, without columns for `free` keys of config.toml, to `output`, and return it. Collective over `comm`.

    It has a row per run; unknown cells are empty, lists are `joined_names`.
    """

    def write() -> str:
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
        columns = ["run", *differing, "state", "labels", "iterations", *measures]
        write_table(output, [columns, *(list(map(_csv_cell, line)) for line in lines)])
        return joined(table([columns, *(list(map(_format_value, line)) for line in lines)]))

    return mpi.run_on_root(comm, f"writing {output}", write)


def _read_measures(run: Path) -> dict[str, float | None]:
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
