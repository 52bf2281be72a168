"""The findings on nearly equal rows, for people (a table) and for programs (CSV and JSON)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml.files import atomic
from hpcml.files.report import cell, or_none, plain
from hpcml.files.table import table, write_table
from hpcml.log import joined, plural
from hpcml.near_duplicates.consistency import Consistency
from hpcml.near_duplicates.pairs import Bands

COLUMNS = ("number", "label", "n_rows", "base_rate", "n_pairs", "n_both", "consistency", "low", "high")


@dataclass
class Duplicates:
    """The findings; `by_similarity` counts pairs from each of `steps` up to the next one."""

    data: Path
    split: str
    n_rows: int
    n_empty: int
    n_equal: int
    n_limited: int
    similarity: float
    bands: Bands
    n_pairs: int
    n_counted: int  # for the labels
    steps: list[float]
    by_similarity: list[int]
    label_names: list[str]
    labels: Consistency
    seconds: float
    n_unlabelled: int = 0  # rows whose pairs do not count for the labels

    def __str__(self) -> str:
        return format_duplicates(self)

    def base_rates(self) -> np.ndarray:
        """Return the share of the labelled rows with each label."""
        return self.labels.n_rows / max(1, self.n_rows - self.n_unlabelled)


def format_duplicates(found: Duplicates, top: int = 10) -> str:
    """How many pairs there are, and the consistency of the `top` most frequent labels."""
    d = found
    lines = [f"{d.data}, split {d.split}: {plural(d.n_rows, 'row')}, in {d.seconds:.1f} s"]
    if d.n_empty:
        lines.append(f"left out: {plural(d.n_empty, 'row')} without features")
    if d.n_unlabelled:
        lines.append(f"not counted for the labels: pairs of {plural(d.n_unlabelled, 'row')} that nobody labelled")
    counts = [
        f"{count:,} of {low:g}{'' if low == 1 else f' to {high:g}'}"
        for low, high, count in zip(d.steps, [*d.steps[1:], 1.0], d.by_similarity, strict=True)
        if count
    ]
    of_steps = f" ({', '.join(counts)})" if len(d.steps) > 1 and counts else ""
    lines.append(f"pairs of a similarity of at least {d.similarity:g}: {d.n_pairs:,}{of_steps}")
    lines.append(f"rows with the features of an earlier row: {d.n_equal:,}, each paired with the last of these")
    if d.bands.number:
        lines.append(
            f"expected to find {100 * d.bands.recall(d.similarity):.2f} % of the pairs of similarity {d.similarity:g}, and more of "
            f"those more alike ({d.bands.number} bands of {d.bands.size} hashes)"
        )
    if d.n_pairs:
        lines.append(
            "note: rows of a pair may lie in different splits or folds, and so raise measures; the column group of --output names "
            "rows that belong together: make it a column of the input, and give it to `hpcml convert --group`"
        )
    if not d.n_pairs or not top:
        return joined(lines)
    values, (lows, highs), rates = d.labels.values(), d.labels.intervals(), d.base_rates()
    if d.n_counted < d.n_pairs:
        lines.append(f"{d.n_counted:,} pairs count for the labels: each row with the earlier one that it is most like")
    rows = [["most frequent labels", "pairs", "consistency %", "95 % from", "to", "base rate %"]]
    for label in np.argsort(-d.labels.n_rows, kind="stable")[:top].tolist():
        shares = (cell(100 * value, ".2f") for value in (values[label], lows[label], highs[label], rates[label]))
        rows.append([d.label_names[label], str(d.labels.either[label]), *shares])
    total, both = int(d.labels.of_rows.sum()), int(d.labels.both.sum())
    together = cell(100 * (2 * both / total) if total else math.nan, ".2f")
    lines += ["", *table(rows), f"all labels together: consistency {together} %"]
    return joined(lines)


def _label_rows(found: Duplicates) -> list[Sequence[object]]:
    """The consistency of every label; None where no pair has it."""
    labels, (lows, highs) = found.labels, found.labels.intervals()
    columns = [labels.n_rows, found.base_rates(), labels.either, labels.both, labels.values(), lows, highs]
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [
        (number, name, *(or_none(value) if isinstance(value, float) else value for value in row))
        for number, (name, row) in enumerate(zip(found.label_names, values, strict=True))
    ]


def write_csv(path: Path, found: Duplicates) -> None:
    """One line per label; an undefined value is an empty cell. Local; raises DataError."""
    write_table(path, [COLUMNS, *_label_rows(found)])


def write_json(path: Path, found: Duplicates) -> None:
    """Everything but the pairs; an undefined value is null. Local; raises DataError."""
    content = {
        "data": found.data,
        "split": found.split,
        "n_rows": found.n_rows,
        "n_unlabelled": found.n_unlabelled,
        "n_without_features": found.n_empty,
        "n_equal_to_an_earlier_row": found.n_equal,
        "n_limited": found.n_limited,
        "similarity": found.similarity,
        "bands": found.bands.number,
        "hashes_per_band": found.bands.size,
        "expected_recall": found.bands.recall(found.similarity),
        "n_pairs": found.n_pairs,
        "n_counted": found.n_counted,
        "pairs_from_similarity": dict(zip(found.steps, found.by_similarity, strict=True)),
        "labels": [dict(zip(COLUMNS, row, strict=True)) for row in _label_rows(found)],
    }
    atomic.write_json(path, plain(content))
