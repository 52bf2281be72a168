"""The measures of BioASQ's task a, of labels above thresholds; the same bits on any ranks.

G. Tsatsaronis et al.: An overview of the BioASQ large-scale biomedical semantic indexing and question answering competition, BMC
Bioinformatics 16 (2015). Each measure is defined in docs/lookup/measures.md. Labels of rows that the model does not know count as
missed (`judged.Missed`), labels of the model that the data do not know as wrongly given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.descriptors import read_descriptors
from hpcml.data.labels import all_label_names, load_with_unknown
from hpcml.data.shard import without_features
from hpcml.errors import OptionError
from hpcml.evaluation.hierarchy import Hierarchy
from hpcml.evaluation.judged import positive_pairs
from hpcml.evaluation.rows import mean_over_rows
from hpcml.evaluation.seen import SeenRows, count_seen, seen_note
from hpcml.files.report import ReportedResult, cell
from hpcml.files.table import table
from hpcml.log import Log, Progress, plural
from hpcml.measures import f1, precision, recall
from hpcml.model.scoring import make_scorer, score_block
from hpcml.model.trained import Trained

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


def evaluate_bioasq(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, descriptors: Path | None, log: Log
) -> BioasqEvaluation:
    """Collective over `comm`. BioASQ's measures of a split; of the hierarchy with `descriptors`.

    Raises ConfigError or DataError if these do not fit, NonFiniteError if a score is not a number.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    places: dict[str, tuple[str, ...]] = {}  # the tree numbers of each descriptor
    if descriptors is not None:
        known = mpi.run_on_root(comm, f"reading {descriptors}", lambda: read_descriptors(descriptors))
        places = {ui: each.tree_numbers for ui, each in known.by_identifier.items()}
        if not any(places.values()):
            raise OptionError(
                "descriptors", descriptors, "it has no tree numbers; give NLM's descriptors (desc2026.xml) or remove it"
            )
    shard, thresholds = load_with_unknown(comm, dataset, split), model.thresholds
    scorer = make_scorer(model, shard, np.arange(model.n_labels))
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring rows"):
        # this rank's pairs of a row and a label that are true, and that are given, as matrices; labels are those of the data,
        # then those of the model alone
        of_data, empty = all_label_names(dataset), without_features(dataset, shard)
        known_names = set(of_data)
        names = of_data + [name for name in dict.fromkeys(model.label_names) if name not in known_names]
        number = {name: place for place, name in enumerate(names)}
        columns = np.array([number[name] for name in model.label_names], dtype=np.int64)
        pairs = [np.zeros((2, 0), dtype=np.int64)]
        with closing(Progress(log, "scoring labels", model.n_labels)) as progress:
            for begin, end in scorer.blocks:
                for first, scores in score_block(scorer, begin, end):
                    has_features = ~empty[first : first + scores.shape[0], None]
                    where, labels = np.nonzero((scores > thresholds[begin:end]) & has_features)
                    pairs.append(np.stack([first + where, columns[begin + labels]]))
                dataset.check_unchanged()
                progress.update(end)
        rows, labels = positive_pairs(shard, np.arange(len(names)))
        true, given = (
            sp.csr_matrix((np.ones(len(of_pairs[0]), dtype=np.bool_), of_pairs), (shard.rows.size, len(names)))
            for of_pairs in ((np.searchsorted(shard.rows, rows), labels), tuple(np.concatenate(pairs, axis=1)))
        )
        for matrix in (true, given):
            matrix.sum_duplicates()
        matrices = (true, given, true.multiply(given).tocsr())
    # of each label: how many rows have it, are given it, and both
    counts = (mpi.allreduce_sum(comm, np.bincount(each.indices, minlength=len(names))) for each in matrices)
    n_true, n_given, n_hits = counts
    has, is_given, not_known = n_true > 0, n_given > 0, ~np.isin(names, model.label_names)
    without = [not places.get(name) for name, used in zip(names, has | is_given, strict=True) if used]
    if places and all(without):
        raise OptionError("descriptors", descriptors, "it has a tree number of none of the labels; give the file of these labels")
    seen = count_seen(comm, model, dataset, split)
    # the measures of each of this rank's rows with a true or a given label; 0 for what is undefined
    of_rows = [np.diff(each.indptr).astype(np.int64) for each in matrices]
    judged = (of_rows[0] + of_rows[1]) > 0
    of_true, of_given, hits = (each[judged] for each in of_rows)
    values = (precision(hits, of_given), recall(hits, of_true), f1(hits, of_given, of_true), hits / (of_true + of_given - hits))
    by_row = dict(zip(OF_ROWS, map(np.nan_to_num, values), strict=True))
    if places:
        with mpi.agreed(comm, "looking for common ancestors"):
            hierarchy, lowest = Hierarchy(places), []
            with closing(Progress(log, "common ancestors, rows (rank 0)", judged.size)) as progress:
                for row in np.flatnonzero(judged).tolist():
                    sides = (each.indices[each.indptr[row] : each.indptr[row + 1]].tolist() for each in (true, given))
                    lowest.append(hierarchy.measures(*([names[label] for label in side] for side in sides)))
                    if row % 1000 == 999:
                        progress.update(row + 1)
            by_row |= zip(HIERARCHICAL, np.array(lowest).reshape(-1, len(HIERARCHICAL)).T, strict=True)
    n_own = [int(np.count_nonzero(judged)), int(np.count_nonzero(empty))]
    n_judged, n_empty = (int(n) for n in mpi.exclusive_sum(comm, n_own)[1])
    measures = {name: mean_over_rows(comm, of_name, max(1, n_judged)) for name, of_name in by_row.items()}
    means = {
        "MaP": precision(n_hits[is_given], n_given[is_given]),
        "MaR": recall(n_hits[has], n_true[has]),
        "MaF": f1(n_hits[has], n_given[has], n_true[has]),
    }
    measures |= {name: math.fsum(each.tolist()) / each.size if each.size else math.nan for name, each in means.items()}
    totals = [int(each.sum()) for each in (n_hits, n_given, n_true)]
    measures |= {"MiP": float(precision(*totals[:2])), "MiR": float(recall(totals[0], totals[2])), "MiF": float(f1(*totals))}
    return BioasqEvaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=shard.n_global,
        n_judged=n_judged,
        n_rows_without_features=n_empty,
        seen=seen,
        n_labels=len(without),
        n_unknown=int(np.count_nonzero(n_true[not_known])),
        n_missed=int(n_true[not_known].sum()),
        thresholds=model.threshold_source,
        descriptors=None if descriptors is None else str(descriptors),
        n_without_place=sum(without) if places else 0,
        measures={name: measures[name] for name in (*FLAT, *HIERARCHICAL) if name in measures},
    )
