"""Select features of a dataset or a model and list them: `hpcml select`.

Scores of a dataset are information gain and chi-square of features for labels, from counts (Yang & Pedersen 1997).

A feature is present in a row if its value is not 0. Counts are integers, summed over the ranks, and a score is computed from the
counts alone, so its bits do not depend on the number of ranks.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi, slices
from hpcml.data.dataset import DataFile, numbers_of, read_feature_names, split_or_all
from hpcml.data.labels import choose_labels
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.evaluation.explain import select_labels
from hpcml.files.atomic import check_output
from hpcml.files.report import ReportedResult
from hpcml.files.table import read_csv, write_table
from hpcml.kernels import elementwise
from hpcml.kernels.rows import count_features
from hpcml.log import Log, named, plural, visible
from hpcml.measures import chi_square
from hpcml.methods.online.live import n_largest, select_extremal
from hpcml.methods.online.options import OnlineOptions
from hpcml.model.open import kind_of, model_file
from hpcml.partition import entries_of, even_bounds, offsets
from hpcml.reduce.files import SeenFeatures, can_convert_text, reduce_dataset, reduce_model
from hpcml.reduce.select_options import DATASET, EFS, MODEL, NAMES, P, SelectOptions

Score = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
BLOCK_BYTES = 1 << 26  # counts per block of labels (at least one label)
COLUMNS = ("rank", "feature", "name", "score", "end")
SHOWN = 10  # feature names in the report


def information_gain(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the mutual information, in nats, of "the feature is present" and "the row has the label".

    `both` are rows with label and feature; `present` and `positive`, of broadcastable shapes, rows with one of them.
    """
    total = np.zeros(both.shape)
    for count, with_feature, with_label in (
        (both, present, positive),
        (present - both, present, n_rows - positive),
        (positive - both, n_rows - present, positive),
        (n_rows - present - positive + both, n_rows - present, n_rows - positive),
    ):
        expected = with_feature.astype(np.float64) * with_label
        ratio = np.divide(count.astype(np.float64) * n_rows, expected, out=np.ones(both.shape), where=expected > 0)
        total += count * elementwise.log(np.where(count > 0, ratio, 1.0))
    return np.maximum(total / max(1, n_rows), 0.0)


SCORES: dict[str, Score] = {"ig": information_gain, "chi2": chi_square}


def _count_features(shard: Shard, rows: np.ndarray, out: np.ndarray) -> None:
    step = slices.rows_in_slice(shard.indptr.size - 1, shard.data.size)
    for first in range(0, rows.size, step):
        count_features(shard.indptr, shard.indices, shard.data, rows[first : first + step], out)


def feature_scores(comm: mpi.Comm, shard: Shard, labels: np.ndarray, score: Score, over: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the score (d) of each feature over `labels`, and the rows with it (d). Collective over `comm`.

    `shard` are this rank's training rows; `over` is "max", or "mean" weighted by the rows of each label. Each rank scores a range
    of features, by blocks of labels.
    """
    with mpi.agreed(comm, "counting features"):
        present, (sizes, entries) = np.zeros(shard.n_features, dtype=np.int64), entries_of(shard.y_indptr, shard.rows)
        _count_features(shard, shard.rows, present)
        labels_of_rows = shard.y_indices[entries]
        ends = offsets(np.bincount(labels_of_rows, minlength=shard.n_labels))
        rows = np.repeat(shard.rows, sizes)[np.argsort(labels_of_rows, kind="stable")]  # by label
    mpi.allreduce_sum(comm, present)
    begin, end = (int(bound) for bound in even_bounds(shard.n_features, comm.size)[comm.rank : comm.rank + 2])
    own, weight = np.zeros(end - begin), 0
    frequencies, frequency_number = np.unique(present[begin:end], return_inverse=True)
    width = max(1, BLOCK_BYTES // (8 * max(1, shard.n_features)))
    for first in range(0, labels.size, width):
        with mpi.agreed(comm, "counting features with labels"):
            block = labels[first : first + width]
            both, positive = np.zeros((block.size, shard.n_features), np.int64), np.diff(ends)[block]
            for label, counts in zip(block.tolist(), both, strict=True):
                _count_features(shard, rows[ends[label] : ends[label + 1]], counts)
        mpi.allreduce_sum(comm, both)
        mpi.allreduce_sum(comm, positive)
        # scores (B × d) of features in frequencies[frequency_number[j]] rows; most features never occur with most labels
        own_both, n_rows = both[:, begin:end], shard.n_global
        never = np.zeros((positive.size, frequencies.size), np.int64)
        scores = score(never, frequencies, positive[:, None], n_rows)[:, frequency_number]
        lanes, features = np.nonzero(own_both)
        scores[lanes, features] = score(own_both[lanes, features], frequencies[frequency_number[features]], positive[lanes], n_rows)
        for number, row in enumerate(scores):  # one by one, so that bits do not depend on the block size
            own = np.maximum(own, row) if over == "max" else own + positive[number] * row
        weight += int(positive.sum())
    if over == "mean":
        own /= max(1, weight)
    return np.concatenate(mpi.allgather_arrays(comm, own)), present


@dataclass
class Selected(ReportedResult):
    by: str
    features: np.ndarray
    scores: np.ndarray  # (k)
    top: np.ndarray | None  # (k, bool); None unless efs
    names: list[str] | None = None
    output: Path = Path()
    list_path: Path = Path()
    n_available: int = 0

    def order(self) -> np.ndarray:
        """Top before bottom, then by score and number."""
        bottom = np.zeros(self.features.size, bool) if self.top is None else ~self.top
        return np.lexsort((self.features, -self.scores, bottom))

    def describe(self) -> Iterator[str]:
        ends = "" if self.top is None else f" ({self.top.sum():,} from the top, {(~self.top).sum():,} from the bottom)"
        yield f"{self.output}: {self.features.size:,} of {plural(self.n_available, 'feature')}, by {self.by}{ends}"
        if self.names is not None:
            yield "  best: " + ", ".join(named(self.names[position]) for position in self.order()[:SHOWN].tolist())
        yield f"  list: {self.list_path}"


def select(comm: mpi.Comm, path: Path, output: Path, options: SelectOptions, force: bool, log: Log) -> str:
    """Write the dataset or model `path` with selected features; return a report. Collective over `comm`."""
    options.validate()
    path, output = Path(path), Path(output)
    list_path = options.list or output.with_name(f"{output.stem}.features.csv")

    def check() -> tuple[Path, bool]:
        source = model_file(path)
        is_model = kind_of(source) in ("model", "classifier")
        for target in [output] if options.like else [output, list_path]:
            check_output(target, force, [source, options.like, options.data])
        if output == list_path:
            raise ConfigError(f"{output} is both output and list; choose different names")
        return source, is_model

    path, is_model = mpi.run_on_root(comm, f"reading {path}", check)
    options.validate(MODEL if is_model else DATASET)
    if is_model:
        selected = _select_of_model(comm, path, output, options, force)
    else:
        with mpi.agreed(comm, f"reading {path}"):
            dataset = DataFile(path)
        with dataset:
            if options.like is not None:
                features = mpi.run_on_root(comm, f"reading {options.like}", lambda: _features_like(dataset, options.like))
            else:
                selected = _choose_of_dataset(comm, dataset, options)
                features = selected.features
            reduce_dataset(comm, dataset, features, output, force)
            if "text" in dataset.file and not can_convert_text(dataset):
                log(
                    f"note: rows have unit length over all words of {path}, so `hpcml convert --like {output}` is not possible; "
                    f"convert other text with --like {path}, then use `hpcml select --like {output}`"
                )
        if options.like is not None:
            return visible(f"{output}: {features.size:,} of {plural(dataset.n_features, 'feature')}, as in {options.like}")
    selected.output, selected.list_path = output, list_path
    mpi.run_on_root(comm, f"writing {list_path}", lambda: write_list(list_path, selected))
    return str(selected)


def choose_features(by: str, scores: np.ndarray, available: np.ndarray, options: SelectOptions, what: str) -> Selected:
    keep, n_available = options.features, int(np.count_nonzero(available))
    if keep > n_available:
        raise OptionError("features", keep, f"{what} only {n_available:,} features; choose fewer")
    if by != EFS:
        features = select_extremal(scores, available, keep, 1.0)
        return Selected(by, features, scores[features], None, n_available=n_available)
    share = P if options.share is None else options.share
    features = select_extremal(scores, available, keep, share)
    top = np.isin(features, select_extremal(scores, available, n_largest(keep, share), 1.0))
    return Selected(by, features, scores[features], top, n_available=n_available)


def _select_of_model(comm: mpi.Comm, path: Path, output: Path, options: SelectOptions, force: bool) -> Selected:
    if options.by not in (None, EFS):
        why = f"{path} is a model, which supports only efs; {options.by} needs a dataset"
        raise OptionError("by", options.by, why)
    weights = selected = None
    with mpi.agreed(comm, f"reading {path}"):
        weights = SeenFeatures.read(path)
        labels = np.sort(select_labels(weights.model, options.label)) if options.label else np.arange(weights.model.n_labels)
        importance, seen = weights.importance(labels, options.over or "max")
        selected = choose_features(EFS, importance, seen, options, f"{path} has seen")
        if options.data is not None:
            with DataFile(options.data) as dataset:
                weights.model.check_vocabulary(dataset)
                selected.names = read_feature_names(dataset, selected.features)
    reduce_model(comm, weights, selected.features, output, force)
    return selected


def _choose_of_dataset(comm: mpi.Comm, dataset: DataFile, options: SelectOptions) -> Selected:
    path = dataset.path
    if options.by is None:
        raise ConfigError(f"--by is missing; expected {', '.join(NAMES[:-1])} or {NAMES[-1]}")
    none = np.zeros(dataset.n_labels, np.int64)
    labels, _ = choose_labels(comm, dataset, OnlineOptions(label=options.label, min_positives=0), none)
    split = options.split or split_or_all(dataset, "train")
    if options.by == EFS:
        if options.over == "mean":
            raise OptionError("over", "mean", "efs of a dataset takes the largest importance over the labels; remove it")
        from hpcml.methods.online.run import feature_importance

        scores, available = feature_importance(comm, dataset, split, labels, options.shuffle, options.seed or 0)
    else:
        shard = load_shard(comm, dataset, split)
        scores, present = feature_scores(comm, shard, labels, SCORES[options.by], options.over or "max")
        available = present > 0
        if not scores.any():
            raise ConfigError(f"{path}: no feature of the rows of the split {split} separates the labels (all scores are 0)")
    selected = choose_features(options.by, scores, available, options, f"the rows of the split {split} of {path} have")
    with mpi.agreed(comm, f"reading {path}"):
        selected.names = read_feature_names(dataset, selected.features)
    return selected


def _features_like(dataset: DataFile, like: Path) -> np.ndarray:
    if like.suffix.lower() == ".csv":
        numbers, names = _read_list(like)
        if not any(names) or "feature_names" not in dataset.file:
            if numbers.max() >= dataset.n_features:
                known = f"{dataset.path} has only {dataset.n_features} features"
                raise DataError(f"--like {like}: feature {numbers.max()}, but {known}")
            return numbers
    else:
        with DataFile(like) as reduced:
            names = reduced.strings("feature_names")
        for file in [like] * (names is None) + [dataset.path] * ("feature_names" not in dataset.file):
            raise OptionError("like", like, f"{file} has no feature names; use the list .features.csv instead")
    if len(set(names)) < len(names):
        raise DataError(f"--like {like}: a feature name is repeated")
    numbers = numbers_of(dataset, names)
    missing = np.flatnonzero(numbers < 0)
    if missing.size:
        raise DataError(
            f"--like {like}: {dataset.path} has no feature {names[missing[0]]!r} ({missing.size:,} of {len(names):,} are missing); "
            "first convert it with `--like` and the training file"
        )
    return numbers


def write_list(path: Path, selected: Selected) -> None:
    rows: list[Sequence[object]] = [COLUMNS if selected.top is not None else COLUMNS[:-1]]
    for rank, position in enumerate(selected.order().tolist(), 1):
        name = "" if selected.names is None else selected.names[position]
        end = [] if selected.top is None else ["top" if selected.top[position] else "bottom"]
        rows.append((rank, selected.features[position], name, float(selected.scores[position]), *end))
    write_table(path, rows)


def _read_list(path: Path) -> tuple[np.ndarray, list[str]]:
    try:
        rows = read_csv(path)
        numbers = np.array([int(row["feature"]) for row in rows], dtype=np.int64)
        names = [row["name"] for row in rows]
    except (KeyError, TypeError, ValueError, OverflowError, csv.Error):
        raise DataError(f"--like {path}: not a feature list of `hpcml select`") from None
    order = np.argsort(numbers)
    if not rows or (np.diff(numbers[order]) == 0).any() or numbers.min() < 0:
        raise DataError(f"--like {path}: not a feature list of `hpcml select` (empty, or with an invalid number)")
    return numbers[order], [names[position] for position in order.tolist()]
