"""The measures of BioASQ's task a, for labels above thresholds, with the same bits on any number of ranks.

G. Tsatsaronis et al.: An overview of the BioASQ large-scale biomedical semantic indexing and question answering competition, BMC
Bioinformatics 16 (2015). docs/lookup/measures.md defines each measure. Labels unknown to the model count as missed
(`scored_rows.Missed`), labels of the model that the dataset does not have as wrong.
"""

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
from hpcml.data.labels import all_label_names, load_shard_with_unknown
from hpcml.data.shard import mask_empty_texts
from hpcml.errors import OptionError
from hpcml.evaluation.hierarchy import Hierarchy
from hpcml.evaluation.rows import mean_over_rows
from hpcml.evaluation.scored_rows import SeenRows, count_seen, positive_pairs, warn_about_training_rows
from hpcml.files.report import ReportedResult, cell
from hpcml.files.table import table
from hpcml.log import Log, Progress, plural
from hpcml.measures import f1, precision, recall
from hpcml.model.scoring import make_scorer, score_block
from hpcml.model.trained import Trained

FLAT = ("MiF", "EBP", "EBR", "EBF", "MaP", "MaR", "MaF", "MiP", "MiR", "Acc")  # in the order of BioASQ's tables
EXAMPLE_BASED = ("EBP", "EBR", "EBF", "Acc")
HIERARCHICAL = ("LCA-P", "LCA-R", "LCA-F")


@dataclass
class BioasqEvaluation(ReportedResult):
    """BioASQ's measures on a split; an undefined one is NaN.

    Attributes
    ----------
    measures : dict
        The value of each measure: MiF, EBP, EBR, EBF, MaP, MaR, MaF, MiP, MiR, Acc and, with descriptors, LCA-P, LCA-R, LCA-F.
    n_rows, n_judged, n_rows_without_features : int
        Number of rows; of rows with a true or a predicted label; of rows of text without a known feature, which get no labels.
    n_labels, n_unknown, n_missed : int
        Number of true or predicted labels; of true labels unknown to the model, and of their pairs with rows.
    n_without_place : int
        Number of labels without a tree number.

    Examples
    --------
    >>> hpcml.evaluate("run", "docs.h5", measures="bioasq").measures["MiF"]
    """

    model: str
    data: str
    split: str
    n_rows: int
    n_judged: int
    n_rows_without_features: int
    seen: SeenRows
    n_labels: int
    n_unknown: int
    n_missed: int
    thresholds: str
    descriptors: str | None = None
    n_without_place: int = 0
    measures: dict[str, float] = field(default_factory=dict)

    def describe(self) -> Iterator[str]:
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}, {plural(self.n_labels, 'label')}"
        yield from warn_about_training_rows(self.seen, self.n_rows)
        for names in (FLAT, HIERARCHICAL):
            if present := [name for name in names if name in self.measures]:
                yield from ["", *table([present, [cell(self.measures[name]) for name in present]])]
        yield from ["", f"thresholds: {self.thresholds or '0 for all labels'}"]
        occurrences = plural(self.n_missed, "occurrence")
        notes = {
            "without any known feature get no labels": (self.n_rows_without_features, "row"),
            "without true and without predicted labels, excluded from all means": (self.n_rows - self.n_judged, "row"),
            f"of these rows unknown to the model; their {occurrences} count as missed": (self.n_unknown, "label"),
            "without a tree number, placed below the root": (self.n_without_place, "label"),
        }
        yield from (f"note: {plural(*counted)} {note}" for note, counted in notes.items() if counted[0])


def evaluate_bioasq(
    comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, descriptors: Path | None, log: Log
) -> BioasqEvaluation:
    """Return BioASQ's measures on a split. Raises ConfigError, DataError, NonFiniteError. Collective over `comm`."""
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    tree_numbers: dict[str, tuple[str, ...]] = {}  # by descriptor
    if descriptors is not None:
        known = mpi.run_on_root(comm, f"reading {descriptors}", lambda: read_descriptors(descriptors))
        tree_numbers = {ui: each.tree_numbers for ui, each in known.by_identifier.items()}
        if not any(tree_numbers.values()):
            raise OptionError("descriptors", descriptors, "no tree numbers; give NLM's descriptors (desc2026.xml) or remove it")
    shard, thresholds = load_shard_with_unknown(comm, dataset, split), model.thresholds
    scorer = make_scorer(model, shard, np.arange(model.n_labels))
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring rows"):
        # this rank's true and predicted pairs of a row and a label as matrices; labels of the dataset come first, then others
        data_names, empty = all_label_names(dataset), mask_empty_texts(dataset, shard)
        in_data = set(data_names)
        names = data_names + [name for name in dict.fromkeys(model.label_names) if name not in in_data]
        number = {name: label for label, name in enumerate(names)}
        columns = np.array([number[name] for name in model.label_names], dtype=np.int64)
        pairs = [np.zeros((2, 0), dtype=np.int64)]
        with closing(Progress(log, "scoring labels", model.n_labels)) as progress:
            for begin, end in scorer.blocks:
                for first, scores in score_block(scorer, begin, end):
                    has_features = ~empty[first : first + scores.shape[0], None]
                    rows, labels = np.nonzero((scores > thresholds[begin:end]) & has_features)
                    pairs.append(np.stack([first + rows, columns[begin + labels]]))
                dataset.check_unchanged()
                progress.update(end)
        rows, labels = positive_pairs(shard, np.arange(len(names)))
        true, predicted = (
            sp.csr_matrix((np.ones(len(of_pairs[0]), dtype=np.bool_), of_pairs), (shard.rows.size, len(names)))
            for of_pairs in ((np.searchsorted(shard.rows, rows), labels), tuple(np.concatenate(pairs, axis=1)))
        )
        for matrix in (true, predicted):
            matrix.sum_duplicates()
        matrices = (true, predicted, true.multiply(predicted).tocsr())
    # for each label: the number of rows that have it, that get it, and both
    n_true, n_predicted, n_hits = (mpi.allreduce_sum(comm, np.bincount(each.indices, minlength=len(names))) for each in matrices)
    is_true, is_predicted, is_unknown = n_true > 0, n_predicted > 0, ~np.isin(names, model.label_names)
    without_number = [not tree_numbers.get(name) for name, used in zip(names, is_true | is_predicted, strict=True) if used]
    if tree_numbers and all(without_number):
        raise OptionError("descriptors", descriptors, "no tree number of any label; give the file of these labels")
    seen = count_seen(comm, model, dataset, split)
    # the measures of each of this rank's rows with a true or a predicted label; undefined ones are 0
    sizes = [np.diff(each.indptr).astype(np.int64) for each in matrices]
    has_labels = (sizes[0] + sizes[1]) > 0
    row_true, row_predicted, hits = (each[has_labels] for each in sizes)
    accuracy = hits / (row_true + row_predicted - hits)
    values = (precision(hits, row_predicted), recall(hits, row_true), f1(hits, row_predicted, row_true), accuracy)
    by_row = dict(zip(EXAMPLE_BASED, map(np.nan_to_num, values), strict=True))
    if tree_numbers:
        with mpi.agreed(comm, "finding common ancestors"):
            hierarchy, lca = Hierarchy(tree_numbers), []
            with closing(Progress(log, "common ancestors, rows (rank 0)", has_labels.size)) as progress:
                for row in np.flatnonzero(has_labels).tolist():
                    sides = (each.indices[each.indptr[row] : each.indptr[row + 1]].tolist() for each in (true, predicted))
                    lca.append(hierarchy.measures(*([names[label] for label in side] for side in sides)))
                    if row % 1000 == 999:
                        progress.update(row + 1)
            by_row |= zip(HIERARCHICAL, np.array(lca).reshape(-1, len(HIERARCHICAL)).T, strict=True)
    local = [int(np.count_nonzero(has_labels)), int(np.count_nonzero(empty))]
    n_with_labels, n_empty = (int(n) for n in mpi.exclusive_sum(comm, local)[1])
    measures = {name: mean_over_rows(comm, of_name, max(1, n_with_labels)) for name, of_name in by_row.items()}
    by_label = {
        "MaP": precision(n_hits[is_predicted], n_predicted[is_predicted]),
        "MaR": recall(n_hits[is_true], n_true[is_true]),
        "MaF": f1(n_hits[is_true], n_predicted[is_true], n_true[is_true]),
    }
    measures |= {name: math.fsum(each.tolist()) / each.size if each.size else math.nan for name, each in by_label.items()}
    totals = [int(each.sum()) for each in (n_hits, n_predicted, n_true)]
    measures |= {"MiP": float(precision(*totals[:2])), "MiR": float(recall(totals[0], totals[2])), "MiF": float(f1(*totals))}
    return BioasqEvaluation(
        model=str(model.path),
        data=str(dataset.path),
        split=split,
        n_rows=shard.n_global,
        n_judged=n_with_labels,
        n_rows_without_features=n_empty,
        seen=seen,
        n_labels=len(without_number),
        n_unknown=int(np.count_nonzero(n_true[is_unknown])),
        n_missed=int(n_true[is_unknown].sum()),
        thresholds=model.threshold_source,
        descriptors=None if descriptors is None else str(descriptors),
        n_without_place=sum(without_number) if tree_numbers else 0,
        measures={name: measures[name] for name in (*FLAT, *HIERARCHICAL) if name in measures},
    )
