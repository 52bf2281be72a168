"""Facts from the files of a run: options, versions, times, memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import MADE_BY
from hpcml.files.opening import read_small
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import CHOSEN, Model
from hpcml.model.open import model_file
from hpcml.run.folder import CONFIG, ENVIRONMENT, read_config

TIME = "%Y-%m-%dT%H:%M:%S%z"
NOT_SAID = ("method", "data")  # of the options, what has a line of its own


@dataclass(frozen=True)
class Facts:
    """Pairs of a name and a value for people, in groups."""

    name: str  # of the run, for headings
    method: str
    trained: str  # when, with which version, on which rows of which data, as far as that is known
    about: list[tuple[str, str]]
    options: list[tuple[str, str]] = field(default_factory=list)
    environment: list[tuple[str, str]] = field(default_factory=list)
    optimiser: list[tuple[str, str]] = field(default_factory=list)


def config_of(model: Path) -> dict[str, Any]:
    """config.toml's values beside a model, or none. Local; raises DataError, OSError."""
    path = model.parent / CONFIG
    return read_config(path) if path.is_file() else {}


def data_of(run: Path, given: Path | None) -> Path:
    """The dataset to judge on: the given one, or the run's own. Local; raises ConfigError."""
    if given is not None:
        return given
    found = config_of(model_file(run)).get("data")
    if not isinstance(found, str):
        raise ConfigError(f"{run}: nothing says on which data it was trained; name them with --data")
    if not Path(found).is_file():
        raise ConfigError(f"{run}: its data {found} are no longer there; name a dataset with --data")
    return Path(found)


def facts_of(run: Path, model: Model | ClassifierModel) -> Facts:
    """The facts of a run. Local; raises DataError, OSError."""
    config, attrs = config_of(model.path), model.attrs
    about, optimiser = [("run", str(run)), ("training data", str(config.get("data", "unknown")))], []
    names = {"loss": "loss", "lambda": "λ", "positive_weight": "weight of positives", "scale": "scale of features"}
    names |= {"split": "training split", "n_rows": "training rows"}
    own = {key: (values.min(), values.max()) for key, values in model.labels.items() if key in CHOSEN}
    told = {key: f"of each label its own, {low:.3g} to {high:.3g}" for key, (low, high) in own.items()}
    about += [(name, told.get(key, _shown(attrs[key]))) for key, name in names.items() if key in attrs]
    about += [("features", f"{model.n_features:,}"), ("labels", f"{model.n_labels:,}")]
    if isinstance(model, Model):
        optimiser.append(("weights stored", f"{model.n_weights:,}" + (" (sparse)" if model.sparse else "")))
        steps, gaps = model.labels["steps"], model.labels.get("gap")
        if steps.any():
            optimiser.append(("iterations a label", f"{steps[steps > 0].mean():.1f} on average, {steps.max()} at most"))
        if gaps is not None and gaps.size:
            optimiser.append(("certified gap", f"{np.median(gaps):.2g} of the objective in the median, {gaps.max():.2g} at most"))
    about.append(("size of the model", f"{model.path.stat().st_size / 1e6:,.2f} MB"))
    about.append(("thresholds", model.threshold_source or "score 0 for all labels"))
    about.append(("probabilities", model.probability_source or "none"))
    options = [(key, _shown(value)) for key, value in config.items() if key not in NOT_SAID]
    environment, method = _environment(model.path.parent), str(attrs.get("method", config.get("method", "unknown")))
    when = dict(environment).get("trained") or (f"by hpcml {attrs[MADE_BY]}" if MADE_BY in attrs else "")
    rows, split = (
        (f"{int(attrs['n_rows']):,} rows" if "n_rows" in attrs else ""),
        f"split {attrs['split']}" if "split" in attrs else "",
    )
    on = " of ".join(filter(None, (rows, split, Path(str(config.get("data", ""))).name)))
    trained = ", ".join(filter(None, (when, on and f"on {on}"))) or "unknown"
    name = run.parent.name if run.name == "model.h5" else run.name
    return Facts(name, method, trained, about, options, environment[1:], optimiser)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _environment(folder: Path) -> list[tuple[str, str]]:
    """The lines about the starts in environment.jsonl, first when and by which version. Raises DataError for a damaged file."""
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
            lines.append(("continued", f"{len(starts) - 1} times, last {last['time']}"))
        if "finished" in last:
            began, ended = (datetime.strptime(last[name], TIME) for name in ("time", "finished"))
            since = "" if len(starts) == 1 else " after the last start"
            seconds = f"{(ended - began).total_seconds():,.0f} s{since}, with the reading of the data"
            lines.append(("finished", f"{last['finished']}, {seconds}"))
        lines.append(("ranks", f"{last['ranks']} on {len(nodes)} node{'s' * (len(nodes) > 1)}"))
        if by := last.get("computed_by"):
            lines.append(("processor", f"{by['processor']} ({by['architecture']}, compiled for {by['target']})"))
        if peaks := [float(peak) for peak in last.get("peak_mib") or ()]:
            each = ", ".join(f"{peak:,.0f}" for peak in peaks) + (" MiB, rank by rank" if len(peaks) > 1 else " MiB")
            spread = f"{min(peaks):,.0f} to {max(peaks):,.0f} MiB a rank, {sum(peaks) / 1024:,.1f} GiB in all"
            lines.append(("peak of memory", each if len(peaks) <= 4 else spread))
        packages = ", ".join(f"{name} {number}" for name, number in last["packages"].items() if number)
        about = {
            "hpcml": last["hpcml"],
            "Python": last["python"],
            "packages": packages,
            "MPI": last["mpi"],
            "system": last["system"],
        }
        lines += [(name, str(value)) for name, value in (about | last["variables"]).items()]
        return [*lines, ("arguments", " ".join(map(str, last["arguments"])))]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({error}); move it away to have a report without it") from None
