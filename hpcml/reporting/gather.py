"""Judging the runs of a report, and all that the page says of them."""

from __future__ import annotations

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
from hpcml.evaluation.seen import split_to_judge
from hpcml.evaluation.titles import names_of_rows, titles_of
from hpcml.evaluation.wrong import KINDS, WrongRow, WrongRows
from hpcml.log import Log, named
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import STATUS, Model
from hpcml.model.open import share_model
from hpcml.reporting.facts import Facts, data_of, facts_of

WORDS = 6  # of a label
LISTED = 25_000  # labels in the table, those of most rows: the page of so many has 12 MB, and opens in 2 s
WRONG = 15  # most wrong rows of each kind
PER_LABEL = 3  # most wrong rows of one label, in the table of all


@dataclass
class RunReport:
    """The content of one run's part of the page; arrays have an entry for each evaluated label.

    `status`, `gap` and `words` have one for each label that is listed.
    """

    facts: Facts
    evaluation: Evaluation
    data: Path
    n_trained_on: np.ndarray | None  # training rows with the label, if the model tells
    listed: np.ndarray  # the places, among the evaluated labels, of those in the table
    thresholds: np.ndarray  # scores
    sigmoids: tuple[np.ndarray, np.ndarray] | None  # slope and offset, if the model has probabilities
    status: list[str] | None
    gap: np.ndarray | None  # only where it is asked for
    words: list[list[tuple[str, float]]] | None  # the features of the largest squared weights, with weights
    micro: Curve
    of_groups: list[Curve]
    bins: list[Bin]  # none if the scores are no probabilities
    wrong: dict[str, list[WrongRow]]  # by KINDS, the worst first
    row_ids: dict[int, str] = field(default_factory=dict)  # of the wrong rows, if the data have ids
    titles: dict[str, str] = field(default_factory=dict)  # by id, if the user has named a file of them

    @property
    def frequency(self) -> np.ndarray:
        """By which labels are grouped: training rows with the label, or those judged."""
        return self.evaluation.n_positive if self.n_trained_on is None else self.n_trained_on

    def convert_scores(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return scores (n) of labels[i], as probabilities if the model has them."""
        return scores if self.sigmoids is None else probabilities(scores[None], *self.sigmoids, labels[None])[0]

    @cached_property
    def converted_thresholds(self) -> np.ndarray:
        """The labels' thresholds, as probabilities if the model has them."""
        return self.convert_scores(self.thresholds, np.arange(self.thresholds.size))

    @property
    def one_threshold(self) -> float | None:
        """The one of `converted_thresholds`; None if there are several."""
        return float(self.converted_thresholds[0]) if np.unique(self.converted_thresholds).size == 1 else None


def probability_of(model: Model | ClassifierModel) -> ScoresOf | None:
    """The scores of a model's labels that have some probabilities; None without any. Local."""
    if model.sigmoids is None:
        return None
    slope, offset = model.sigmoids

    def scores_of(label: int, probabilities: np.ndarray) -> np.ndarray:
        log_odds = np.log(probabilities / (1 - probabilities)) - offset[label]
        flat = np.where(log_odds > 0, np.inf, -np.inf)  # one probability for all scores
        return log_odds / slope[label] if slope[label] > 0 else flat

    return scores_of


def most_frequent(counts: np.ndarray, most: int) -> np.ndarray:
    """The places (ascending) of the `most` largest counts; of equal ones the first."""
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def gather(
    comm: mpi.Comm, run: Path, data: Path | None, split: str | None, log: Log, titles: Path | None, optimiser: bool
) -> RunReport | None:
    """Collective over `comm`. Judge a run and find what the page says of it; on rank 0, else None.

    `optimiser`: with the figures of the optimiser. Raises ConfigError or DataError if run, data and
    split do not fit, NonFiniteError for scores that are no numbers.
    """
    model = share_model(comm, run)
    chosen = mpi.run_on_root(comm, f"opening {run}", lambda: data_of(run, data))
    with mpi.agreed(comm, f"opening {chosen}"):
        dataset = DataFile(chosen)
    with dataset:
        with mpi.agreed(comm, f"reading {chosen}"):
            if titles is not None and "row_ids" not in dataset.file:
                raise OptionError("titles", titles, f"has no effect: the rows of {chosen} have no ids")
        split = split_to_judge(comm, dataset, split, log)
        log(f"judging {run} on split {split} of {dataset.path}")
        trained_on = model.labels.get("n_positive")
        trained_on = trained_on if trained_on is not None and trained_on.any() else None
        curves, wrong = Curves(trained_on, probability_of(model)), WrongRows(model.thresholds, PER_LABEL)
        evaluation = evaluate(comm, model, dataset, split, log, watches=(curves, wrong))
        labels, linear, words = evaluation.labels, isinstance(model, Model), None
        listed = most_frequent(evaluation.n_positive if trained_on is None else trained_on[labels], LISTED)
        if isinstance(model, Model) and model.combination is None:
            found = explain(comm, model, [], WORDS, every=labels[listed])
            if found is not None:
                columns = ((each.features.tolist(), each.weights.tolist()) for each in found.labels)
                words = [[(found.names[feature], w) for feature, w in zip(*pair, strict=True)] for pair in columns]
        report = None
        with mpi.agreed(comm, f"reading {run}"):
            if comm.rank == 0:
                worst = {kind: wrong.worst(kind, WRONG) for kind in KINDS}
                report = RunReport(
                    facts=facts_of(run, model),
                    evaluation=evaluation,
                    data=dataset.path,
                    n_trained_on=None if trained_on is None else trained_on[labels],
                    listed=listed,
                    thresholds=model.thresholds[labels],
                    sigmoids=None if model.sigmoids is None else (model.sigmoids[0][labels], model.sigmoids[1][labels]),
                    status=[STATUS[code] for code in model.labels["status"][labels[listed]].tolist()] if linear else None,
                    gap=model.labels["gap"][labels[listed]] if optimiser and "gap" in model.labels else None,
                    words=words,
                    micro=curves.micro,
                    of_groups=curves.of_groups,
                    bins=curves.reliability(),
                    wrong=worst,
                    row_ids=names_of_rows(dataset, (each.row for some in worst.values() for each in some)),
                )
        of_rows = titles_of(comm, titles, [] if report is None else report.row_ids.values())
    if report is not None:
        report.titles = of_rows
        if titles is not None and report.row_ids and not of_rows:
            one = named(next(iter(report.row_ids.values())))
            log(f"warning: {titles} has none of the rows on the page, such as {one}; name the file that {chosen} was made of")
    return report
