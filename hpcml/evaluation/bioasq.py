"""The measures of BioASQ's task a, of labels above thresholds; the same bits on any ranks.

G. Tsatsaronis et al.: An overview of the BioASQ large-scale biomedical semantic indexing and
question answering competition, BMC Bioinformatics 16 (2015). Each measure is defined in
docs/lookup/measures.md. Labels of rows that the model does not know count as missed (`judged.Missed`),
labels of the model that the data do not know as wrongly given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.descriptors import read_descriptors
from hpcml.data.labels import all_label_names, load_with_unknown
from hpcml.data.shard import Shard, without_features
from hpcml.errors import ConfigError
from hpcml.evaluation.hierarchy import Hierarchy
from hpcml.evaluation.judged import positive_pairs
from hpcml.evaluation.rows import mean_over_rows
from hpcml.evaluation.scoring import block_scores, scorer_of
from hpcml.evaluation.seen import SeenRows, count_seen, seen_note
from hpcml.files.report import ReportedResult, cell
from hpcml.files.table import table
from hpcml.log import Log, Progress, plural
from hpcml.measures import f1, precision, recall
from hpcml.model.linear import Trained

FLAT = ("MiF", "EBP", "EBR", "EBF", "MaP", "MaR", "MaF", "MiP", "MiR", "Acc")  # in the order of BioASQ's tables
OF_ROWS = ("EBP", "EBR", "EBF", "Acc")
HIERARCHICAL = ("LCA-P", "LCA-R", "LCA-F")


@dataclass
class BioasqEvaluation(ReportedResult):
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
    measures: dict[str, float] = field(default_factory=dict)

    def describe(self) -> Iterator[str]:
        """Return the measures, flat ones and those of the hierarchy, and what was left out."""
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}, {plural(self.n_labels, 'label')}"
        yield from seen_note(self.seen, self.n_rows)
        yield f"thresholds: {self.thresholds or '0 for all labels'}"
        for names in (FLAT, HIERARCHICAL):
            if shown := [name for name in names if name in self.measures]:
                yield from ["", *table([shown, [cell(self.measures[name]) for name in shown]])]
        missed = plural(self.n_missed, "entry", "entries")
        notes = {
            "without any known feature, judged as rows that get no labels": (self.n_rows_without_features, "row"),
            "without true and without given labels, in no mean": (self.n_rows - self.n_judged, "row"),
            f"of these rows not in the model: their {missed} count as missed": (self.n_unknown, "label"),
            "without a tree number, put below the root": (self.n_without_place, "label"),
        }
        yield from (f"{plural(*counted)} {note}" for note, counted in notes.items() if counted[0])


class _Pairs(NamedTuple):
    """This rank's pairs of a row and a label, as CSR matrices (n_rows × labels): the true ones, those given, and both."""

    names: list[str]  # of the labels: those of the data, then those of the model alone
    true: sp.csr_matrix
    given: sp.csr_matrix
    hits: sp.csr_matrix


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
    counts = (np.bincount(each.indices, minlength=len(pairs.names)) for each in pairs[1:])
    n_true, n_given, n_hits = (mpi.allreduce_sum(comm, count) for count in counts)
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
    means = {name: mean_over_rows(comm, values, max(1, int(n_judged))) for name, values in rows.items()}
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
        measures={name: values[name] for name in (*FLAT, *HIERARCHICAL) if name in values},
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
    """Collective over `comm`. The true pairs, and those above their thresholds."""
    scorer, thresholds = scorer_of(model, shard, np.arange(model.n_labels)), model.thresholds
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring rows"):
        of_data, empty = all_label_names(dataset), without_features(dataset, shard)
        known = set(of_data)
        names = of_data + [name for name in dict.fromkeys(model.label_names) if name not in known]
        number = {name: place for place, name in enumerate(names)}
        shape, given = (shard.rows.size, len(names)), [np.zeros((2, 0), dtype=np.int64)]
        columns = np.array([number[name] for name in model.label_names], dtype=np.int64)
        with closing(Progress(log, "scoring labels", model.n_labels)) as progress:
            for begin, end in scorer.blocks:
                for first, scores in block_scores(scorer, begin, end):
                    has_features = ~empty[first : first + scores.shape[0], None]
                    where, labels = np.nonzero((scores > thresholds[begin:end]) & has_features)
                    given.append(np.stack([first + where, columns[begin + labels]]))
                dataset.check_unchanged()
                progress.update(end)
        rows, labels = positive_pairs(shard, np.arange(len(names)))
        true = _matrix(np.searchsorted(shard.rows, rows), labels, shape)
        rows, labels = np.concatenate(given, axis=1)
        of_model = _matrix(rows, labels, shape)
        return _Pairs(names, true, of_model, true.multiply(of_model).tocsr())


def _matrix(rows: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    """The pairs, each once and in order, as a matrix of True."""
    matrix = sp.csr_matrix((np.ones(rows.size, dtype=np.bool_), (rows, labels)), shape)
    matrix.sum_duplicates()
    return matrix


def _of_rows(pairs: _Pairs) -> dict[str, np.ndarray]:
    """The measures of each of this rank's rows that has a true or a given label; 0 for what is undefined."""
    true, given, hits = (np.diff(each.indptr).astype(np.int64) for each in pairs[1:])
    judged = (true + given) > 0
    true, given, hits = true[judged], given[judged], hits[judged]
    values = (precision(hits, given), recall(hits, true), f1(hits, given, true), hits / (true + given - hits))
    return dict(zip(OF_ROWS, map(np.nan_to_num, values), strict=True))


def _of_labels(n_true: np.ndarray, n_given: np.ndarray, n_hits: np.ndarray) -> dict[str, float]:
    """The measures of labels from how many rows each has, is given to, and both."""
    has, is_given = n_true > 0, n_given > 0

    def mean(values: np.ndarray) -> float:
        return math.fsum(values.tolist()) / values.size if values.size else math.nan

    true, given, hits = (int(counts.sum()) for counts in (n_true, n_given, n_hits))
    return {
        "MaP": mean(precision(n_hits[is_given], n_given[is_given])),
        "MaR": mean(recall(n_hits[has], n_true[has])),
        "MaF": mean(f1(n_hits[has], n_given[has], n_true[has])),
        "MiP": float(precision(hits, given)),
        "MiR": float(recall(hits, true)),
        "MiF": float(f1(hits, given, true)),
    }


def _of_hierarchy(pairs: _Pairs, hierarchy: Hierarchy, log: Log) -> dict[str, np.ndarray]:
    """LCA-P, LCA-R and LCA-F of this rank's rows with a true or a given label."""
    found, n_rows = [], pairs.true.shape[0]
    with closing(Progress(log, "common ancestors, rows (rank 0)", n_rows)) as progress:
        for row in range(n_rows):
            sides = (each.indices[each.indptr[row] : each.indptr[row + 1]].tolist() for each in (pairs.true, pairs.given))
            true, given = ([pairs.names[label] for label in side] for side in sides)
            if true or given:
                found.append(hierarchy.measures(true, given))
            if row % 1000 == 999:
                progress.update(row + 1)
    columns = np.array(found).reshape(-1, len(HIERARCHICAL)).T
    return dict(zip(HIERARCHICAL, columns, strict=True))
