"""Matrices in numpy's files: X as scipy saves it, or dense; labels from there or a second file.

A file that holds both has X as `data`, `indices`, `indptr`, `shape` (or with `X_` before these
names, or dense as `X`), the labels as `y` (one of each row), as `Y` (rows × labels, 0 and 1), or as
`Y_indices`, `Y_indptr`, `Y_shape`; and it may have `feature_names`, `label_names`, `row_ids` and
`splits` (a name for each row, "" for none).
"""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import FINITE, NumberRows, NumberSlice, csr_blocks, dense_blocks, finish
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import check_distinct, check_matrix_labels, read_names
from hpcml.conversion.table import Batch, Roles, describe_rows, numbered
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import line_limit, read_lines
from hpcml.files.opening import open_regular
from hpcml.files.temporary import scratch_folder
from hpcml.log import is_unicode

CSR = ("data", "indices", "indptr", "shape")
MATRICES = [f"{prefix}{part}" for prefix in ("", "X_", "Y_") for part in (*CSR, "format")]
KNOWN = {*MATRICES, "X", "Y", "y", "feature_names", "label_names", "row_ids", "splits"}  # other arrays are not read
DAMAGE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, KeyError, SyntaxError)
NPY, ZIP = b"\x93NUMPY", b"PK"
SOME = 1 << 16  # entries of a list that are looked at together


class Arrays(NamedTuple):
    """The arrays of a .npz file, memory-mapped, by name; or the one of a .npy file, named ""."""

    path: Path
    of: dict[str, np.ndarray]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of numpy and zipfile about a damaged file into a DataError."""
    try:
        yield
    except DataError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"{path}: cannot be read: {reason or type(error).__name__}; get or make it again") from None


def _unpack(path: Path, folder: Path, may_be_text: bool) -> dict[str, Path] | None:
    """Return the .npy files of a file's arrays; those of a .npz file are copied to `folder`. None for a text."""
    with open_regular(path) as raw:
        head = raw.read(len(NPY))
        if head == NPY:
            return {"": path}
        if head.startswith(ZIP):
            with _readable(path), zipfile.ZipFile(raw) as archive:
                found = {name: f"{name}.npy" for name in sorted(KNOWN) if f"{name}.npy" in archive.namelist()}
                for member in found.values():
                    with archive.open(member) as source, (folder / member).open("wb") as target:
                        shutil.copyfileobj(source, target, 1 << 22)
            return {name: folder / member for name, member in found.items()}
    if may_be_text:
        return None
    if not head:
        raise DataError(f"{path}: the file is empty; expected arrays of numpy (.npz or .npy)")
    raise DataError(f"{path}: no arrays of numpy; expected a .npz file (or .npy), as scipy.sparse.save_npz and numpy.save make")


def _mapped(path: Path, name: str, file: Path) -> np.ndarray:
    """Return an array, memory-mapped. Raises DataError."""
    what = f"array {name}" if name else "the array"
    with _readable(path):
        try:
            found = np.lib.format.open_memmap(file, "r")
        except ValueError as error:
            if "Python objects" not in str(error):
                raise
            raise ValueError(f"{what} holds Python objects, which could be anything; save numbers, or strings") from None
        if found.ndim > 2 or found.dtype.kind not in "biufSU":
            raise ValueError(f"{what} is no list or table of numbers or strings")
    return found.view(np.ndarray)


@contextmanager
def _opened(task: Conversion) -> Iterator[list[Arrays | None]]:
    """Collective. In the body, the arrays of each input; None for a text. No rank may leave it before all have read."""
    with ExitStack() as stack:

        def unpack() -> list[dict[str, Path] | None]:
            folders = [stack.enter_context(scratch_folder(f"{path.name}.unpacked", task.scratch)) for path in task.inputs]
            return [_unpack(path, folder, k > 0) for k, (path, folder) in enumerate(zip(task.inputs, folders, strict=True))]

        files = mpi.run_on_root(task.comm, f"reading {task.what}", unpack)
        with task.reading():
            arrays = [
                None if some is None else Arrays(path, {name: _mapped(path, name, file) for name, file in some.items()})
                for path, some in zip(task.inputs, files, strict=True)
            ]
        yield arrays


class Matrix(NamedTuple):
    """A matrix: the arrays of its CSR parts by their names in a file, or a dense one."""

    parts: dict[str, str]
    dense: str | None
    shape: tuple[int, int]


def find_matrix(arrays: Arrays, name: str) -> Matrix | None:
    """Return the matrix `name` ("X", "Y") of a file, None without. Raises DataError for other forms."""
    path, of = arrays
    for prefix in (f"{name}_", ""):
        parts = {part: f"{prefix}{part}" for part in CSR}
        if parts["indptr"] in of and parts["indices"] in of and (prefix or name == "X"):
            if f"{prefix}format" in of and (form := _text(of[f"{prefix}format"])) != "csr":
                raise DataError(f"{path}: a matrix in {form} format, but expected CSR; save it as .tocsr()")
            if parts["shape"] not in of:
                raise DataError(f"{path}: array {parts['shape']} is missing; expected the numbers of rows and columns")
            return Matrix(parts, None, _shape(arrays, parts["shape"]))
    if "format" in of and name == "X":
        raise DataError(f"{path}: a matrix in {_text(of['format'])} format, but expected CSR; save it as .tocsr()")
    dense = "" if [*of] == [""] else name
    if dense not in of or of[dense].ndim != 2:
        return None
    return Matrix({}, dense, (of[dense].shape[0], of[dense].shape[1]))


def _shape(arrays: Arrays, name: str) -> tuple[int, int]:
    found = arrays.of[name]
    if found.shape != (2,) or found.dtype.kind not in "iu" or (found < 0).any() or (found.astype(object) >= 2**40).any():
        raise DataError(f"{arrays.path}: array {name}: expected the numbers of rows and columns")
    return int(found[0]), int(found[1])


def _text(value: np.ndarray) -> str:
    found = value.reshape(-1)[0].item() if value.size else ""
    return found.decode("ascii", "backslashreplace") if isinstance(found, bytes) else str(found)


def matrix_blocks(arrays: Arrays, matrix: Matrix, begin: int, end: int, zero: bool) -> Iterator[NumberSlice]:
    """Yield rows begin..end of a matrix. Raises DataError that names the row."""
    path, n_columns = arrays.path, matrix.shape[1]
    if matrix.dense is not None:
        dense = arrays.of[matrix.dense]
        if dense.dtype.kind not in "biuf":
            raise DataError(f"{path}: array {matrix.dense or 'of the file'} holds no numbers")

        def wrong(row: int, column: int, value: float) -> str:
            return f"{path}: row {row + 1}: column {column + 1}: value {value:g}, {FINITE}"

        yield from dense_blocks(lambda low, high: dense[low:high], (begin, end), n_columns, zero, wrong)
        return
    parts = {part: arrays.of[name] for part, name in matrix.parts.items() if name in arrays.of and part != "shape"}
    indptr, n_rows = parts["indptr"], matrix.shape[0]
    if indptr.shape != (n_rows + 1,) or indptr.dtype.kind not in "iu":
        raise DataError(
            f"{path}: array {matrix.parts['indptr']} has {indptr.size} entries, but expected {n_rows + 1} whole numbers"
        )
    if any(array.ndim != 1 for array in parts.values()):
        raise DataError(f"{path}: the indices and the data of a matrix must have one dimension")
    yield from csr_blocks(parts, (begin, end), n_columns, str(path), zero)


class _Labels(NamedTuple):
    """Where labels are: in the matrix `layout` or the list `listed` of `arrays`, or (neither) in a text."""

    arrays: Arrays | None = None
    layout: Matrix | None = None
    listed: str = ""


def read_npz(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    path, options = task.inputs[0], task.options
    with _opened(task) as (arrays, *others):
        with task.reading():
            X = find_matrix(arrays, "X")
            if X is None:
                raise DataError(
                    f"{path}: no matrix X; expected what scipy.sparse.save_npz makes, or a dense array of rows × features"
                )
            own_features, own_labels = (_strings(arrays, name) for name in ("feature_names", "label_names"))
            labels = _find_labels(task.inputs, arrays, others)
            if options.label_names is not None and labels.layout is None:
                raise ConfigError(f"--label-names {options.label_names}: the labels have names of their own; leave it out")
        n_rows, n_features = X.shape
        n_labels = 0 if labels.layout is None else labels.layout.shape[1]
        feature_names = read_names(task.comm, options.feature_names, n_features, "features") or own_features
        label_names = read_names(task.comm, options.label_names, n_labels, "labels") or own_labels
        begin, end = task.share(n_rows)
        with task.reading():
            _check_names(path, feature_names, n_features, label_names, n_labels)
            rows = NumberRows(task, feature_names, n_features, with_ids="row_ids" in arrays.of)
            for block in matrix_blocks(arrays, X, begin, end, options.missing_as_zero):
                rows.add(block)
            lists: dict[str, np.ndarray] = {
                name: _list_of_rows(arrays, name, n_rows) for name in ("row_ids", "splits") if name in arrays.of
            }
            lines: Iterator[str] = iter(())
            if labels.layout is not None:
                check_matrix_labels(path, options)
                _add_labels(labels.arrays, labels.layout, rows, begin, end, n_rows)
            elif labels.arrays is None:
                lines = _text_labels(task.inputs[1], begin, end, n_rows)
            else:
                lists["y"] = _list_of_rows(labels.arrays, labels.listed, n_rows)
            by_name = () if labels.layout is not None else ("y",)
            ids, splits = (name if name in lists else None for name in ("row_ids", "splits"))
            roles = Roles(labels=by_name, id=ids, split=splits)
            for low in range(begin, end, SOME):
                n = min(SOME, end - low)
                columns: dict[str, list[Any]] = {name: _values(path, name, array[low : low + n]) for name, array in lists.items()}
                columns.setdefault("y", list(islice(lines, n)))
                describe_rows(rows, Batch(n, columns, numbered(path, low)), roles, options, by_number=not by_name)
            next(lines, None)  # reads what follows this rank's rows
    task.log(f"{path}: read")
    return finish(task, rows, None if labels.layout is None else label_names or [str(label) for label in range(n_labels)])


def _find_labels(paths: Sequence[Path], arrays: Arrays, others: Sequence[Arrays | None]) -> _Labels:
    path = paths[0]
    if not others:
        if (found := find_matrix(arrays, "Y")) is not None:
            return _Labels(arrays, found)
        if "y" not in arrays.of:
            raise DataError(f"{path}: no labels (y, or Y); name a second file that has them: hpcml convert npz {path.name} LABELS")
        return _Labels(arrays, listed="y")
    if (of_labels := others[0]) is None:
        return _Labels()
    if (found := find_matrix(of_labels, "Y") or find_matrix(of_labels, "X")) is not None:
        return _Labels(of_labels, found)
    for name in ("", "y"):
        if name in of_labels.of:
            return _Labels(of_labels, listed=name)
    raise DataError(f"{paths[1]}: no labels; expected a matrix of rows × labels, or y with one label of each row")


def _strings(arrays: Arrays, name: str) -> list[str] | None:
    """The strings of an array, None without it. Raises DataError."""
    if name not in arrays.of:
        return None
    found = arrays.of[name]
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


def _list_of_rows(arrays: Arrays, name: str, n_rows: int) -> np.ndarray:
    """Return an array with an entry for each row. Raises DataError."""
    array = arrays.of[name]
    if array.shape != (n_rows,):
        what = f"array {name} has" if name in ("row_ids", "splits") else "the labels are"
        raise DataError(f"{arrays.path}: {what} {' × '.join(map(str, array.shape))}, but X has {n_rows} rows")
    return array


def _values(path: Path, name: str, array: np.ndarray) -> list[Any]:
    """Return the entries of an array. Raises DataError for strings that cannot be stored."""
    return _decoded(path, name, array) if array.dtype.kind in "US" else array.tolist()


def _add_labels(arrays: Arrays, labels: Matrix, rows: NumberRows, begin: int, end: int, n_rows: int) -> None:
    """Append the labels of rows begin..end, columns of a matrix. Raises DataError, OSError."""
    path = arrays.path
    if labels.shape[0] != n_rows:
        raise DataError(f"{path}: the labels have {labels.shape[0]} rows, but X has {n_rows}")
    for block in matrix_blocks(arrays, labels, begin, end, False):
        if (block.data != 1).any():
            wrong = int(np.argmax(block.data != 1))
            row = begin + rows.labels.n_rows + int(np.searchsorted(np.cumsum(block.lengths), wrong, side="right"))
            raise DataError(f"{path}: row {row + 1}: {block.data[wrong]:g} as a label, but expected 0 or 1")
        rows.labels.add(block.lengths, block.indices)


def _text_labels(path: Path, begin: int, end: int, n_rows: int) -> Iterator[str]:
    """Yield lines begin..end of a text, one for each row. Raises DataError, OSError."""
    number = 0
    for number, line in read_lines(path, line_limit(None)):
        if begin < number <= end:
            yield line
    if number != n_rows:
        raise DataError(f"{path}: {number} lines, but X has {n_rows} rows; expected a line with the labels of each row")
