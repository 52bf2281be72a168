"""Evaluation of the runs of a report, and the content of its page."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import OptionError
from hpcml.evaluation.curves import Bin, Curve, Curves, ScoresOf
from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.evaluation.explain import explain
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.scored_rows import choose_split
from hpcml.evaluation.titles import names_of_rows, titles_of_rows
from hpcml.evaluation.wrong import KINDS, WrongRow, WrongRows
from hpcml.log import Log, named
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import STATUS, Model
from hpcml.model.open import share_model
from hpcml.reporting.facts import Facts, find_data, read_facts

N_WORDS = 6  # features per label
LISTED = 25_000  # labels in the table, those with most rows: a page with these has 12 MB and opens in 2 s
N_WRONG = 15  # worst errors of each kind
N_WRONG_PER_LABEL = 3


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
