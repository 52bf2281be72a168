"""Labels as BioASQ's task a takes them: {"documents": [{"pmid": 1, "labels": ["D006801"]}, ...]}"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hpcml.errors import ConfigError, DataError
from hpcml.prediction.top import ScoredRows

if TYPE_CHECKING:
    from hpcml.prediction.predict import Prediction

ENDING = ".json"
BEGIN, END = '{"documents": [', "\n]}\n"


def check_bioasq(what: str, top: int | None) -> None:
    """Raise ConfigError unless labels are asked for: those above thresholds, or the best. Local."""
    if what == "probabilities":
        raise ConfigError("BioASQ's JSON holds labels without numbers; leave --probabilities out, or write .csv")
    if what != "labels" and top is None:
        raise ConfigError("BioASQ's JSON holds labels; give --labels (those above their thresholds) or --top (so many of each row)")


def bioasq_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """A line for each row of a chunk; the beginning for None. Raises DataError without ids."""
    if not prediction.has_ids:
        raise DataError("the rows have no ids, but BioASQ's JSON needs them (pmid); convert the data from a source with ids")
    if chunk is None:
        return BEGIN
    names, lines = prediction.model.label_names, []
    for place, (name, some) in enumerate(zip(prediction.ids(chunk.rows), chunk.labels(), strict=True), chunk.first):
        pmid: int | str = int(name) if name.isascii() and name.isdigit() and str(int(name)) == name else name
        document = {"pmid": pmid, "labels": [names[label] for label in some]}
        lines.append(("," if place else "") + "\n" + json.dumps(document))
    return "".join(lines)
