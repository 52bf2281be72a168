"""The description of a model file, for people."""

from __future__ import annotations

import json

import numpy as np

from hpcml.files.hdf5 import MADE_ON
from hpcml.log import joined, plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import CHOSEN, Model


def format_model(model: Model | ClassifierModel) -> str:
    """The report as a text of several lines. Local."""
    attrs = model.attrs
    lines = [
        f"{model.path}: a model of {attrs.get('method', '?')}, "
        f"{plural(model.n_labels, 'label')} × {plural(model.n_features, 'feature')}"
    ]
    if isinstance(model, Model):
        parts = (
            "" if model.combination is None else f", {model.combination.n_parts} weight vectors a label ({model.combination.kind})"
        )
        stored = "the weights that are left (CSR)" if model.sparse else "a weight for each label and column"
        lines.append(f"  weights     {model.n_weights:,} in {model.n_columns:,} columns: {stored}{parts}")
    else:
        lines.append(f"  classifier  {model.base.get('name', '?')}, of {model.margin_rows.size:,} rows")
    shown: dict[str, object] = {
        name: attrs[name] for name in ("loss", "lambda", "positive_weight", "scale", "split", "n_rows") if name in attrs
    }
    for name in CHOSEN:
        if name in model.labels:
            low, high = np.quantile(model.labels[name], [0, 1])
            shown[name] = f"{low:.3g}" if low == high else f"of each label {low:.3g} to {high:.3g}"
    if shown:
        lines.append("  trained     " + ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in shown.items()))
    lines += _made_on(attrs.get(MADE_ON))
    if model.probability_source:
        lines.append(f"  probability {model.probability_source}")
    if not model.threshold_source:
        return joined([*lines, "  thresholds  0 for all labels"])
    values, counts = np.unique(model.thresholds, return_counts=True)
    spread = f"{values[0]:.6g} for all labels" if values.size == 1 else f"{values[0]:.6g} to {values[-1]:.6g}"
    lines.append(f"  thresholds  {spread}: {model.threshold_source}")
    if 1 < values.size < model.n_labels:
        lines.append(f"              {counts.max():,} labels share {values[counts.argmax()]:.6g}")
    return joined(lines)


def _made_on(text: object) -> list[str]:
    """The line of what a model was made by, as the file says; none where it does not."""
    try:
        found = json.loads(str(text))
        return [f"  made on     {found['processor']} ({found['architecture']}, compiled for {found['target']})"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)
