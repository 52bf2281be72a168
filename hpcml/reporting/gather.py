"""Evaluation of the runs of a report, facts from their files (options, versions, times, memory), and the content of its page."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.evaluation.curves import Bin, Curve, Curves, ScoresOf
from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.evaluation.explain import explain
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.scored_rows import choose_split
from hpcml.evaluation.titles import names_of_rows, titles_of_rows
from hpcml.evaluation.wrong import KINDS, WrongRow, WrongRows
from hpcml.files.hdf5 import WRITTEN_BY
from hpcml.files.opening import read_small
from hpcml.log import Log, named, plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import STATUS, TUNED_OPTIONS, Model
from hpcml.model.open import model_file, share_model
from hpcml.run.folder import CONFIG, ENVIRONMENT, read_config

N_WORDS = 6  # features per label
LISTED = 25_000  # labels in the table, those with most rows: a page with these has 12 MB and opens in 2 s
N_WRONG = 15  # worst errors of each kind
N_WRONG_PER_LABEL = 3
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


@dataclass
class RunReport:
    """A run's part of the page; `status`, `gap` and `words` have an entry per label of the table, other arrays per label."""

    facts: Facts
    evaluation: Evaluation
    data: Path
    n_trained_on: np.ndarray | None  # positive training rows, if the model stores them
    table_labels: np.ndarray  # positions of the labels in the table among the evaluated ones
    thresholds: np.ndarray  # scores
    sigmoids: tuple[np.ndarray, np.ndarray] | None  # slope and offset, if the model has probabilities
    status: list[str] | None
    gap: np.ndarray | None  # only with --optimiser
    words: list[list[tuple[str, float]]] | None  # features with the largest squared weights, with weights
    micro: Curve
    of_groups: list[Curve]
    bins: list[Bin]  # empty without probabilities
    wrong: dict[str, list[WrongRow]]  # by KINDS, the worst first
    row_ids: dict[int, str] = field(default_factory=dict)  # of the wrong rows, if the dataset has ids
    titles: dict[str, str] = field(default_factory=dict)  # by id

    @property
    def frequency(self) -> np.ndarray:
        return self.evaluation.n_positive if self.n_trained_on is None else self.n_trained_on

    def convert_scores(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return scores if self.sigmoids is None else probabilities(scores[None], *self.sigmoids, labels[None])[0]

    @cached_property
    def converted_thresholds(self) -> np.ndarray:
        return self.convert_scores(self.thresholds, np.arange(self.thresholds.size))

    @property
    def one_threshold(self) -> float | None:
        return float(self.converted_thresholds[0]) if np.unique(self.converted_thresholds).size == 1 else None


def invert_sigmoids(model: Model | ClassifierModel) -> ScoresOf | None:
    """Return a function from probabilities to the scores of a label; None for a model without probabilities."""
    if model.sigmoids is None:
        return None
    slope, offset = model.sigmoids

    def find_scores(label: int, probabilities: np.ndarray) -> np.ndarray:
        log_odds = np.log(probabilities / (1 - probabilities)) - offset[label]
        flat = np.where(log_odds > 0, np.inf, -np.inf)  # all scores have the same probability
        return log_odds / slope[label] if slope[label] > 0 else flat

    return find_scores


def most_frequent(counts: np.ndarray, n_most: int) -> np.ndarray:
    return np.sort(np.argsort(-counts, kind="stable")[:n_most])


def gather(
    comm: mpi.Comm, run: Path, data: Path | None, split: str | None, log: Log, titles: Path | None, optimiser: bool
) -> RunReport | None:
    """Evaluate a run; return its part of the page on rank 0. Raises ConfigError, DataError, NonFiniteError. Collective."""
    model = share_model(comm, run)
    path = mpi.run_on_root(comm, f"opening {run}", lambda: find_data(run, data))
    with mpi.agreed(comm, f"opening {path}"):
        dataset = DataFile(path)
    with dataset:
        with mpi.agreed(comm, f"reading {path}"):
            if titles is not None and "row_ids" not in dataset.file:
                raise OptionError("titles", titles, f"has no effect: the rows of {path} have no ids")
        split = choose_split(comm, dataset, split, log)
        log(f"evaluating {run} on split {split} of {dataset.path}")
        trained_on = model.labels.get("n_positive")
        trained_on = trained_on if trained_on is not None and trained_on.any() else None
        curves, wrong = Curves(trained_on, invert_sigmoids(model)), WrongRows(model.thresholds, N_WRONG_PER_LABEL)
        evaluation = evaluate(comm, model, dataset, split, log, observers=(curves, wrong))
        labels, is_linear, words = evaluation.labels, isinstance(model, Model), None
        table_labels = most_frequent(evaluation.n_positive if trained_on is None else trained_on[labels], LISTED)
        if isinstance(model, Model) and model.combination is None:
            explanation = explain(comm, model, [], N_WORDS, every=labels[table_labels])
            if explanation is not None:
                columns = ((each.features.tolist(), each.weights.tolist()) for each in explanation.labels)
                words = [[(explanation.names[feature], w) for feature, w in zip(*pair, strict=True)] for pair in columns]
        report = None
        with mpi.agreed(comm, f"reading {run}"):
            if comm.rank == 0:
                worst = {kind: wrong.worst(kind, N_WRONG) for kind in KINDS}
                report = RunReport(
                    facts=read_facts(run, model),
                    evaluation=evaluation,
                    data=dataset.path,
                    n_trained_on=None if trained_on is None else trained_on[labels],
                    table_labels=table_labels,
                    thresholds=model.thresholds[labels],
                    sigmoids=None if model.sigmoids is None else (model.sigmoids[0][labels], model.sigmoids[1][labels]),
                    status=[STATUS[code] for code in model.labels["status"][labels[table_labels]].tolist()] if is_linear else None,
                    gap=model.labels["gap"][labels[table_labels]] if optimiser and "gap" in model.labels else None,
                    words=words,
                    micro=curves.micro,
                    of_groups=curves.of_groups,
                    bins=curves.reliability(),
                    wrong=worst,
                    row_ids=names_of_rows(dataset, (each.row for rows in worst.values() for each in rows)),
                )
        row_titles = titles_of_rows(comm, titles, [] if report is None else report.row_ids.values())
    if report is not None:
        report.titles = row_titles
        if titles is not None and report.row_ids and not row_titles:
            example = named(next(iter(report.row_ids.values())))
            log(f"warning: {titles} has none of the rows on the page, such as {example}; use the file that {path} was made from")
    return report
