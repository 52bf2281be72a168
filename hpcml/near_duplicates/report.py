"""Results of `hpcml duplicates` as a table, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.files.report import ReportedResult, cell, or_none, picked, plain
from hpcml.files.table import table, write_table
from hpcml.log import plural
from hpcml.near_duplicates.consistency import Consistency
from hpcml.near_duplicates.pairs import Bands

COLUMNS = ("number", "label", "n_rows", "base_rate", "n_pairs", "n_both", "consistency", "low", "high")


@dataclass
class Duplicates(ReportedResult):
    """The result; `by_similarity` counts the pairs from each of `steps` up to the next."""

    data: Path
    split: str
    n_rows: int
    n_empty: int
    n_equal: int
    n_limited: int
    similarity: float
    bands: Bands
    n_pairs: int
    n_counted: int  # pairs that count for label consistency
    steps: list[float]
    by_similarity: list[int]
    label_names: list[str]
    labels: Consistency
    seconds: float
    n_unlabelled: int = 0

    def base_rates(self) -> np.ndarray:
        """Return the share of the labelled rows with each label."""
        return self.labels.n_rows / max(1, self.n_rows - self.n_unlabelled)

    def describe(self, top: int = 10) -> list[str]:
        """Return the numbers of pairs, and the consistency of the `top` most frequent labels."""
        d = self
        lines = [f"{d.data}, split {d.split}: {plural(d.n_rows, 'row')}, in {d.seconds:.1f} s"]
        if d.n_empty:
            lines.append(f"excluded: {plural(d.n_empty, 'row')} without features")
        if d.n_unlabelled:
            lines.append(f"excluded from label consistency: pairs with {plural(d.n_unlabelled, 'unlabelled row')}")
        counts = [
            f"{count:,} of {low:g}{'' if low == 1 else f' to {high:g}'}"
            for low, high, count in zip(d.steps, [*d.steps[1:], 1.0], d.by_similarity, strict=True)
            if count
        ]
        of_steps = f" ({', '.join(counts)})" if len(d.steps) > 1 and counts else ""
        lines.append(f"pairs with similarity of at least {d.similarity:g}: {d.n_pairs:,}{of_steps}")
        lines.append(f"rows with the features of an earlier row: {d.n_equal:,}, each paired with the last such row")
        if d.bands.number:
            lines.append(
                f"expected recall: {100 * d.bands.recall(d.similarity):.2f} % at similarity {d.similarity:g}, more above it "
                f"({d.bands.number} bands of {d.bands.size} hashes)"
            )
        if d.n_pairs:
            lines.append(
                "note: rows of a pair may be in different splits or folds, which makes results too optimistic; to keep them together, "
                "add the column group of --output to the input and use `hpcml convert --group`"
            )
        if not d.n_pairs or not top:
            return lines
        values, (lows, highs), rates = d.labels.values(), d.labels.intervals(), d.base_rates()
        if d.n_counted < d.n_pairs:
            lines.append(f"{d.n_counted:,} pairs count for label consistency: each row with the most similar earlier row")
        rows = [["most frequent labels", "pairs", "consistency %", "95 % from", "to", "base rate %"]]
        for label in np.argsort(-d.labels.n_rows, kind="stable")[:top].tolist():
            shares = (cell(100 * value, ".2f") for value in (values[label], lows[label], highs[label], rates[label]))
            rows.append([d.label_names[label], str(d.labels.either[label]), *shares])
        total, both = int(d.labels.in_rows.sum()), int(d.labels.both.sum())
        total_text = cell(100 * (2 * both / total) if total else math.nan, ".2f")
        lines += ["", *table(rows), f"all labels together: consistency {total_text} %"]
        return lines

    def _label_rows(self) -> list[Sequence[object]]:
        labels, (lows, highs) = self.labels, self.labels.intervals()
        columns = [labels.n_rows, self.base_rates(), labels.either, labels.both, labels.values(), lows, highs]
        values = zip(*(column.tolist() for column in columns), strict=True)
        return [
            (number, name, *(or_none(value) if isinstance(value, float) else value for value in row))
            for number, (name, row) in enumerate(zip(self.label_names, values, strict=True))
        ]

    def write_csv(self, path: Path | str) -> None:
        """Write one line per label; an undefined value is an empty cell. Local; raises DataError."""
        write_table(path, [COLUMNS, *self._label_rows()])

    def as_dict(self) -> dict[str, Any]:
        """Return everything except the pairs, for JSON; an undefined value is null."""
        content: dict[str, Any] = {
            **picked(self, "data", "split", "n_rows", "n_unlabelled"),
            "n_without_features": self.n_empty,
            "n_equal_to_an_earlier_row": self.n_equal,
            **picked(self, "n_limited", "similarity"),
            "bands": self.bands.number,
            "hashes_per_band": self.bands.size,
            "expected_recall": self.bands.recall(self.similarity),
            **picked(self, "n_pairs", "n_counted"),
            "pairs_from_similarity": dict(zip(self.steps, self.by_similarity, strict=True)),
            "labels": [dict(zip(COLUMNS, row, strict=True)) for row in self._label_rows()],
        }
        return dict(plain(content))
