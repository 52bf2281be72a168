"""The measures of BioASQ's task a, of labels above thresholds; the same bits on any ranks.

G. Tsatsaronis et al.: An overview of the BioASQ large-scale biomedical semantic indexing and
question answering competition, BMC Bioinformatics 16 (2015). Each measure is defined in
docs/lookup/measures.md. Labels of rows that the model does not know count as missed (`judged.Missed`),
labels of the model that the data do not know as wrongly given.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.descriptors import read_descriptors
from hpcml.data.labels import all_label_names, load_with_unknown
from hpcml.data.shard import Shard, without_features
from hpcml.errors import ConfigError
from hpcml.evaluation.hierarchy import Hierarchy
from hpcml.evaluation.judged import positive_pairs
from hpcml.evaluation.ranking import f1_of
from hpcml.evaluation.report import cell, or_none
from hpcml.evaluation.scoring import block_scores, scorer_of
from hpcml.evaluation.seen import SeenRows, count_seen, seen_note
from hpcml.files.atomic import write_json
from hpcml.files.table import table
from hpcml.log import Log, Progress, joined, plural
from hpcml.model.linear import Trained

FLAT = ("MiF", "EBP", "EBR", "EBF", "MaP", "MaR", "MaF", "MiP", "MiR", "Acc")  # in the order of BioASQ's tables
OF_ROWS = ("EBP", "EBR", "EBF", "Acc")
HIERARCHICAL = ("LCA-P", "LCA-R", "LCA-F")


@dataclass
class BioasqEvaluation:
    """The measures of a split; an undefined one is NaN."""

    model: str
    data: str
    split: str
    n_rows: int
    n_judged: int  # rows that have a true or a given label
    n_rows_without_features: int  # rows of text without a known feature: they get no labels
    seen: SeenRows  # rows that the model was trained on
    n_labels: int  # that a row has or is given
    n_unknown: int  # labels that rows have and the model does not know
    n_missed: int  # pairs of a row and such a label
    thresholds: str
    descriptors: str | None = None
    n_without_place: int = 0  # of n_labels, those without a tree number
    values: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}, {plural(self.n_labels, 'label')}"]
        lines += seen_note(self.seen, self.n_rows)
        lines.append(f"thresholds: {self.thresholds or '0 for all labels'}")
        for names in (FLAT, HIERARCHICAL):
            shown = [name for name in names if name in self.values]
            if shown:
                lines += ["", *table([shown, [cell(self.values[name]) for name in shown]])]
        missed = plural(self.n_missed, "entry", "entries")
        notes = {
            "without any known feature, judged as rows that get no labels": (self.n_rows_without_features, "row"),
            "without true and without given labels, in no mean": (self.n_rows - self.n_judged, "row"),
            f"of these rows not in the model: their {missed} count as missed": (self.n_unknown, "label"),
            "without a tree number, put below the root": (self.n_without_place, "label"),
        }
        return joined([*lines, *(f"{plural(*counted)} {note}" for note, counted in notes.items() if counted[0])])

    def write_json(self, path: Path) -> None:
        """Everything; an undefined measure is null. Local; raises DataError."""
        content = {name: value for name, value in vars(self).items() if name != "values"}
        content["measures"] = {name: or_none(value) for name, value in self.values.items()}
        write_json(path, content)


@dataclass
class _Pairs:
    """This rank's pairs, ascending: each is place of row · width + place of label."""

    n_rows: int
    names: list[str]  # of the labels: those of the data, then those of the model alone
    true: np.ndarray
    given: np.ndarray

    @property
    def hits(self) -> np.ndarray:
        """The pairs that are both."""
        return np.intersect1d(self.true, self.given, assume_unique=True)

    def by_row(self, pairs: np.ndarray) -> np.ndarray:
        """How many labels each row has (n_rows)."""
        return np.bincount(pairs // len(self.names), minlength=self.n_rows)

    def by_label(self, pairs: np.ndarray) -> np.ndarray:
        """How many rows each label has (n_labels)."""
        return np.bincount(pairs % len(self.names), minlength=len(self.names))


def evaluate_bioasq(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, descriptors: Path | None, log: Log
) -> BioasqEvaluation:
    """Collective over `comm`. BioASQ's measures of a split; of the hierarchy with `descriptors`.

    Raises ConfigError or DataError if these do not fit, NonFiniteError if a score is not a number.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    places = {} if descriptors is None else _places(comm, descriptors)
    shard = load_with_unknown(comm, dataset, split)
    pairs = _pairs(comm, model, dataset, shard, log)
    n_true, n_given, n_hits = (mpi.allreduce_sum(comm, pairs.by_label(each)) for each in (pairs.true, pairs.given, pairs.hits))
    used, not_known = (n_true + n_given) > 0, ~np.isin(pairs.names, model.label_names)
    without = [not places.get(name) for name, some in zip(pairs.names, used, strict=True) if some]
    if places and all(without):
        raise ConfigError(f"--descriptors {descriptors}: it has a tree number of none of the labels; give the file of these labels")
    seen = count_seen(comm, model, dataset, split)
    rows = _of_rows(pairs)
    if places:
        with mpi.agreed(comm, "looking for common ancestors"):
            rows |= _of_hierarchy(pairs, Hierarchy(places), log)
    _, (n_judged, n_empty) = mpi.exclusive_sum(comm, [rows["EBF"].size, int(np.count_nonzero(without_features(dataset, shard)))])
    means = {name: _mean(comm, values, int(n_judged)) for name, values in rows.items()}
    values = means | _of_labels(n_true, n_given, n_hits)
    return BioasqEvaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=shard.n_global,
        n_judged=int(n_judged),
        n_rows_without_features=int(n_empty),
        seen=seen,
        n_labels=len(without),
        n_unknown=int(np.count_nonzero(n_true[not_known])),
        n_missed=int(n_true[not_known].sum()),
        thresholds=model.threshold_source,
        descriptors=None if descriptors is None else str(descriptors),
        n_without_place=sum(without) if places else 0,
        values={name: values[name] for name in (*FLAT, *HIERARCHICAL) if name in values},
    )


def _places(comm: mpi.Comm, descriptors: Path) -> dict[str, tuple[str, ...]]:
    """Collective over `comm`. The tree numbers of each descriptor; raises ConfigError without."""
    known = mpi.run_on_root(comm, f"reading {descriptors}", lambda: read_descriptors(descriptors))
    places = {ui: each.tree_numbers for ui, each in known.of.items()}
    if not any(places.values()):
        raise ConfigError(
            f"--descriptors {descriptors}: it has no tree numbers; give NLM's descriptors (desc2026.xml) or leave it out"
        )
    return places


def _pairs(comm: mpi.Comm, model: Trained, dataset: DataFile, shard: Shard, log: Log) -> _Pairs:
    """Collective over `comm`. The true pairs, and those above their thresholds: 8 bytes each."""
    scorer, thresholds = scorer_of(model, shard, np.arange(model.n_labels)), model.thresholds
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring rows"):
        of_data, empty = all_label_names(dataset), without_features(dataset, shard)
        known = set(of_data)
        names = of_data + [name for name in dict.fromkeys(model.label_names) if name not in known]
        number, width, given = {name: place for place, name in enumerate(names)}, len(names), [np.zeros(0, dtype=np.int64)]
        columns = np.array([number[name] for name in model.label_names], dtype=np.int64)
        with closing(Progress(log, "scoring labels", model.n_labels)) as progress:
            for begin, end in scorer.blocks:
                for first, scores in block_scores(scorer, begin, end):
                    has_features = ~empty[first : first + scores.shape[0], None]
                    where, labels = np.nonzero((scores > thresholds[begin:end]) & has_features)
                    given.append((first + where) * width + columns[begin + labels])
                dataset.check_unchanged()
                progress.update(end)
        rows, labels = positive_pairs(shard, np.arange(width))
        true = np.sort(np.searchsorted(shard.rows, rows) * width + labels)
    return _Pairs(int(shard.rows.size), names, true, np.unique(np.concatenate(given)))


def _of_rows(pairs: _Pairs) -> dict[str, np.ndarray]:
    """The measures of each of this rank's rows that has a true or a given label."""
    true, given, hits = (pairs.by_row(each) for each in (pairs.true, pairs.given, pairs.hits))
    judged = (true + given) > 0
    true, given, hits = true[judged], given[judged], hits[judged].astype(np.float64)
    values = (hits / np.maximum(given, 1), hits / np.maximum(true, 1), f1_of(hits, given, true), hits / (true + given - hits))
    return dict(zip(OF_ROWS, values, strict=True))


def _of_labels(n_true: np.ndarray, n_given: np.ndarray, n_hits: np.ndarray) -> dict[str, float]:
    """The measures of labels from how many rows each has, is given to, and both."""
    has, is_given, hits = n_true > 0, n_given > 0, n_hits.astype(np.float64)

    def mean(values: np.ndarray) -> float:
        return math.fsum(values.tolist()) / values.size if values.size else math.nan

    def ratio(a: float, b: float) -> float:
        return a / b if b else math.nan

    return {
        "MaP": mean(hits[is_given] / n_given[is_given]),
        "MaR": mean(hits[has] / n_true[has]),
        "MaF": mean(f1_of(hits[has], n_given[has], n_true[has])),
        "MiP": ratio(hits.sum(), int(n_given.sum())),
        "MiR": ratio(hits.sum(), int(n_true.sum())),
        "MiF": float(f1_of(hits.sum(), n_given.sum(), n_true.sum())),
    }


def _of_hierarchy(pairs: _Pairs, hierarchy: Hierarchy, log: Log) -> dict[str, np.ndarray]:
    """LCA-P, LCA-R and LCA-F of this rank's rows with a true or a given label."""
    width, found = len(pairs.names), []
    bounds = [np.searchsorted(each, np.arange(pairs.n_rows + 1) * width).tolist() for each in (pairs.true, pairs.given)]
    with closing(Progress(log, "common ancestors, rows (rank 0)", pairs.n_rows)) as progress:
        for row in range(pairs.n_rows):
            sets = [
                [pairs.names[label] for label in (each[bound[row] : bound[row + 1]] % width).tolist()]
                for each, bound in zip((pairs.true, pairs.given), bounds, strict=True)
            ]
            if sets[0] or sets[1]:
                found.append(hierarchy.measures(*sets))
            if row % 1000 == 999:
                progress.update(row + 1)
    columns = np.array(found).reshape(-1, len(HIERARCHICAL)).T
    return dict(zip(HIERARCHICAL, columns, strict=True))


def _mean(comm: mpi.Comm, values: np.ndarray, n_global: int) -> float:
    """Collective over `comm`. The mean of all ranks' values, which are between 0 and 1."""
    total = mpi.exact_sum(comm, np.ascontiguousarray(values), float(max(1, n_global)), max(1, n_global))
    return total / n_global if n_global else math.nan
