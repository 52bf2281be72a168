"""An evaluation for people (a table) and for programs (CSV and JSON)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.seen import TOO_GOOD, seen_note
from hpcml.files import atomic
from hpcml.files.report import cell, or_none, plain
from hpcml.files.table import table, write_table
from hpcml.log import entitled, joined, plural
from hpcml.measures import COUNTS, MEASURES

HEADINGS = {name: name for name in MEASURES}
HEADINGS |= {"average_precision": "avg prec", "break_even": "break-even", "auc": "AUC", "f1": "F1", "brier": "Brier", "ece": "ECE"}
TOGETHER = 4096  # labels whose lines of a file are made at a time
ENOUGH = 3  # positives from which on a label can be among the best and worst: with 1 or 2, chance says which these are
SMALL = frozenset({"brier", "ece"})  # measures that are small where labels are rare


def _shown(measure: str, value: float, digits: int = 0) -> str:
    """A measure's value for people, with so many digits if it is a count."""
    return cell(value, ".6f" if measure in SMALL else f".{digits}f" if measure in COUNTS else ".4f")


def format_evaluation(evaluation: Evaluation, best: int = 5) -> str:
    """Macro and micro rows, what was left out, the `best` and worst labels by average precision."""
    e, measures = evaluation, list(evaluation.values)
    lines = [f"{e.model} on {e.data}, split {e.split}: {plural(e.n_rows, 'row')}, {plural(len(e.label_names), 'label')}"]
    lines += seen_note(e.seen, e.n_rows)
    if e.optimism is not None:
        lines.append(TOO_GOOD.format(*e.optimism))
    if e.n_unused:
        lines.append(f"note: {plural(e.n_unused, 'row')} of the data in no split" + (", judged, too" if e.split == "all" else ""))
    if e.n_empty:
        lines.append(f"note: {plural(e.n_empty, 'row')} without any known feature, judged as rows that get no labels")
    if e.steps.any():
        lines.append(f"iterations: {e.steps[e.steps > 0].mean():.1f} a label, {e.steps.max()} at most")
    lines += [f"{name}: {values}" for name in ("thresholds", "probabilities") if (values := getattr(e, name))]
    if len(e.label_names) > 1:
        lines.append(f"labels of a row, and all pairs in micro, ordered by {e.compared_by}")
    cells = [
        ["", *("MAP" if m == "average_precision" else HEADINGS[m] for m in measures)],
        ["macro", *(_shown(m, e.macro(m), 1) for m in measures)],
        ["  labels in it", *(str(int(e.in_macro(m).sum())) for m in measures)],
        ["micro", *(_shown(m, e.micro[m]) for m in measures)],
    ]
    lines += ["", *table(cells)]
    at = {"precision": e.precision_at, "nDCG": e.ndcg_at, "propensity-scored precision": e.propensity_scored_at}
    for name, values in at.items():
        if values:
            lines.append(f"{name} of a row's best labels: " + ", ".join(f"@{k} {cell(value)}" for k, value in values.items()))
    lines += [*_frequency_table(e), *_calibration_table(e), *_left_out(e)]
    for title, chosen in _best_and_worst(e, best).items():
        if chosen.size:
            lines += ["", *_label_table(e, title, chosen, measures)]
    return joined(lines)


def _left_out(e: Evaluation) -> list[str]:
    """Remarks on labels that are not judged, or not in all measures."""
    missed, where = plural(e.n_missed, "entry", "entries"), "in micro, nDCG, F1 per row; macro is of the model's labels"
    notes = {
        "without a row of this split that has them, left out of macro": e.n_without_positives,
        "of the model not in the data, not evaluated": len(e.not_in_data),
        f"of these rows not in the model: their {missed} count as missed ({where})": e.n_not_in_model if e.n_missed else 0,
    }
    return [f"{plural(count, 'label')} {note}" for note, count in notes.items() if count]


def _best_and_worst(e: Evaluation, best: int) -> dict[str, np.ndarray]:
    """The labels to show, under a title; of many labels those of ENOUGH positives."""
    ranked = np.flatnonzero(e.in_macro("average_precision"))
    ranked = ranked[np.argsort(-e.values["average_precision"][ranked], kind="stable")]
    if ranked.size <= 2 * best:
        return {"labels by average precision": ranked}
    frequent = ranked[e.n_positive[ranked] >= ENOUGH]
    if not 0 < frequent.size < ranked.size:
        return {"best labels by average precision": ranked[:best], "worst labels": ranked[ranked.size - best :]}
    of = f"of {ENOUGH} or more positives"
    if frequent.size <= 2 * best:
        return {f"labels {of} by average precision": frequent}
    return {f"best labels {of} by average precision": frequent[:best], f"worst labels {of}": frequent[frequent.size - best :]}


def _frequency_table(e: Evaluation) -> list[str]:
    """F1 over all labels and over the most frequent ones, a line for each number of labels."""
    if not e.by_frequency:
        return []
    rows = [[f"F1 of the most frequent labels (of {e.frequency_from})", "labels", "per row", "micro", "macro"]]
    sizes = {line.n_labels: line for line in reversed(e.by_frequency)}  # of equal sizes the largest share
    for line in reversed(sizes.values()):
        values = (cell(value) for value in (line.instance_f1, line.micro_f1, line.macro_f1))
        rows.append(["  all" if line.percent == 100 else f"  {line.percent} %", str(line.n_labels), *values])
    return ["", *table(rows), ""]


def _calibration_table(e: Evaluation) -> list[str]:
    """How good the probabilities are, a line for labels of about as many positives."""
    if not e.calibration:
        return []
    rows = [[f"probabilities, by positives (of {e.frequency_from})", "labels", "mean", "true share", "Brier", "ECE"]]
    for line in e.calibration:
        values = (line.mean_probability, line.frequency, line.brier, line.ece)
        rows.append([f"  {line.positives}", str(line.n_labels), *(f"{value:.6f}" for value in values)])
    return ["", *table(rows), ""]


def _label_table(e: Evaluation, title: str, chosen: np.ndarray, measures: list[str]) -> list[str]:
    rows = [[title, "positives", "iterations", *(HEADINGS[m] for m in measures)]]
    for label in chosen.tolist():
        counts = (str(e.n_positive[label]), str(e.steps[label]))
        name = entitled(e.label_names[label], e.label_titles, label)
        rows.append(["  " + name, *counts, *(_shown(m, e.values[m][label]) for m in measures)])
    return table(rows)


def write_csv(path: Path | str, evaluation: Evaluation) -> None:
    """One line per label; an undefined value is an empty cell. Local; raises DataError."""
    e = evaluation
    heading = [["number", "label", *(["title"] if e.label_titles else []), "n_positive", *e.values]]
    write_table(path, chain(heading, chain.from_iterable(_lines_of(e))))


def _lines_of(e: Evaluation) -> Iterator[list[tuple[object, ...]]]:
    """What is written of each label, for some labels at a time: there may be a million."""
    for begin in range(0, len(e.label_names), TOGETHER):
        some = slice(begin, begin + TOGETHER)
        named = [e.labels[some].tolist(), e.label_names[some], *([e.label_titles[some]] if e.label_titles else [])]
        values = ([or_none(value) for value in column[some]] for column in e.values.values())
        yield list(zip(*named, e.n_positive[some].tolist(), *values, strict=True))


def write_json(path: Path | str, evaluation: Evaluation) -> None:
    """Everything; an undefined value is null. Local; raises DataError."""
    e = evaluation
    columns = ["number", "label", *(["title"] if e.label_titles else []), "n_positive", *e.values]
    content: dict[str, Any] = {
        "model": e.model,
        "data": e.data,
        "split": e.split,
        "n_rows": e.n_rows,
        "n_rows_trained_on": e.seen.n_rows,
        "n_rows_in_no_split": e.n_unused,
        "map_in_folds_if_too_good": None if e.optimism is None else e.optimism[0],
        "n_labels": len(e.label_names),
        "n_without_positives": e.n_without_positives,
        "not_in_data": e.not_in_data,
        "n_not_in_model": e.n_not_in_model,
        "n_missed": e.n_missed,
        "thresholds": e.thresholds or "0 for all labels",
        "ordered_by": e.compared_by,
        "macro": {m: {"value": e.macro(m), "n_labels": int(e.in_macro(m).sum())} for m in e.values},
        "micro": e.micro,
    }
    if e.by_frequency:  # more than one label: means over rows
        at = {"precision_at": e.precision_at, "ndcg_at": e.ndcg_at, "propensity_scored_precision_at": e.propensity_scored_at}
        content |= {"instance_f1": e.instance_f1, **{name: values for name, values in at.items() if values}}
        content["by_frequency"] = {"from": e.frequency_from, "labels": e.by_frequency}
    if e.n_empty:
        content["n_rows_without_features"] = e.n_empty
    if e.calibration:
        content["probabilities"] = {"from": e.probabilities, "by_positives": e.calibration}
    content["labels"] = atomic.ListInParts(dict(zip(columns, line, strict=True)) for lines in _lines_of(e) for line in lines)
    atomic.write_json(path, plain(content))
