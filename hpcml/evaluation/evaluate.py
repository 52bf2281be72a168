"""Evaluation of a model on a split: exact counts over all ranks' scores, every measure from them, and tables, CSV and JSON.

Phase 1 scores only the positive pairs (row, label); their distinct scores are the only positions in a ranking that the measures
need. Phase 2 streams all scores, block by block, and counts how many lie above and at each of these scores. Counts are integers, so
the result has the same bits for any blocks and any number of ranks. Memory of a rank: the blocks (`scoring`), its own positive
pairs, about 100 bytes for each positive pair of all ranks, and 120 for each row.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import count_unused
from hpcml.evaluation.comparable import BY_SCORE
from hpcml.evaluation.intervals import LEVEL, Interval, bootstrap_mean, bootstrap_ratio
from hpcml.evaluation.probabilities import CalibrationLine, ProbabilityCounts
from hpcml.evaluation.rows import PERCENT, FrequentLabels, RowCounts
from hpcml.evaluation.scored_rows import (
    ScoreObserver,
    SeenRows,
    count_seen,
    label_measures,
    load_scored_rows,
    warn_about_training_rows,
)
from hpcml.evaluation.titles import titles_of_labels
from hpcml.files.atomic import ListInParts
from hpcml.files.report import ReportedResult, cell, nan_to_none, plain, select_attributes
from hpcml.files.table import table, write_table
from hpcml.log import Log, Progress, label_with_title, named, plural
from hpcml.measures import MEASURES, LabelMeasures, f1, propensities
from hpcml.model.linear import CROSS_VALIDATED_PRECISION
from hpcml.model.trained import Trained

# the columns of the tables, the most important first
HEADINGS = {"f1": "F1", "precision": "precision", "recall": "recall", "average_precision": "AP", "auc": "ROC AUC"}
LABELS_PER_WRITE = 4096  # labels that are formatted for a file at a time
# With 1 or 2 positive rows, chance decides which labels are the best and worst.
ENOUGH_POSITIVES = 3
LONGEST_NAME = 44  # characters of a label's name in a table of 100 columns
# A fall of MAP from the folds of tuning to these rows that is reported, if it exceeds two standard errors as well.
LARGE_FALL = 0.05
MAP_FELL = (
    "warning: MAP was {:.3f} in cross-validation on the training rows but is {:.3f} here. Related rows (versions, translations, "
    "one patient) were probably in several folds: name their groups with `hpcml convert --group`, which keeps each group in one "
    "fold and one split. Or these rows differ from the training rows"
)


@dataclass
class Evaluation(LabelMeasures, ReportedResult):
    """Measures of a model on a split.

    An undefined measure is NaN and is excluded from means.

    Attributes
    ----------
    n_rows : int
        Number of evaluated rows.
    labels, label_names : ndarray (n_labels,), list of str
        Numbers of the evaluated labels in the model, ascending, and their names.
    n_positive : ndarray (n_labels,)
        Number of evaluated rows that have each label.
    values : dict
        For each measure (average_precision, break_even, auc, f1, precision, recall, misclassified, and brier and ece of models
        with probabilities) the values of the labels (n_labels,). `macro(measure)` is their mean.
    micro : dict
        For each measure its value over all (row, label) pairs in one ranking.
    precision_at, ndcg_at, propensity_scored_at : dict
        For k = 1, 3, 5 the mean over rows of precision, nDCG and propensity-scored precision of a row's k best labels. Empty for
        a single label; the last one also if the model does not store how frequent labels are.
    by_frequency : list of FrequentLabels
        F1 over all labels, and over the most frequent ones.
    calibration : list of CalibrationLine
        Quality of the probabilities, by the number of positive rows of labels.
    intervals : dict
        95 % bootstrap intervals (value, low, high) by kind and measure: micro, instance, precision_at, ndcg_at and
        propensity_scored_at over rows (or groups of rows), macro over labels.
    n_not_in_model, n_missed : int
        Number of labels of these rows that the model does not know, and of their pairs with rows, which count as missed.
    not_in_data : list of str
        Requested labels that the dataset does not have.

    Examples
    --------
    >>> result = hpcml.evaluate("run", "docs.h5")
    >>> result.macro("average_precision"), result.micro["f1"], result.intervals["micro"]["f1"].low
    """

    model: str
    data: str
    split: str
    n_rows: int
    labels: np.ndarray
    label_names: list[str]
    n_positive: np.ndarray
    not_in_data: list[str]
    n_not_in_model: int = 0
    n_missed: int = 0
    seen: SeenRows = field(default_factory=SeenRows)  # rows that the model was trained on
    n_unused: int = 0  # rows of the dataset in no split
    optimism: tuple[float, float] | None = None  # MAP in the folds of tuning and on these rows, if it fell
    n_empty: int = 0  # rows of text without a known feature: they get no labels
    values: dict[str, np.ndarray] = field(default_factory=dict)
    micro: dict[str, float] = field(default_factory=dict)
    precision_at: dict[int, float] = field(default_factory=dict)
    ndcg_at: dict[int, float] = field(default_factory=dict)
    propensity_scored_at: dict[int, float] = field(default_factory=dict)
    by_frequency: list[FrequentLabels] = field(default_factory=list)
    frequency_from: str = ""  # the rows in which labels are counted for `by_frequency`
    thresholds: str = ""  # their source; "" for 0
    label_titles: list[str] | None = None
    compared_by: str = BY_SCORE  # the order of the labels of a row, and of all pairs
    probabilities: str = ""  # their source; "" for a model without
    calibration: list[CalibrationLine] = field(default_factory=list)
    block_sums: dict[tuple[str, int | str], np.ndarray] = field(default_factory=dict, repr=False)  # for `intervals`
    has_groups: bool = False  # intervals are over groups of rows
    verbose: bool = False  # show internals in the text

    @property
    def instance_f1(self) -> float:
        """Return the mean F1 of the rows with a true or a predicted label; NaN for a single label."""
        return self.by_frequency[0].instance_f1 if self.by_frequency else float("nan")

    @property
    def n_without_positives(self) -> int:
        """Return the number of evaluated labels that no row of the split has."""
        return int((self.n_positive == 0).sum())

    @cached_property
    def intervals(self) -> dict[str, dict[int | str, Interval]]:
        intervals: dict[str, dict[int | str, Interval]] = {}
        for (kind, name), sums in self.block_sums.items():
            intervals.setdefault(kind, {})[name] = bootstrap_ratio(sums)
        return intervals | {"macro": {m: bootstrap_mean(self.values[m][self.in_macro(m)]) for m in self.values}}

    def describe(self, best: int = 5) -> Iterator[str]:
        """Return the lines of the text: warnings, means over rows, macro and micro measures, notes, `best` and worst labels."""
        n_labels = len(self.label_names)
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}, {plural(n_labels, 'label')}"
        yield from warn_about_training_rows(self.seen, self.n_rows)
        if self.optimism is not None:
            yield MAP_FELL.format(*self.optimism)
        at = {"P@k": "precision_at", "nDCG@k": "ndcg_at", "PSP@k": "propensity_scored_at"}
        cells = [["", *(f"k = {k}" + " " * 9 for k in self.precision_at)]]
        for heading, kind in at.items():
            if values := getattr(self, kind):
                cells.append([heading, *(self._with_interval(value, kind, k) for k, value in values.items())])
        yield from ["", *(line.rstrip() for line in table(cells))] if len(cells) > 1 else []
        headings = {m: heading for m, heading in HEADINGS.items() if m in self.values}
        cells = [["", *(heading + " " * 9 for heading in headings.values())]]
        cells.append(["macro", *(self._with_interval(self.macro(m), "macro", m) for m in headings)])
        cells.append(
            ["micro" if n_labels > 1 else "this label", *(self._with_interval(self.micro[m], "micro", m) for m in headings)]
        )
        if self.by_frequency:
            cells.append(["per row", self._with_interval(self.instance_f1, "instance", "f1"), *[""] * (len(headings) - 1)])
        yield from ["", *(line.rstrip() for line in table(cells if n_labels > 1 else [cells[0], cells[2]]))]
        yield from ["", *self._notes(), *(self._details() if self.verbose else ()), *self._best_and_worst(best)]

    def _with_interval(self, value: float, kind: str, name: int | str) -> str:
        interval = self.intervals.get(kind, {}).get(name, Interval(value))
        return cell(value) + (" " * 9 if np.isnan(interval.low) else f" ± {interval.half_width:.4f}")

    def _notes(self) -> Iterator[str]:
        n_labels = len(self.label_names)
        if n_labels > 1:
            n_macro = int((self.n_positive > 0).sum())
            sizes = {heading: int(self.in_macro(m).sum()) for m, heading in HEADINGS.items() if m in self.values}
            fewer = "".join(f", {heading} over {size:,}" for heading, size in sizes.items() if size < n_macro)
            yield f"macro: mean over the {plural(n_macro, 'label')} with positive rows{fewer}; micro: all row-label pairs"
        if self.block_sums:
            over = "groups of rows" if self.has_groups else "rows"
            yield f"±: half of the {LEVEL} % bootstrap interval, over {over}" + ("; of macro: over labels" if n_labels > 1 else "")
        yield f"thresholds: {self.thresholds or '0 for all labels'}"
        if self.probabilities:
            quality = f"Brier score {self.micro['brier']:.4g}, ECE {self.micro['ece']:.4g}; " if self.calibration else ""
            yield f"probabilities: {quality}{self.probabilities}"
        unknown = f"{plural(self.n_not_in_model, 'label')} of these rows unknown to the model; their "
        unknown += f"{plural(self.n_missed, 'occurrence')} count as missed"
        unused = f"{plural(self.n_unused, 'row')} of the data in no split" + (", evaluated, too" if self.split == "all" else "")
        n_excluded, n_absent = self.n_without_positives, len(self.not_in_data)
        counts = {
            f"{plural(n_excluded, 'label')} without a positive row in this split, excluded from macro": n_excluded,
            f"{plural(n_absent, 'label')} of the model not in the data, not evaluated": n_absent,
            **{unknown: self.n_missed, unused: self.n_unused},
            f"{plural(self.n_empty, 'row')} without any known feature get no labels": self.n_empty,
        }
        yield from (f"note: {note}" for note, count in counts.items() if count)
        if not self.verbose:
            yield "more: --verbose (break-even, numbers of pairs, by frequency of labels), --csv (all labels)"

    def _details(self) -> Iterator[str]:
        if len(self.label_names) > 1:
            yield f"labels of a row, and all pairs in micro, are ordered by {self.compared_by}"
        yield f"break-even (R-precision): macro {cell(self.macro('break_even'))}, micro {cell(self.micro['break_even'])}"
        wrong = self.micro["misclassified"], self.macro("misclassified")
        yield f"misclassified row-label pairs: {cell(wrong[0], ',.0f')}, {cell(wrong[1], ',.1f')} per label"
        counts = (f"{HEADINGS[m]} {int(self.in_macro(m).sum()):,}" for m in HEADINGS)
        yield f"labels in each macro mean: {', '.join(counts)}"
        if self.by_frequency:
            cells = [[f"F1 of the most frequent labels (in {self.frequency_from})", "per row", "micro", "macro"]]
            sizes = {line.n_labels: line for line in reversed(self.by_frequency)}  # of equal sizes the largest share
            for line in reversed(sizes.values()):
                name = "all" if line.percent == 100 else f"{line.percent} %"
                values = map(cell, (line.instance_f1, line.micro_f1, line.macro_f1))
                cells.append([f"  {name} ({plural(line.n_labels, 'label')})", *values])
            yield from ["", *table(cells)]
        if self.calibration:
            cells = [[f"probabilities, by positive rows (in {self.frequency_from})", "mean", "positive", "Brier", "ECE"]]
            for each in self.calibration:
                means = (each.mean_probability, each.frequency, each.brier, each.ece)
                name = f"  {each.positives} ({plural(each.n_labels, 'label')})"
                cells.append([name, *(f"{mean:.6f}" for mean in means)])
            yield from ["", *table(cells)]

    def _best_and_worst(self, n: int) -> Iterator[str]:
        """Yield the tables of the n best and worst labels by average precision, with enough positive rows where possible."""
        ranked = np.flatnonzero(self.in_macro("average_precision")) if len(self.label_names) > 1 else np.zeros(0, np.int64)
        ranked = ranked[np.argsort(-self.values["average_precision"][ranked], kind="stable")]
        frequent, which = ranked[self.n_positive[ranked] >= ENOUGH_POSITIVES], f" with {ENOUGH_POSITIVES} or more positive rows"
        if ranked.size <= 2 * n or not 0 < frequent.size < ranked.size:
            frequent, which = ranked, ""
        tables = {f"best labels{which}": frequent[:n], f"worst labels{which}": frequent[frequent.size - n :]}
        headings = {m: heading for m, heading in HEADINGS.items() if m in self.values}
        for title, labels in tables.items() if frequent.size > 2 * n else [(f"labels{which}", frequent)]:
            cells = [[f"{title} (positive rows)", *headings.values()]]
            for label in labels.tolist():
                name = named(label_with_title(self.label_names[label], self.label_titles, label), LONGEST_NAME)
                cells.append([f"  {name} ({self.n_positive[label]:,})", *(cell(self.values[m][label]) for m in headings)])
            yield from ["", *table(cells)] if labels.size else []

    @property
    def _columns(self) -> list[str]:
        return ["number", "label", *(["title"] if self.label_titles else []), "n_positive", *self.values]

    def _lines(self) -> Iterator[tuple[object, ...]]:
        """Yield the values of each label, formatted in parts, as there may be a million labels."""
        for begin in range(0, len(self.label_names), LABELS_PER_WRITE):
            part = slice(begin, begin + LABELS_PER_WRITE)
            names = [self.labels[part].tolist(), self.label_names[part], *([self.label_titles[part]] if self.label_titles else [])]
            values = ([nan_to_none(value) for value in column[part]] for column in self.values.values())
            yield from zip(*names, self.n_positive[part].tolist(), *values, strict=True)

    def write_csv(self, path: Path | str) -> None:
        """Write one line per label; an undefined value is an empty cell. Local.

        Parameters
        ----------
        path : path
            File to write; an existing file is replaced.

        Raises
        ------
        DataError
            If the file cannot be written.

        Examples
        --------
        >>> hpcml.evaluate("run", "docs.h5").write_csv("labels.csv")
        """
        write_table(path, chain([self._columns], self._lines()))

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; an undefined value is None, and `labels` is an iterable that is made while it is written."""
        content: dict[str, Any] = {
            **select_attributes(self, "model", "data", "split", "n_rows"),
            "n_rows_trained_on": self.seen.n_rows,
            "n_rows_in_no_split": self.n_unused,
            "map_in_folds_if_too_good": None if self.optimism is None else self.optimism[0],
            "n_labels": len(self.label_names),
            **select_attributes(self, "n_without_positives", "not_in_data", "n_not_in_model", "n_missed"),
            "thresholds": self.thresholds or "0 for all labels",
            "ordered_by": self.compared_by,
            "macro": {m: {"value": self.macro(m), "n_labels": int(self.in_macro(m).sum())} for m in self.values},
            "micro": self.micro,
        }
        keys = {"precision_at": "precision_at", "ndcg_at": "ndcg_at", "propensity_scored_at": "propensity_scored_precision_at"}
        if self.by_frequency:  # more than one label: means over rows
            at = {key: getattr(self, kind) for kind, key in keys.items()}
            content |= {"instance_f1": self.instance_f1, **{name: values for name, values in at.items() if values}}
            content["by_frequency"] = {"from": self.frequency_from, "labels": self.by_frequency}
        if self.n_empty:
            content["n_rows_without_features"] = self.n_empty
        if self.calibration:
            content["probabilities"] = {"from": self.probabilities, "by_positives": self.calibration}
        content["intervals"] = {"level": LEVEL / 100, "over": "groups" if self.has_groups else "rows", "macro_over": "labels"} | {
            keys.get(kind, kind): {str(name): [each.low, each.high] for name, each in by_name.items()}
            for kind, by_name in self.intervals.items()
        }
        content["labels"] = ListInParts(dict(zip(self._columns, line, strict=True)) for line in self._lines())
        return dict(plain(content))


def evaluate(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    log: Log,
    labels: list[int] | None = None,
    observers: Sequence[ScoreObserver] = (),
) -> Evaluation:
    """Return the measures of `labels` (default: all). Raises ConfigError, DataError, NonFiniteError. Collective over `comm`."""
    scored = load_scored_rows(comm, model, dataset, split, labels)
    n_rows, n_labels, numbers, missed = scored.n_rows, scored.n_labels, scored.numbers, scored.missed
    titles, thresholds = titles_of_labels(model, dataset), model.thresholds[numbers]
    n_positive, values = scored.n_positive(), {name: np.full(n_labels, np.nan) for name in MEASURES}
    result = Evaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=n_rows,
        labels=numbers,
        label_names=[model.label_names[label] for label in numbers.tolist()],
        n_positive=n_positive,
        not_in_data=scored.not_in_data,
        n_not_in_model=missed.n_labels,
        n_missed=missed.n_pairs,
        seen=count_seen(comm, model, dataset, split),
        n_unused=mpi.run_on_root(comm, f"reading the splits of {dataset.path}", lambda: count_unused(dataset))[0],
        n_empty=int(mpi.exclusive_sum(comm, [int(np.count_nonzero(scored.empty))])[1][0]),
        values=values,
        thresholds=model.threshold_source,
        label_titles=None if titles is None else [titles[label] for label in numbers.tolist()],
        compared_by=scored.comparable.by,
        probabilities=model.probability_source,
        has_groups=dataset.has_groups,
        verbose=log.verbose,
    )
    trained_on = model.labels.get("n_positive", np.zeros(0))
    result.frequency_from = "training rows" if trained_on.any() else "evaluated rows"
    frequencies = trained_on[numbers] if trained_on.any() else scored.n_positive()
    row_counts, probability_counts = RowCounts(scored, frequencies, thresholds), None
    counters: list[ScoreObserver] = [*observers, row_counts]
    if model.sigmoids is not None:
        counters.append(probability_counts := ProbabilityCounts(model.sigmoids, numbers, n_rows))
    for observer in observers:
        observer.begin(scored)
    with closing(Progress(log, "evaluating labels", n_labels)) as progress:
        counts, pool = scored.count(thresholds, counters, progress)
    values |= label_measures(counts, n_rows)
    # the measures of all pairs in one ranking, each label with its own threshold
    n_given, n_hits = int(counts.n_predicted.sum()), int(counts.n_hits.sum())
    ranking = pool.ranking(n_rows * n_labels)
    ranking = replace(ranking, n_predicted=n_given, n_hits=n_hits, n_missed=ranking.n_missed + missed.n_pairs)
    for observer in observers:
        observer.end(pool, ranking)
    result.micro = {name: float(measure(ranking)) for name, measure in MEASURES.items()}
    # Is MAP lower here than in cross-validation, by more than LARGE_FALL and two standard errors, over the labels that have both?
    # The variance of a label's average precision p of n positive rows is estimated as p (1 - p) / n.
    in_folds, precision = (
        model.labels.get(CROSS_VALIDATED_PRECISION, np.full(model.n_labels, np.nan))[numbers],
        values["average_precision"],
    )
    both = ~np.isnan(in_folds) & ~np.isnan(precision) & (n_positive > 0)
    if both.any():
        pairs = ((in_folds[both], model.labels["n_positive"][numbers][both]), (precision[both], n_positive[both]))
        error = np.sqrt(sum((p * (1 - p) / n).sum() for p, n in pairs)) / np.count_nonzero(both)
        means = float(in_folds[both].mean()), float(precision[both].mean())
        result.optimism = means if means[0] - means[1] > max(LARGE_FALL, 2 * error) else None
    if probability_counts is not None:
        probability_counts.finish(comm, scored.labels, scored.positives)
        values |= {"brier": probability_counts.brier, "ece": probability_counts.ece}
        result.micro |= probability_counts.micro
        result.calibration = probability_counts.by_positives(frequencies)
    n_trained = int(model.attrs.get("n_rows", 0)) if trained_on.any() else 0
    row_counts.finish(scored, 1.0 / propensities(np.append(frequencies, 0), n_trained) if n_trained else None)
    result.block_sums = row_counts.block_sums
    if n_labels > 1:
        result.precision_at, result.ndcg_at = row_counts.precision_at, row_counts.ndcg_at
        result.propensity_scored_at = row_counts.propensity_scored_at
        for percent, size, instance in zip(PERCENT, row_counts.sizes, row_counts.instance_f1, strict=True):
            frequent = row_counts.frequency_ranks < size
            n_given, n_hits = int(counts.n_predicted[frequent].sum()), int(counts.n_hits[frequent].sum())
            n_true = int(n_positive[frequent].sum()) + (missed.n_pairs if frequent.all() else 0)
            micro, macro = float(f1(n_hits, n_given, n_true)), result.macro("f1", frequent)
            result.by_frequency.append(FrequentLabels(percent, size, instance, micro, macro))
    return result
