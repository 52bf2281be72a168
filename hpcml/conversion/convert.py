"""Making a dataset file: each rank reads its part and writes its slab; none holds the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, read_like, rename_files
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Labels, Part, RowIds, WaitingRows
from hpcml.conversion.sources import SOURCES, check_options, reader_of
from hpcml.data.dataset import NAMES_OF, UNKNOWN, UNLABELLED, checked_slabs
from hpcml.data.descriptors import read_descriptors
from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.hdf5 import (
    NAME_CHUNK,
    create_strings,
    describe_matrix,
    matrix_slabs,
    stamp,
    vocabulary_digest,
    write_label_titles,
    write_strings,
)
from hpcml.files.lines import unpacked_once
from hpcml.files.slabs import Slab, SlabFile, editing, new_file
from hpcml.files.spool import slices
from hpcml.log import Log, joined, named, plural


@dataclass(frozen=True)
class ConvertReport:
    """The result of a conversion."""

    output: Path
    rows: int
    features: int
    labels: int
    nnz: int
    splits: dict[str, int]
    dropped_values: int  # that --like lacks
    unknown_labels: int
    unknown_entries: int  # pairs of a row and an unknown label
    seconds: float
    unlabelled: int = 0  # rows that nobody labelled

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {plural(self.rows, 'row')} × {plural(self.features, 'feature')} × {plural(self.labels, 'label')}, "
            f"{plural(self.nnz, 'value')}, in {self.seconds:.1f} s"
        ]
        lines += [f"  split {name}: {plural(size, 'row')}" for name, size in self.splits.items()]
        if self.unlabelled:
            lines.append(f"  unlabelled: {plural(self.unlabelled, 'row')}, not used for training or evaluation")
        if self.dropped_values:
            lines.append(f"  left out: {plural(self.dropped_values, 'value')} (of text: words) that the --like file does not have")
        if self.unknown_labels:
            lines.append(
                f"  unknown: {plural(self.unknown_entries, 'entry', 'entries')} of {plural(self.unknown_labels, 'label')} that the "
                "--like file does not have; `hpcml evaluate` counts them as missed, --new-labels makes labels of them"
            )
        return joined(lines)


@dataclass
class _Sizes:
    """Of rows, of entries by matrix and of rows by split: all ranks', and lower ranks'."""

    total: dict[str, int]
    first: dict[str, int]
    ones: bool  # are all values of X 1?


def convert(
    comm: mpi.Comm, source: str, inputs: list[Path], output: Path, options: ConvertOptions, force: bool, log: Log
) -> ConvertReport:
    """Collective over `comm`. Make the dataset `output`: the same bytes on any number of ranks.

    Raises ConfigError for options that make no sense and an output that exists (without `force`),
    DataError for input that cannot be read or holds what it should not. Then no file remains.
    """
    is_text = check_options(source, inputs, options)
    chosen, reader = SOURCES[source], reader_of(source)
    files, made = ([], str(inputs[0])) if chosen.names else ([Path(path) for path in inputs], "")

    def read(task: Conversion) -> Part:
        with unpacked_once(comm, [] if chosen.by_file else files, task.scratch, task.max_line):
            return reader(task)

    what = files[0] if files else source
    return write_dataset(Conversion(comm, source, files, options, log, what, is_text, made), read, output, force)


def write_dataset(task: Conversion, read: Callable[[Conversion], Part], output: Path, force: bool) -> ConvertReport:
    """Collective. Make the dataset `output` of what `read` gives. Raises as `convert`."""
    begin = time.monotonic()
    comm, options = task.comm, task.options
    files = [options.like, options.stop_words, options.vocabulary, options.feature_names, options.label_names]
    files += [*task.inputs, options.descriptors, *rename_files(options.renamed)]
    with new_file(comm, output, force, files) as out:
        task = replace(task, scratch=out.path.parent)
        if options.like is not None:
            task = replace(task, like=mpi.run_on_root(comm, f"reading {options.like}", lambda: read_like(options.like, task)))
        part = read(task)
        with task.reading():
            _check_names(task.what, part)
        if part.label_titles is None:
            part.label_titles = _label_titles(task, part.labels.names)
        sizes = _sizes(comm, part)
        _check_sizes(task, part, sizes)
        size = f"{plural(part.n_features, 'feature')} × {plural(len(part.labels.names), 'label')}"
        task.log(f"{output}: writing {plural(sizes.total['rows'], 'row')} × {size}")
        _write(task, out, part, sizes)
    return ConvertReport(
        output=Path(output),
        rows=sizes.total["rows"],
        features=part.n_features,
        labels=len(part.labels.names),
        nnz=sizes.total["X"],
        splits={name: sizes.total[f"splits/{name}"] for name in part.splits.names},
        dropped_values=sizes.total["dropped"],
        unknown_labels=0 if part.labels.unknown is None else len(part.labels.unknown.names),
        unknown_entries=sizes.total.get(UNKNOWN, 0),
        unlabelled=sizes.total[UNLABELLED],
        seconds=time.monotonic() - begin,
    )


def _check_names(what: object, part: Part) -> None:
    """Raise DataError if two labels or features have one name (words are unique as made)."""
    for kind, names in (("labels", part.labels.names), ("features", part.feature_names)):
        if isinstance(names, Sequence) and (name := repeated(names)) is not None:
            raise DataError(f"{what}: two {kind} have the name {named(name)!r}; give each a name of its own")


def _check_sizes(task: Conversion, part: Part, sizes: _Sizes) -> None:
    """Raise DataError without any row or label; warn of what makes the rows of little use."""
    options = task.options
    if sizes.total["rows"] == 0:
        raise DataError(f"{task.what}: no rows; expected at least one")
    if sizes.total["Y"] == 0 and task.like is None:
        by_columns = task.source in SOURCES and "labels" in SOURCES[task.source].options and not options.labels
        hint = "name the columns of labels with --labels" if by_columns else "--like a dataset that has some"
        hint = "make more rows" if task.made else hint
        raise DataError(f"{task.what}: no label in any row; expected at least one (or {hint})")
    if sizes.total["X"] == 0:
        task.log(f"warning: {task.what}: no row has a feature, so that nothing can be learnt from the rows, nor said of them")
    for separator in ";|" if options.label_separator is None and options.labels else "":
        if found := [name for name in part.labels.names if separator in name]:
            task.log(
                f"warning: {plural(len(found), 'label')} such as {named(found[0])!r} may be several, with {separator!r} between "
                f"them; if so, give --label-separator '{separator}'"
            )
            return


def _label_titles(task: Conversion, names: list[str]) -> list[str] | None:
    """Collective. Titles by --descriptors, else --like. Raises ConfigError."""
    path = task.options.descriptors
    if path is None:
        return None if task.like is None else task.like.titles(len(names))
    titles = mpi.run_on_root(task.comm, f"reading {path}", lambda: read_descriptors(path)).titles(names)
    if names and not any(titles):
        raise ConfigError(
            f"--descriptors {path}: it has none of the labels, such as {named(names[0])!r}; leave it out, or "
            "name the file of these labels"
        )
    return titles


def _sizes(comm: mpi.Comm, part: Part) -> _Sizes:
    """Collective over `comm`. Add up the parts."""
    data, ones = part.rows.data, True
    with mpi.agreed(comm, "adding up the parts"):
        ones = data is None or all((data[some] == 1).all() for some in slices(data.size))
    sizes = {"rows": part.rows.n_rows, "dropped": part.dropped, "X": part.rows.indices.size, UNLABELLED: part.unlabelled.size}
    sizes |= {name: labels.indices.size for name, labels in part.labels.sets.items()}
    in_split = np.bincount(part.splits.of_rows[part.splits.of_rows >= 0], minlength=len(part.splits.names))
    sizes |= {f"splits/{name}": size for name, size in zip(part.splits.names, in_split, strict=True)}
    first, total = (dict(zip(sizes, found.tolist(), strict=True)) for found in mpi.exclusive_sum(comm, sizes.values()))
    return _Sizes(total, first, not mpi.agreed_any(comm, not ones))


def _describe(file: h5py.File, part: Part, sizes: _Sizes, source: str) -> None:
    """Everything in the file that is not a slab."""
    n_rows = sizes.total["rows"]
    stamp(file, "dataset")
    file.attrs["source"] = source
    file.attrs["vocabulary"] = vocabulary_digest(part.feature_names, part.n_features)
    describe_matrix(file, "X", n_rows, part.n_features, sizes.total["X"], sizes.ones)
    for name, labels in part.labels.sets.items():
        describe_matrix(file, name, n_rows, len(labels.names), sizes.total[name], ones=True)
        write_strings(file, NAMES_OF[name], labels.names)
    write_label_titles(file, part.label_titles)
    if part.feature_names is not None:
        write_strings(file, "feature_names", part.feature_names)
    if part.text is not None:
        part.text.write(file)


def _write(task: Conversion, out: SlabFile, part: Part, sizes: _Sizes) -> None:
    """Collective. Lay the file out and write this rank's slabs."""
    total, first, comm = sizes.total, sizes.first, task.comm
    slabs = matrix_slabs("X", total["rows"], total["X"], part.n_features, None if sizes.ones else "<f4")
    for name, labels in part.labels.sets.items():
        slabs |= matrix_slabs(name, total["rows"], total[name], len(labels.names), None)
    slabs |= {f"splits/{name}": Slab((total[f"splits/{name}"],), "<i8") for name in part.splits.names}
    slabs |= {UNLABELLED: Slab((total[UNLABELLED],), "<i8")} if total[UNLABELLED] else {}
    slabs |= {f"rows/{name}": Slab((total["rows"],), numbers.dtype.str) for name, numbers in part.row_numbers.items()}
    keys = {"row_keys": part.keys} | ({} if part.groups is None else {"row_groups": part.groups})
    slabs |= {name: Slab((total["rows"],), "<u8") for name in keys}
    out.layout(slabs, lambda file: _describe(file, part, sizes, task.source), checked_slabs(slabs))
    if part.row_ids is not None:
        _write_row_ids(comm, out, part.row_ids, total["rows"])
    with mpi.agreed(comm, f"writing {out.target}"):
        matrices: dict[str, WaitingRows | Labels] = {"X": part.rows, **part.labels.sets}
        for name, matrix in matrices.items():
            begin = 0 if comm.rank == 0 else 1  # entry 0 of the whole is rank 0's
            for some in slices(matrix.indptr.size):
                ends = matrix.indptr[max(begin, some.start) : some.stop]
                out.write(f"{name}/indptr", first["rows"] + max(begin, some.start), first[name] + ends)
            for some in slices(matrix.indices.size):
                out.write(f"{name}/indices", first[name] + some.start, matrix.indices[some])
        for some in slices(0 if sizes.ones else part.rows.indices.size):
            data = np.ones(some.stop - some.start, dtype=np.float32) if part.rows.data is None else part.rows.data[some]
            out.write("X/data", first["X"] + some.start, data)
        for name, numbers in (keys | {f"rows/{name}": numbers for name, numbers in part.row_numbers.items()}).items():
            out.write(name, first["rows"], numbers)
        if total[UNLABELLED]:
            out.write(UNLABELLED, first[UNLABELLED], first["rows"] + part.unlabelled)
        for number, name in enumerate(part.splits.names):
            place = first[f"splits/{name}"]
            for some in slices(part.rows.n_rows):
                rows = some.start + np.flatnonzero(part.splits.of_rows[some] == number)
                out.write(f"splits/{name}", place, first["rows"] + rows)
                place += rows.size
    out.write_checksums()


def _write_row_ids(comm: mpi.Comm, out: SlabFile, row_ids: RowIds, n_rows: int) -> None:
    """Collective over `comm`. Rank 0 writes all ranks' row ids, in row order."""
    # HDF5 lays the strings of one call out backwards, so calls are cut at rows that do not depend on the number of ranks.
    chunks = (row_ids[begin : begin + NAME_CHUNK] for begin in range(0, len(row_ids), NAME_CHUNK))
    waiting: list[str] = []
    written = 0

    def write(ids: list[str]) -> None:
        nonlocal written
        waiting.extend(ids)
        while len(waiting) >= min(NAME_CHUNK, n_rows - written) > 0:
            some = waiting[:NAME_CHUNK]
            file["row_ids"][written : written + len(some)] = np.array(some, dtype=object)
            del waiting[:NAME_CHUNK]
            written += len(some)

    with ExitStack() as stack:
        with mpi.agreed(comm, f"writing {out.target}"):
            if comm.rank == 0:
                file = stack.enter_context(editing(out.path, target=out.target))
                create_strings(file, "row_ids", n_rows)
        mpi.stream_to_root(comm, chunks, write)
        with mpi.agreed(comm, f"writing {out.target}"):
            stack.close()
