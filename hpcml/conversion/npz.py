"""Matrices in numpy's files: X as scipy saves it, or dense; labels from there or a second file.

A file that holds both has X as `data`, `indices`, `indptr`, `shape` (or with `X_` before these
names, or dense as `X`), the labels as `y` (one of each row), as `Y` (rows × labels, 0 and 1), or as
`Y_indices`, `Y_indptr`, `Y_shape`; and it may have `feature_names`, `label_names`, `row_ids` and
`splits` (a name for each row, "" for none).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import FINITE, NumberRows, NumberSlice, csr_blocks, dense_blocks, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import check_distinct, decoded, placed, read_names
from hpcml.conversion.split import check_split_name
from hpcml.data.svmlight import label_name
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import line_limit, open_plain
from hpcml.files.npz import NPY, ZIP, Arrays
from hpcml.files.opening import open_regular
from hpcml.log import is_unicode

CSR = ("data", "indices", "indptr", "shape")
SOME = 1 << 20  # entries of a list that are looked at together


class MatrixParts(NamedTuple):
    """Where a matrix lies in a file: the names of its CSR parts, or of a dense array."""

    parts: dict[str, str]
    dense: str | None
    shape: tuple[int, int]


def find_matrix(arrays: Arrays, name: str) -> MatrixParts | None:
    """The matrix `name` ("X", "Y") of a file, None without. Raises DataError for other forms."""
    names = arrays.names
    for prefix in (f"{name}_", ""):
        parts = {part: f"{prefix}{part}" for part in CSR}
        if parts["indptr"] in names and parts["indices"] in names and (prefix or name == "X"):
            if f"{prefix}format" in names and (form := _text(arrays.whole(f"{prefix}format"))) != "csr":
                raise DataError(f"{arrays.path}: a matrix in {form} format, but expected CSR; save it as .tocsr()")
            if parts["shape"] not in names:
                raise DataError(f"{arrays.path}: array {parts['shape']} is missing; expected the numbers of rows and columns")
            return MatrixParts(parts, None, _shape(arrays, parts["shape"]))
    if "format" in names and name == "X":
        raise DataError(f"{arrays.path}: a matrix in {_text(arrays.whole('format'))} format, but expected CSR; save it as .tocsr()")
    dense = "" if names == [""] else name
    if dense not in names:
        return None
    with arrays.open(dense) as stream:
        if len(stream.shape) != 2:
            return None
        return MatrixParts({}, dense, (stream.shape[0], stream.shape[1]))


def _shape(arrays: Arrays, name: str) -> tuple[int, int]:
    found = arrays.whole(name)
    if found.shape != (2,) or found.dtype.kind not in "iu" or (found < 0).any() or (found.astype(object) >= 2**40).any():
        raise DataError(f"{arrays.path}: array {name}: expected the numbers of rows and columns")
    return int(found[0]), int(found[1])


def _text(value: np.ndarray) -> str:
    found = value.reshape(-1)[0].item() if value.size else ""
    return found.decode("ascii", "backslashreplace") if isinstance(found, bytes) else str(found)


def matrix_blocks(arrays: Arrays, layout: MatrixParts, begin: int, end: int, zero: bool) -> Iterator[NumberSlice]:
    """Rows begin..end of a matrix. Raises DataError that names the row."""
    path, n_columns = arrays.path, layout.shape[1]
    with ExitStack() as stack:
        if layout.dense is not None:
            stream = stack.enter_context(arrays.open(layout.dense))
            if stream.dtype.kind not in "biuf":
                raise DataError(f"{path}: {stream.name} holds no numbers")

            def wrong(row: int, column: int, value: float) -> str:
                return f"{path}: row {row + 1}: column {column + 1}: value {value:g}, {FINITE}"

            yield from dense_blocks(stream.read, (begin, end), n_columns, zero, wrong)
            return
        streams = {part: stack.enter_context(arrays.open(layout.parts[part])) for part in ("indptr", "indices")}
        if layout.parts["data"] in arrays.names:
            streams["data"] = stack.enter_context(arrays.open(layout.parts["data"]))
        indptr, n_rows = streams["indptr"], layout.shape[0]
        if indptr.shape != (n_rows + 1,) or indptr.dtype.kind not in "iu":
            raise DataError(f"{path}: {indptr.name} has {indptr.n_rows} entries, but expected {n_rows + 1} whole numbers")
        ends = indptr.read(begin, end + 1).astype(np.int64)
        if ends[0] < 0:
            raise DataError(f"{path}: row {begin + 1}: indptr is negative")

        def take(part: str, first: int, last: int) -> np.ndarray:
            return streams[part].read(first, last) if part in streams else np.ones(last - first)

        yield from csr_blocks(take, ends, begin, n_columns, str(path), zero)


class _Labels(NamedTuple):
    """Where labels are: in the matrix `layout`, in the list `listed`, or (neither) in a text."""

    layout: MatrixParts | None = None
    listed: str | None = None


class _Layout(NamedTuple):
    """Where the parts of a file are, and the names that it has of features and labels."""

    X: MatrixParts
    labels: _Labels
    feature_names: list[str] | None
    label_names: list[str] | None


def _describe(path: Path, labels_path: Path | None, options: ConvertOptions) -> _Layout:
    """Where what is. Raises ConfigError, DataError, OSError."""
    with Arrays(path) as arrays:
        found = find_matrix(arrays, "X")
        if found is None:
            raise DataError(f"{path}: no matrix X; expected what scipy.sparse.save_npz makes, or a dense array of rows × features")
        names = [_strings(arrays, name) for name in ("feature_names", "label_names")]
        return _Layout(found, _find_labels(path, labels_path, arrays, options), *names)


def read_npz(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    path, labels_path, options = task.inputs[0], task.inputs[1] if len(task.inputs) > 1 else None, task.options
    found = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _describe(path, labels_path, options))
    labels, (n_rows, n_features) = found.labels, found.X.shape
    feature_names = read_names(task.comm, options.feature_names, n_features, "features") or found.feature_names
    n_labels = 0 if labels.layout is None else labels.layout.shape[1]
    if options.label_names is not None and labels.layout is None:
        raise ConfigError(f"--label-names {options.label_names}: the labels have names of their own; leave it out")
    label_names = read_names(task.comm, options.label_names, n_labels, "labels") or found.label_names
    begin, end = task.share(n_rows)
    with task.reading(), Arrays(path) as arrays:
        _check_names(path, feature_names, n_features, label_names, n_labels)
        rows = NumberRows(task, feature_names, n_features, with_ids="row_ids" in arrays.names)
        for block in matrix_blocks(arrays, found.X, begin, end, options.missing_as_zero):
            rows.add(block)
        _add_names(arrays, rows, begin, end, n_rows)
        if labels == _Labels():
            for some in _text_labels(labels_path, begin, end, n_rows, options):
                rows.add_named(some)
        else:
            _add_labels(labels_path or path, labels, rows, begin, end, n_rows)
    task.log(f"{path}: read")
    return finish(task, rows, None if labels.layout is None else label_names or [str(label) for label in range(n_labels)])


def _find_labels(path: Path, labels_path: Path | None, arrays: Arrays, options: ConvertOptions) -> _Labels:
    """Where the labels are. Raises ConfigError, DataError, OSError."""
    if labels_path is None:
        if (found := find_matrix(arrays, "Y")) is not None:
            return _Labels(found)
        if "y" not in arrays.names:
            raise DataError(f"{path}: no labels (y, or Y); name a second file that has them: hpcml convert npz {path.name} LABELS")
        return _Labels(listed="y")
    with open_regular(labels_path) as file:
        head = file.read(6)
    if head != NPY and not head.startswith(ZIP):
        return _Labels()
    if options.label_separator is not None:
        raise ConfigError(f"--label-separator is for labels in a text file, but {labels_path} has an array; leave it out")
    with Arrays(labels_path) as others:
        if (found := find_matrix(others, "Y") or find_matrix(others, "X")) is not None:
            return _Labels(found)
        for name in ("", "y"):
            if name in others.names:
                return _Labels(listed=name)
    raise DataError(f"{labels_path}: no labels; expected a matrix of rows × labels, or y with one label of each row")


def _strings(arrays: Arrays, name: str) -> list[str] | None:
    """The strings of an array, None without it. Raises DataError."""
    if name not in arrays.names:
        return None
    found = arrays.whole(name)
    if found.ndim != 1 or found.dtype.kind not in "US":
        raise DataError(f"{arrays.path}: array {name}: expected a list of strings")
    return _decoded(arrays.path, name, found)


def _decoded(path: Path, name: str, values: np.ndarray) -> list[str]:
    try:
        found = [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: array {name}: a string is not UTF-8") from None
    for text in found:
        if "\0" in text or not is_unicode(text):
            raise DataError(f"{path}: array {name}: {text!r} holds a character that cannot be stored; remove it")
    return found


def _check_names(path: Path, features: Sequence[str] | None, n_features: int, labels: list[str] | None, n_labels: int) -> None:
    """Raise DataError unless there is a name for each feature and label."""
    for names, size, what in ((features, n_features, "feature_names"), (labels, n_labels, "label_names")):
        if names is not None and len(names) != size:
            raise DataError(f"{path}: {what} has {len(names)} names, but expected {size}")
    if labels is not None:
        check_distinct(labels, str(path))


def _add_names(arrays: Arrays, rows: NumberRows, begin: int, end: int, n_rows: int) -> None:
    """The names and the splits of rows begin..end, if there are any. Raises DataError, OSError."""
    for name in ("row_ids", "splits"):
        if name not in arrays.names:
            continue
        with arrays.open(name) as stream:
            if stream.shape != (n_rows,):
                raise DataError(f"{arrays.path}: array {name} has {stream.n_rows} entries, but X has {n_rows} rows")
            for low in range(begin, end, SOME):
                found = stream.read(low, min(low + SOME, end))
                if name == "row_ids" and found.dtype.kind in "iu":
                    found = found.astype(str)
                values = _decoded(arrays.path, name, found)
                if name == "row_ids":
                    rows.add_ids(values)
                else:
                    for number, value in enumerate(values):
                        with placed(f"{arrays.path}: row {low + number + 1}"):
                            check_split_name(value)
                    rows.add_splits(values)


def _add_labels(path: Path, labels: _Labels, rows: NumberRows, begin: int, end: int, n_rows: int) -> None:
    """The labels of rows begin..end: columns of the matrix, or names. Raises DataError, OSError."""
    with Arrays(path) as arrays:
        if labels.layout is None:
            with arrays.open(labels.listed) as stream:
                if stream.shape != (n_rows,):
                    raise DataError(f"{path}: the labels are {' × '.join(map(str, stream.shape))}, but X has {n_rows} rows")
                for low in range(begin, end, SOME):
                    names = _names(path, stream.read(low, min(low + SOME, end)), low)
                    rows.add_named([[name] if name else [] for name in names])
            return
        if labels.layout.shape[0] != n_rows:
            raise DataError(f"{path}: the labels have {labels.layout.shape[0]} rows, but X has {n_rows}")
        for block in matrix_blocks(arrays, labels.layout, begin, end, False):
            if (block.data != 1).any():
                wrong = int(np.argmax(block.data != 1))
                row = begin + rows.labels.n_rows + int(np.searchsorted(np.cumsum(block.lengths), wrong, side="right"))
                raise DataError(f"{path}: row {row + 1}: {block.data[wrong]:g} as a label, but expected 0 or 1")
            rows.labels.add(block.lengths, block.indices)


def _names(path: Path, values: np.ndarray, first: int) -> list[str]:
    """Labels of rows by name; of numbers, whole ones. Raises DataError."""
    if values.dtype.kind in "US":
        return _decoded(path, "y", values)
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values.tolist()]
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(values) & (values == np.floor(values)))
    if wrong.any():
        row = int(np.argmax(wrong))
        where = f"{path}: row {first + row + 1}: label {values[row]:g}"
        raise DataError(f"{where}, but a label is a name or a whole number; make classes of quantities")
    return list(map(label_name, values.tolist())) if values.dtype.kind == "f" else values.astype(str).tolist()


def _text_labels(path: Path, begin: int, end: int, n_rows: int, options: ConvertOptions) -> Iterator[list[list[str]]]:
    """The labels on lines begin..end of a text, one for each row. Raises DataError, OSError."""
    max_line, some, row = line_limit(None), [], 0
    with open_plain(path) as file:
        while line := file.readline(max_line + 1):
            if begin <= row < end:
                if len(line) > max_line:
                    raise DataError(f"{path}: line {row + 1}: longer than {max_line >> 20} MiB; mend it")
                with placed(f"{path}: line {row + 1}"):
                    text = decoded(line).strip()
                if "\0" in text:
                    raise DataError(f"{path}: line {row + 1}: a NUL, which cannot be stored; remove it")
                parts = [text] if options.label_separator is None else text.split(options.label_separator)
                some.append([part.strip() for part in parts if part.strip()])
                if len(some) == 1 << 16:
                    yield some
                    some = []
            row += 1
    if row != n_rows:
        raise DataError(f"{path}: {row} lines, but X has {n_rows} rows; expected a line with the labels of each row")
    if some:
        yield some
