"""Evaluating a model on a split: exact counts over all ranks' scores, every measure from them, and their tables, CSV and JSON.

Phase 1 scores only the positive pairs (row, label); their distinct scores are the only places in a ranking that the measures ask
about. Phase 2 streams all scores, block by block, and counts how many lie above and at each of those places. Counts are integers,
so neither the blocks nor the number of ranks can change a bit. A rank's memory: the blocks (`scoring`), its own positive pairs,
about 40 bytes for each distinct score of the pool of all positive pairs, and 80 for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import count_unused
from hpcml.evaluation.comparable import BY_SCORE
from hpcml.evaluation.judged import ScoreObserver, judge
from hpcml.evaluation.probabilities import CalibrationLine, ProbabilityCounts
from hpcml.evaluation.rows import PERCENT, FrequentLabels, RowCounts
from hpcml.evaluation.seen import SeenRows, count_seen, seen_note
from hpcml.evaluation.titles import titles_of_labels
from hpcml.files.atomic import ListInParts
from hpcml.files.report import ReportedResult, cell, or_none, picked, plain
from hpcml.files.table import table, write_table
from hpcml.log import Log, Progress, label_with_title, plural
from hpcml.measures import COUNTS, MEASURES, LabelMeasures, f1, propensities
from hpcml.model.linear import IN_FOLDS
from hpcml.model.trained import Trained

HEADINGS = {name: name for name in MEASURES}
HEADINGS |= {"average_precision": "avg prec", "break_even": "break-even", "auc": "AUC", "f1": "F1", "brier": "Brier", "ece": "ECE"}
TOGETHER = 4096  # labels whose lines of a file are made at a time
ENOUGH = 3  # positives from which on a label can be among the best and worst: with 1 or 2, chance says which these are
SMALL = frozenset({"brier", "ece"})  # measures that are small where labels are rare
LARGE = 0.05  # a difference of MAP
TOO_GOOD = (
    "warning: MAP was {:.3f} in the folds of the training rows, but is {:.3f} here. Probably rows that belong together "
    "(versions, translations, one patient) were in several folds: name their groups with `hpcml convert --group`, which keeps "
    "each in one fold and one split. Or these rows differ from the training rows"
)


@dataclass
class Evaluation(LabelMeasures, ReportedResult):
    """The measures of a model on a split; an undefined one is NaN and in no mean."""

    model: str
    data: str
    split: str
    n_rows: int
    labels: np.ndarray  # the evaluated labels' numbers in the model
    label_names: list[str]
    n_positive: np.ndarray  # per evaluated label, rows of the split that have it
    not_in_data: list[str]  # labels that were asked for but that the data does not know
    n_not_in_model: int = 0  # labels of these rows that the model does not know
    n_missed: int = 0  # pairs of a row and such a label, which count as missed (`judged.Missed`)
    seen: SeenRows = field(default_factory=SeenRows)  # rows that the model was trained on
    n_unused: int = 0  # rows of the data that are in no split
    optimism: tuple[float, float] | None = None  # MAP in the folds of tuning and on these rows, if the first is too good
    n_empty: int = 0  # rows of text without a known feature: they get no labels
    values: dict[str, np.ndarray] = field(default_factory=dict)  # measure -> one value per evaluated label
    micro: dict[str, float] = field(default_factory=dict)  # measure -> its value on all (row, label) pairs in one ranking
    # k -> the share of true ones among the k best evaluated labels of a row (or all, if they are fewer), mean over the rows
    precision_at: dict[int, float] = field(default_factory=dict)
    ndcg_at: dict[int, float] = field(default_factory=dict)  # k -> nDCG of these, mean over the rows with a true label
    propensity_scored_at: dict[int, float] = field(default_factory=dict)  # empty if the model does not tell its labels' frequency
    by_frequency: list[FrequentLabels] = field(default_factory=list)  # F1 for all labels, and for the most frequent ones
    frequency_from: str = ""  # the rows that say how frequent a label is
    thresholds: str = ""  # above which scores a row has a label; "" for 0
    label_titles: list[str] | None = None  # of the evaluated labels, if the model or the data says what people call them
    compared_by: str = BY_SCORE  # what the labels of a row, and all pairs together, are ordered by
    probabilities: str = ""  # where they come from; "" for a model without
    calibration: list[CalibrationLine] = field(default_factory=list)  # of the probabilities, by the positives of labels

    @property
    def instance_f1(self) -> float:
        """Mean F1 of the rows with a true or a predicted label; NaN for a single label."""
        return self.by_frequency[0].instance_f1 if self.by_frequency else float("nan")

    @property
    def n_without_positives(self) -> int:
        """Evaluated labels that no row of the split has."""
        return int((self.n_positive == 0).sum())

    def describe(self, best: int = 5) -> Iterator[str]:
        """Return macro and micro rows, what was left out, the `best` and worst labels by average precision."""
        n_labels, measures = len(self.label_names), list(self.values)
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}, {plural(n_labels, 'label')}"
        yield from seen_note(self.seen, self.n_rows)
        if self.optimism is not None:
            yield TOO_GOOD.format(*self.optimism)
        if self.n_unused:
            yield f"note: {plural(self.n_unused, 'row')} of the data in no split" + (", judged, too" if self.split == "all" else "")
        if self.n_empty:
            yield f"note: {plural(self.n_empty, 'row')} without any known feature, judged as rows that get no labels"
        yield from (f"{name}: {source}" for name in ("thresholds", "probabilities") if (source := getattr(self, name)))
        if n_labels > 1:
            yield f"labels of a row, and all pairs in micro, ordered by {self.compared_by}"
        forms = {m: ".6f" if m in SMALL else ".0f" if m in COUNTS else ".4f" for m in measures}
        cells = [
            ["", *("MAP" if m == "average_precision" else HEADINGS[m] for m in measures)],
            ["macro", *(cell(self.macro(m), ".1f" if m in COUNTS else forms[m]) for m in measures)],
            ["  labels in it", *(str(int(self.in_macro(m).sum())) for m in measures)],
            ["micro", *(cell(self.micro[m], forms[m]) for m in measures)],
        ]
        yield from ["", *table(cells)]
        at = {"precision": self.precision_at, "nDCG": self.ndcg_at, "propensity-scored precision": self.propensity_scored_at}
        for name, values in at.items():
            if values:
                yield f"{name} of a row's best labels: " + ", ".join(f"@{k} {cell(value)}" for k, value in values.items())
        if self.by_frequency:
            cells = [[f"F1 of the most frequent labels (of {self.frequency_from})", "labels", "per row", "micro", "macro"]]
            sizes = {line.n_labels: line for line in reversed(self.by_frequency)}  # of equal sizes the largest share
            for line in reversed(sizes.values()):
                of_line = map(cell, (line.instance_f1, line.micro_f1, line.macro_f1))
                cells.append(["  all" if line.percent == 100 else f"  {line.percent} %", str(line.n_labels), *of_line])
            yield from ["", *table(cells), ""]
        if self.calibration:
            cells = [[f"probabilities, by positives (of {self.frequency_from})", "labels", "mean", "true share", "Brier", "ECE"]]
            for each in self.calibration:
                means = (each.mean_probability, each.frequency, each.brier, each.ece)
                cells.append([f"  {each.positives}", str(each.n_labels), *(f"{mean:.6f}" for mean in means)])
            yield from ["", *table(cells), ""]
        missed, where = plural(self.n_missed, "entry", "entries"), "in micro, nDCG, F1 per row; macro is of the model's labels"
        left_out = {
            "without a row of this split that has them, left out of macro": self.n_without_positives,
            "of the model not in the data, not evaluated": len(self.not_in_data),
            f"of these rows not in the model: their {missed} count as missed ({where})": self.n_not_in_model
            if self.n_missed
            else 0,
        }
        yield from (f"{plural(count, 'label')} {note}" for note, count in left_out.items() if count)
        # the best and the worst labels; of many labels those of ENOUGH positives
        ranked = np.flatnonzero(self.in_macro("average_precision"))
        ranked = ranked[np.argsort(-self.values["average_precision"][ranked], kind="stable")]
        frequent, of = ranked[self.n_positive[ranked] >= ENOUGH], f" of {ENOUGH} or more positives"
        if ranked.size <= 2 * best or not 0 < frequent.size < ranked.size:
            frequent, of = ranked, ""
        shown = {f"best labels{of} by average precision": frequent[:best], f"worst labels{of}": frequent[frequent.size - best :]}
        for title, chosen in shown.items() if frequent.size > 2 * best else [(f"labels{of} by average precision", frequent)]:
            cells = [[title, "positives", *(HEADINGS[m] for m in measures)]]
            for label in chosen.tolist():
                name = label_with_title(self.label_names[label], self.label_titles, label)
                numbers = (cell(self.values[m][label], forms[m]) for m in measures)
                cells.append(["  " + name, str(self.n_positive[label]), *numbers])
            yield from ["", *table(cells)] if chosen.size else []

    @property
    def _columns(self) -> list[str]:
        """The names of what is written of each label."""
        return ["number", "label", *(["title"] if self.label_titles else []), "n_positive", *self.values]

    def _lines(self) -> Iterator[tuple[object, ...]]:
        """Yield what is written of each label; made for some labels at a time, as there may be a million."""
        for begin in range(0, len(self.label_names), TOGETHER):
            some = slice(begin, begin + TOGETHER)
            names = [self.labels[some].tolist(), self.label_names[some], *([self.label_titles[some]] if self.label_titles else [])]
            values = ([or_none(value) for value in column[some]] for column in self.values.values())
            yield from zip(*names, self.n_positive[some].tolist(), *values, strict=True)

    def write_csv(self, path: Path | str) -> None:
        """Write one line per label; an undefined value is an empty cell. Local; raises DataError."""
        write_table(path, chain([self._columns], self._lines()))

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; an undefined value is None, and `labels` are made as they are written."""
        content: dict[str, Any] = {
            **picked(self, "model", "data", "split", "n_rows"),
            "n_rows_trained_on": self.seen.n_rows,
            "n_rows_in_no_split": self.n_unused,
            "map_in_folds_if_too_good": None if self.optimism is None else self.optimism[0],
            "n_labels": len(self.label_names),
            **picked(self, "n_without_positives", "not_in_data", "n_not_in_model", "n_missed"),
            "thresholds": self.thresholds or "0 for all labels",
            "ordered_by": self.compared_by,
            "macro": {m: {"value": self.macro(m), "n_labels": int(self.in_macro(m).sum())} for m in self.values},
            "micro": self.micro,
        }
        if self.by_frequency:  # more than one label: means over rows
            at = {"precision_at": self.precision_at, "ndcg_at": self.ndcg_at}
            at["propensity_scored_precision_at"] = self.propensity_scored_at
            content |= {"instance_f1": self.instance_f1, **{name: values for name, values in at.items() if values}}
            content["by_frequency"] = {"from": self.frequency_from, "labels": self.by_frequency}
        if self.n_empty:
            content["n_rows_without_features"] = self.n_empty
        if self.calibration:
            content["probabilities"] = {"from": self.probabilities, "by_positives": self.calibration}
        content["labels"] = ListInParts(dict(zip(self._columns, line, strict=True)) for line in self._lines())
        return dict(plain(content))


def evaluate(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    log: Log,
    labels: list[int] | None = None,
    watches: Sequence[ScoreObserver] = (),
) -> Evaluation:
    """Collective over `comm`. The measures of `labels` (numbers; None is all) on a split.

    `watches` see the scores. Raises ConfigError or DataError if model, data, split and labels do
    not fit, NonFiniteError if a score is not a number.
    """
    judged = judge(comm, model, dataset, split, labels)
    n_rows, n_labels, numbers, missed = judged.n_rows, judged.n_labels, judged.numbers, judged.missed
    titles, thresholds = titles_of_labels(model, dataset), model.thresholds[numbers]
    n_positive, values = np.zeros(n_labels, dtype=np.int64), {name: np.full(n_labels, np.nan) for name in MEASURES}
    result = Evaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=n_rows,
        labels=numbers,
        label_names=[model.label_names[label] for label in numbers.tolist()],
        n_positive=n_positive,
        not_in_data=judged.not_in_data,
        n_not_in_model=missed.n_labels,
        n_missed=missed.n_pairs,
        seen=count_seen(comm, model, dataset, split),
        n_unused=mpi.run_on_root(comm, f"reading the splits of {dataset.path}", lambda: count_unused(dataset))[0],
        n_empty=int(mpi.exclusive_sum(comm, [int(np.count_nonzero(judged.empty))])[1][0]),
        values=values,
        thresholds=model.threshold_source,
        label_titles=None if titles is None else [titles[label] for label in numbers.tolist()],
        compared_by=judged.comparable.by,
        probabilities=model.probability_source,
    )
    trained_on = model.labels.get("n_positive", np.zeros(0))
    result.frequency_from = "training rows" if trained_on.any() else "judged rows"
    frequencies = trained_on[numbers] if trained_on.any() else judged.n_positive()
    observers, by_row, calibrated = list(watches), None, None
    if n_labels > 1:
        observers.append(by_row := RowCounts(judged, frequencies, thresholds))
    if model.sigmoids is not None:
        observers.append(calibrated := ProbabilityCounts(model.sigmoids, numbers, n_rows))
    for watch in watches:
        watch.begin(judged)
    # the measures of each label
    n_predicted = np.zeros((2, n_labels), dtype=np.int64)  # rows, and hits among them
    of_none: dict[int, list[float]] = {}  # the measures of labels without positives, which are mostly the same
    with closing(Progress(log, "evaluating labels", n_labels)) as progress:
        for label, counts in judged.counts(thresholds, observers):
            ranking = counts.ranking(n_rows)
            n_predicted[:, label] = ranking.n_predicted, ranking.n_hits
            n_positive[label] = ranking.n_positive
            if (of_label := of_none.get(ranking.n_predicted) if ranking.n_positive == 0 else None) is None:
                of_label = [measure(ranking) for measure in MEASURES.values()]
            if ranking.n_positive == 0:
                of_none[ranking.n_predicted] = of_label
            for name, value in zip(MEASURES, of_label, strict=True):
                values[name][label] = value
            progress.update(label + 1)
    # the measures of all pairs in one ranking
    n_given, n_hits = n_predicted.sum(axis=1).tolist()  # each label has a threshold of its own
    ranking = judged.pool.ranking(n_rows * n_labels)
    ranking = replace(ranking, n_predicted=n_given, n_hits=n_hits, n_missed=ranking.n_missed + missed.n_pairs)
    for watch in watches:
        watch.end(judged.pool, ranking)
    result.micro = {name: measure(ranking) for name, measure in MEASURES.items()}
    # Was cross-validation on the training rows too good: is MAP lower here by more than LARGE and two standard errors, over the
    # labels that have both? The variance of a label's average precision p of n positive rows is taken for p (1 - p) / n.
    in_folds, precision = model.labels.get(IN_FOLDS, np.full(model.n_labels, np.nan))[numbers], values["average_precision"]
    both = ~np.isnan(in_folds) & ~np.isnan(precision) & (n_positive > 0)
    if both.any():
        pairs = ((in_folds[both], model.labels["n_positive"][numbers][both]), (precision[both], n_positive[both]))
        error = np.sqrt(sum((p * (1 - p) / n).sum() for p, n in pairs)) / np.count_nonzero(both)
        means = float(in_folds[both].mean()), float(precision[both].mean())
        result.optimism = means if means[0] - means[1] > max(LARGE, 2 * error) else None
    if calibrated is not None:
        calibrated.finish(comm, judged.labels, judged.positives)
        values |= {"brier": calibrated.brier, "ece": calibrated.ece}
        result.micro |= calibrated.micro
        result.calibration = calibrated.by_positives(frequencies)
    if by_row is not None:
        n_trained = int(model.attrs.get("n_rows", 0)) if trained_on.any() else 0
        by_row.finish(judged, 1.0 / propensities(np.append(frequencies, 0), n_trained) if n_trained else None)
        result.precision_at, result.ndcg_at = by_row.precision_at, by_row.ndcg_at
        result.propensity_scored_at = by_row.propensity_scored_at
        for percent, size, instance in zip(PERCENT, by_row.sizes, by_row.instance_f1, strict=True):
            some = by_row.places < size
            n_given, n_hits = n_predicted[:, some].sum(axis=1).tolist()
            n_true = int(n_positive[some].sum()) + (missed.n_pairs if some.all() else 0)
            micro, macro = float(f1(n_hits, n_given, n_true)), result.macro("f1", some)
            result.by_frequency.append(FrequentLabels(percent, size, instance, micro, macro))
    return result
