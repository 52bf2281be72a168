"""Description of a dataset: contents, memory of its shards, and a check of every row."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import NAMES, UNKNOWN, UNLABELLED, DataFile, split_or_all
from hpcml.data.in_memory import BLOCK, find_decrease, find_out_of_range, find_unsorted_entry, row_of
from hpcml.data.row_keys import FEATURE, string_keys
from hpcml.data.shard import read_slab, split_bounds
from hpcml.files.hdf5 import NAME_CHUNK, WRITTEN_BY, readable
from hpcml.files.untrusted import attributes, text_of
from hpcml.kernels import rows as kernels
from hpcml.log import joined, label_with_title, named, plural, size
from hpcml.partition import bounds_by_weight, even_range, row_pieces

SHOWN_LABELS = 40  # labels in the report; the others are counted


def info(comm: mpi.Comm, path: Path, ranks: list[int], check: bool = True) -> str:
    """Return a description of a dataset, with the size of a shard for each number of ranks. Collective over `comm`."""
    with mpi.agreed(comm, f"reading {path}"):
        dataset = DataFile(path)
    with dataset:
        if check:
            check_contents(comm, dataset)
            with mpi.agreed(comm, f"reading {path}"):
                for name in dataset.checked_arrays():
                    dataset.verify(name, *even_range(dataset.file[name].shape[0], comm.rank, comm.size))
        counts = _count_labels(comm, dataset)
        with mpi.agreed(comm, f"reading {path}"), readable(path, "hpcml convert", "dataset"):
            return joined([*_describe(dataset, check), *(_describe_shard(dataset, n) for n in ranks), *_tabulate(dataset, counts)])


def check_contents(comm: mpi.Comm, dataset: DataFile) -> None:
    for name, n_columns in dataset.matrices.items():
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            begin, end = even_range(dataset.n_rows, comm.rank, comm.size)
            indptr, nnz = dataset.map(f"{name}/indptr"), dataset.file[f"{name}/indices"].shape[0]
            if begin == 0 and indptr[0] != 0:
                raise dataset.damage_error(f"{name}/indptr: begins with {indptr[0]}, but expected 0", "the file")
            if (fall := find_decrease(indptr[begin : end + 1])) >= 0:
                row, (low, high) = begin + fall, indptr[begin + fall :][:2]
                raise dataset.damage_error(f"{name}/indptr: row {row}: falls from {low} to {high}", "the file")
            if end == dataset.n_rows and indptr[end] != nnz:
                raise dataset.damage_error(f"{name}/indptr: ends with {indptr[end]}, but there are {nnz} entries", "the file")
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            bounds = bounds_by_weight(indptr, comm.size)
            begin, end = int(bounds[comm.rank]), int(bounds[comm.rank + 1])
            for first, last in row_pieces(indptr[begin : end + 1], BLOCK):
                _check_rows(dataset, name, n_columns, begin + first, begin + last)
    for name in NAMES:
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            if name in dataset.file:
                begin, end = even_range(dataset.file[name].size, comm.rank, comm.size)
                for first in range(begin, end, NAME_CHUNK):
                    dataset.strings(name, first, min(first + NAME_CHUNK, end))
    with mpi.agreed(comm, f"checking the names of {dataset.path}"):
        if comm.rank == 0:
            dataset.label_names()
            dataset.unknown_names()
            # Feature names are unique: compare 8-byte digests, because there may be many names.
            digests = np.empty(dataset.n_features if "feature_names" in dataset.file else 0, dtype=np.uint64)
            for first in range(0, digests.size, NAME_CHUNK):
                names = dataset.strings("feature_names", first, first + NAME_CHUNK) or []
                digests[first : first + len(names)] = string_keys(FEATURE, names)
            order = np.argsort(digests, kind="stable")
            same = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
            for number, other in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
                (name,), (another,) = (dataset.strings("feature_names", each, each + 1) or [""] for each in (number, other))
                if name == another:
                    raise dataset.damage_error(f"feature_names: features {number} and {other} have the name {name!r}", "the file")
    for name in dataset.split_names():
        with mpi.agreed(comm, f"checking split {name} of {dataset.path}"):
            _check_split(dataset, f"splits/{name}", *even_range(dataset.split(name).size, comm.rank, comm.size))
    with mpi.agreed(comm, f"checking the unlabelled rows of {dataset.path}"):
        if dataset.n_unlabelled:
            _check_split(dataset, UNLABELLED, *even_range(dataset.n_unlabelled, comm.rank, comm.size))
            rows, indptr = dataset.map(UNLABELLED), dataset.map("Y/indptr")
            rows = rows[(rows >= 0) & (rows < dataset.n_rows)]
            if (with_labels := indptr[rows + 1] > indptr[rows]).any():
                raise dataset.damage_error(f"{UNLABELLED}: row {rows[np.argmax(with_labels)]} has a label", "the file")


def _check_rows(dataset: DataFile, name: str, n_columns: int, begin: int, end: int) -> None:
    indptr = np.array(dataset.map(f"{name}/indptr", begin, end + 1))
    first, last = int(indptr[0]), int(indptr[-1])
    indices, data = (dataset.map(f"{name}/{part}", first, last) for part in ("indices", "data"))
    infinite = ~np.isfinite(data)
    for part, values, position, problem in (
        ("indices", indices, find_out_of_range(indices, n_columns), f"is not one of the columns 0 to {n_columns - 1}"),
        ("indices", indices, find_unsorted_entry(indptr - first, indices), "is not above the one before it"),
        ("data", data, int(np.argmax(infinite)) if infinite.any() else -1, "is not a finite number"),
    ):
        if position >= 0:
            row = begin + row_of(indptr, first + position)
            raise dataset.damage_error(f"{name}/{part}: row {row}: {values[position]} {problem}", "the file")


def _check_split(dataset: DataFile, name: str, begin: int, end: int) -> None:
    if begin == end:
        return
    rows = dataset.map(name)[max(0, begin - 1) : end]
    before = -1 if begin == 0 else rows[0] - 1
    for mask, problem in (
        ((rows < 0) | (rows >= dataset.n_rows), f"is not one of the rows 0 to {dataset.n_rows - 1}"),
        (np.diff(rows, prepend=before) <= 0, "is not above the one before it"),
    ):
        wrong = np.flatnonzero(mask)
        if wrong.size:
            raise dataset.damage_error(f"{name}: row {rows[wrong[0]]} {problem}", "the file")


def _describe_shard(dataset: DataFile, n_ranks: int) -> str:
    split = split_or_all(dataset, "train")
    rows = dataset.split(split)
    rows = dataset.labelled(rows) if dataset.labelled(rows).size else rows
    sizes = []
    for begin, end in pairwise(split_bounds(dataset, rows, n_ranks).tolist()):
        shard = read_slab(dataset, rows, begin, end)
        sizes.append((shard.n_local, shard.nnz, shard.nbytes))
    extremes = zip(np.min(sizes, axis=0).tolist(), np.max(sizes, axis=0).tolist(), strict=True)
    forms = ("{:,}".format, "{:,}".format, size)
    n_rows, n_values, nbytes = (" to ".join(dict.fromkeys(map(form, pair))) for form, pair in zip(forms, extremes, strict=True))
    on = "on 1 rank: the shard" if n_ranks == 1 else f"on {n_ranks} ranks: a shard"
    return f"  {on} of {split} has {n_rows} rows, {n_values} values, {nbytes}"


def _count_labels(comm: mpi.Comm, dataset: DataFile) -> dict[str, np.ndarray]:
    counts = {}
    for name in ["all", *dataset.split_names()]:
        total = np.zeros(dataset.n_labels, dtype=np.int64)
        with mpi.agreed(comm, f"reading {dataset.path}"):
            rows = dataset.split(name)
            first, last = even_range(rows.size, comm.rank, comm.size)
            for begin in range(first, last, BLOCK // 16):
                shard = read_slab(dataset, rows, begin, min(begin + BLOCK // 16, last))
                kernels.count_labels(shard.y_indptr, shard.y_indices, shard.rows, total)
        counts[name] = mpi.allreduce_sum(comm, total)
    return counts


def _describe(data: DataFile, checked: bool) -> Iterator[str]:
    n_rows, n_label_entries = max(1, data.n_rows), data.sizes[2]
    counts = ((data.n_rows, "row"), (data.n_features, "feature"), (data.n_labels, "label"))
    yield f"{data.path}: {' × '.join(plural(*each) for each in counts)}, {size(data.path.stat().st_size)}"
    share = f"{data.nnz / max(1, data.n_rows * data.n_features):.3%} of X; {data.nnz / n_rows:.1f} per row"
    yield f"  values    {data.nnz:,} ({share}), {n_label_entries / n_rows:.2f} labels per row"
    if data.n_unknown:
        entries = plural(int(data.file[f"{UNKNOWN}/indices"].shape[0]), "entry", "entries")
        yield f"  unknown   {plural(data.n_unknown, 'label')} unknown to the --like dataset: {entries}"
    if data.n_unlabelled:
        yield f"  unlabelled {plural(data.n_unlabelled, 'row')}: not used for training or evaluation"
    if source := text_of(data.file, "source") if "source" in data.file.attrs else "":
        text = attributes(data.file["text"]) if "text" in data.file else {}
        text |= {"headings": True} if data.has_headings else {}
        settings = ", ".join(f"{key} {value}" for key, value in sorted(text.items()))
        n_skipped = int(data.file.attrs.get("skipped_records", 0))
        skipped = f", {plural(n_skipped, 'bad record')} skipped" if n_skipped else ""
        yield f"  source    {source}" + (f" ({settings})" if settings else "") + skipped
    if made_by := text_of(data.file, WRITTEN_BY) if WRITTEN_BY in data.file.attrs else "":
        yield f"  made by   hpcml {made_by}"
    if splits := data.split_names():
        yield "  splits    " + ", ".join(f"{name} {data.split(name).size:,}" for name in splits)
    if data.has_groups:
        yield f"  groups    {np.unique(data.map('row_groups')).size:,}"
    yield "  check     " + ("every row is sound" if checked else "not done")


def _tabulate(data: DataFile, counts: dict[str, np.ndarray]) -> Iterator[str]:
    order = np.argsort(-counts["all"], kind="stable")[:SHOWN_LABELS].tolist()
    label_names, titles = data.label_names(), data.label_titles()
    names = [named(label_with_title(label_names[label], titles, label)) for label in order]
    width = max([5, *map(len, names)])
    yield from ["", f"{'label':<{width}}" + "".join(f" {name:>10}" for name in counts)]
    for label, name in zip(order, names, strict=True):
        yield f"{name:<{width}}" + "".join(f" {c[label]:>10,}" for c in counts.values())
    if data.n_labels > len(order):
        frequent = ", ".join(f"{int((counts['all'] >= least).sum()):,} labels have at least {least} rows" for least in (10, 50))
        yield f"... and {data.n_labels - len(order):,} more; {frequent}"
