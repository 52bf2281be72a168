"""Facts from the files of a run: options, versions, times and memory."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import WRITTEN_BY
from hpcml.files.opening import read_small
from hpcml.log import plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import TUNED_OPTIONS, Model
from hpcml.model.open import model_file
from hpcml.run.folder import CONFIG, ENVIRONMENT, read_config

TIME = "%Y-%m-%dT%H:%M:%S%z"
HAVE_OWN_LINE = ("method", "data")  # options that are not repeated


@dataclass(frozen=True)
class Facts:
    name: str  # of the run
    method: str
    trained: str  # date, version, rows and dataset, as far as they are known
    about: list[tuple[str, str]]
    options: list[tuple[str, str]] = field(default_factory=list)
    environment: list[tuple[str, str]] = field(default_factory=list)
    optimiser: list[tuple[str, str]] = field(default_factory=list)


def read_model_config(model: Path) -> dict[str, Any]:
    path = model.parent / CONFIG
    return read_config(path) if path.is_file() else {}


def find_data(run: Path, data: Path | None) -> Path:
    if data is not None:
        return data
    path = read_model_config(model_file(run)).get("data")
    if not isinstance(path, str):
        raise ConfigError(f"{run}: the dataset of this run is unknown; name one with --data")
    if not Path(path).is_file():
        raise ConfigError(f"{run}: its dataset {path} does not exist; name one with --data")
    return Path(path)


def read_facts(run: Path, model: Model | ClassifierModel) -> Facts:
    config, attrs = read_model_config(model.path), model.attrs
    about, optimiser = [("run", str(run)), ("training data", str(config.get("data", "unknown")))], []
    names = {"loss": "loss", "lambda": "λ", "positive_weight": "weight of positives", "scale": "scale of features"}
    names |= {"split": "training split", "n_rows": "training rows"}
    ranges = {key: (values.min(), values.max()) for key, values in model.labels.items() if key in TUNED_OPTIONS}
    per_label = {key: f"per label, {low:.3g} to {high:.3g}" for key, (low, high) in ranges.items()}
    about += [(name, per_label.get(key, _format(attrs[key]))) for key, name in names.items() if key in attrs]
    about += [("features", f"{model.n_features:,}"), ("labels", f"{model.n_labels:,}")]
    if isinstance(model, Model):
        optimiser.append(("weights stored", f"{model.n_weights:,}" + (" (sparse)" if model.sparse else "")))
        steps, gaps = model.labels["steps"], model.labels.get("gap")
        if steps.any():
            optimiser.append(("iterations per label", f"mean {steps[steps > 0].mean():.1f}, maximum {steps.max()}"))
        if gaps is not None and gaps.size:
            optimiser.append(("relative duality gap", f"median {np.median(gaps):.2g}, maximum {gaps.max():.2g}"))
    about.append(("model size", f"{model.path.stat().st_size / 1e6:,.2f} MB"))
    about.append(("thresholds", model.threshold_source or "score 0 for all labels"))
    about.append(("probabilities", model.probability_source or "none"))
    options = [(key, _format(value)) for key, value in config.items() if key not in HAVE_OWN_LINE]
    environment, method = _read_environment(model.path.parent), str(attrs.get("method", config.get("method", "unknown")))
    when = dict(environment).get("trained") or (f"by hpcml {attrs[WRITTEN_BY]}" if WRITTEN_BY in attrs else "")
    rows = f"{int(attrs['n_rows']):,} rows" if "n_rows" in attrs else ""
    split = f"split {attrs['split']}" if "split" in attrs else ""
    on = " of ".join(filter(None, (rows, split, Path(str(config.get("data", ""))).name)))
    trained = ", ".join(filter(None, (when, on and f"on {on}"))) or "unknown"
    name = run.parent.name if run.name == "model.h5" else run.name
    return Facts(name, method, trained, about, options, environment[1:], optimiser)


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _read_environment(folder: Path) -> list[tuple[str, str]]:
    """Return facts from environment.jsonl, first date and version. Raises DataError for a damaged file."""
    path = folder / ENVIRONMENT
    if not path.is_file():
        return []
    try:
        starts: list[dict[str, Any]] = [json.loads(line) for line in read_small(path).splitlines()]
        if not starts:
            return []
        last, nodes = starts[-1], starts[-1]["nodes"]
        when = datetime.strptime(last.get("finished", last["time"]), TIME).astimezone(UTC)
        lines = [("trained", f"{when:%Y-%m-%d %H:%M} UTC by hpcml {last['hpcml']}"), ("started", str(starts[0]["time"]))]
        if len(starts) > 1:
            lines.append(("continued", f"{plural(len(starts) - 1, 'time')}, last {last['time']}"))
        if "finished" in last:
            began, ended = (datetime.strptime(last[name], TIME) for name in ("time", "finished"))
            since = "" if len(starts) == 1 else " after the last start"
            seconds = f"{(ended - began).total_seconds():,.0f} s{since}, including reading"
            lines.append(("finished", f"{last['finished']}, {seconds}"))
        lines.append(("ranks", f"{last['ranks']} on {plural(len(nodes), 'node')}"))
        if by := last.get("computed_by"):
            lines.append(("processor", f"{by['processor']} ({by['architecture']}, compiled for {by['target']})"))
        if peaks := [float(peak) for peak in last.get("peak_mib") or ()]:
            each = ", ".join(f"{peak:,.0f}" for peak in peaks) + (" MiB by rank" if len(peaks) > 1 else " MiB")
            spread = f"{min(peaks):,.0f} to {max(peaks):,.0f} MiB per rank, {sum(peaks) / 1024:,.1f} GiB in total"
            lines.append(("peak memory", each if len(peaks) <= 4 else spread))
        packages = ", ".join(f"{name} {number}" for name, number in last["packages"].items() if number)
        versions = {"hpcml": last["hpcml"], "Python": last["python"], "packages": packages, "MPI": last["mpi"]}
        lines += [(name, str(value)) for name, value in (versions | {"system": last["system"]} | last["variables"]).items()]
        return [*lines, ("arguments", " ".join(map(str, last["arguments"])))]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: damaged file ({error}); move it away to make a report without it") from None
