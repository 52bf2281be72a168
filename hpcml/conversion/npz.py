"""Matrices in NumPy files: X as SciPy saves it, or dense; labels in the same or in a second file.

A file with both has X as `data`, `indices`, `indptr`, `shape` and, unless it is CSR, `format` (COO: `row` and `col`), also with the
prefix `X_`, or dense as `X`; and labels as `y` (one per row), `Y` (rows × labels, 0 and 1), or `Y_indices`, `Y_indptr`, `Y_shape`.
It may have `feature_names`, `label_names`, `row_ids` and `splits` (a name per row, "" for none).
"""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, check_matrix_labels, damage_errors, read_names
from hpcml.conversion.number_rows import FINITE, NumberRows, NumberSlice, csr_blocks, dense_blocks, finish, rows_as_csr
from hpcml.conversion.part import Part
from hpcml.conversion.split import conflicting_splits_error, no_splits_error
from hpcml.conversion.table import Batch, Roles, describe_rows, row_namer
from hpcml.errors import DataError, OptionError
from hpcml.files.lines import LINE_MIB, read_lines
from hpcml.files.opening import open_regular
from hpcml.files.temporary import scratch_folder
from hpcml.log import is_unicode

# The arrays of each format of a sparse matrix, besides `shape` and `data`.
FORMATS = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
MATRICES = [f"{prefix}{part}" for prefix in ("", "X_", "Y_") for part in ("data", "shape", "format", *sum(FORMATS.values(), ()))]
KNOWN = {*MATRICES, "X", "Y", "y", "feature_names", "label_names", "row_ids", "splits"}
DAMAGE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, KeyError, SyntaxError)
NPY, ZIP = b"\x93NUMPY", b"PK"
ENTRIES = 1 << 16  # list entries per batch


class Arrays(NamedTuple):
    path: Path
    of: dict[str, np.ndarray]


@contextmanager
def _opened(task: Conversion) -> Iterator[list[Arrays | None]]:
    """Open the arrays of each input; None for a text file. Collective: files are removed when all ranks have left the body."""
    with ExitStack() as stack:

        def unpack() -> list[dict[str, Path] | None]:
            files_of_inputs: list[dict[str, Path] | None] = []
            for path in task.inputs:
                folder = stack.enter_context(scratch_folder(f"{path.name}.unpacked", task.scratch))
                with open_regular(path) as raw:
                    head = raw.read(len(NPY))
                    if head == NPY:
                        files_of_inputs.append({"": path})
                    elif head.startswith(ZIP):
                        with damage_errors(path, DAMAGE, "damaged NumPy file"), zipfile.ZipFile(raw) as archive:
                            names = [name for name in sorted(KNOWN) if f"{name}.npy" in archive.namelist()]
                            archive.extractall(folder, [f"{name}.npy" for name in names])
                        files_of_inputs.append({name: folder / f"{name}.npy" for name in names})
                    elif files_of_inputs:
                        files_of_inputs.append(None)
                    elif not head:
                        raise DataError(f"{path}: the file is empty; expected NumPy arrays (.npz or .npy)")
                    else:
                        writers = "as written by scipy.sparse.save_npz or numpy.save"
                        raise DataError(f"{path}: no NumPy arrays; expected a .npz or .npy file, {writers}")
            return files_of_inputs

        files = mpi.run_on_root(task.comm, f"reading {task.input_name}", unpack)
        arrays: list[Arrays | None] = []
        with mpi.agreed(task.comm, f"reading {task.input_name}"):
            for path, members in zip(task.inputs, files, strict=True):
                of: dict[str, np.ndarray] = {}
                for name, file in (members or {}).items():
                    what = f"array {name}" if name else "the array"
                    with damage_errors(path, DAMAGE, "damaged NumPy file"):
                        try:
                            of[name] = np.lib.format.open_memmap(file, "r").view(np.ndarray)
                        except ValueError as error:
                            if "Python objects" not in str(error):
                                raise
                            objects = "contains Python objects; save numbers or strings"
                            raise ValueError(f"{what} {objects}") from None
                        if of[name].ndim > 2 + name.endswith("data") or of[name].dtype.kind not in "biufSU":
                            raise ValueError(f"{what} is not a list or table of numbers or strings")
                arrays.append(None if members is None else Arrays(path, of))
        yield arrays


class Matrix(NamedTuple):
    form: str  # a key of FORMATS; "": dense
    parts: dict[str, np.ndarray]
    dense: np.ndarray | None
    shape: tuple[int, int]


def find_matrix(arrays: Arrays, name: str) -> Matrix | None:
    path, of = arrays
    for prefix in (f"{name}_", "") if name == "X" else (f"{name}_",):
        form = "csr" if all(f"{prefix}{part}" in of for part in FORMATS["csr"]) else ""
        if f"{prefix}format" in of:
            value = (of[f"{prefix}format"].reshape(-1)[:1].tolist() or [""])[0]
            form = value.decode("ascii", "backslashreplace") if isinstance(value, bytes) else str(value)
            if not all(f"{prefix}{part}" in of for part in FORMATS.get(form, ("",))):
                raise DataError(f"{path}: a matrix in {form} format, but expected CSR, CSC or COO; save it as .tocsr()")
        if not form:
            continue
        if f"{prefix}shape" not in of:
            raise DataError(f"{path}: array {prefix}shape is missing; expected the numbers of rows and columns")
        shape = of[f"{prefix}shape"]
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any() or (shape.astype(object) >= 2**40).any():
            raise DataError(f"{path}: array {prefix}shape: expected the numbers of rows and columns")
        parts = {part: of[f"{prefix}{part}"] for part in ("data", *FORMATS[form]) if f"{prefix}{part}" in of}
        if any(array.ndim != 1 for array in parts.values()):
            raise DataError(f"{path}: the indices and the data of a matrix must have one dimension")
        sizes = {part: array.size for part, array in parts.items() if part != "indptr"}
        if form != "csr" and len({*sizes.values()}) > 1:
            raise DataError(f"{path}: the arrays {', '.join(sizes)} of a matrix have different lengths")
        n_rows, n_columns = map(int, shape)
        expected = (n_columns if form == "csc" else n_rows) + 1
        if "indptr" in parts and (parts["indptr"].size != expected or parts["indptr"].dtype.kind not in "iu"):
            size = parts["indptr"].size
            raise DataError(f"{path}: array {prefix}indptr has {size} entries, but expected {expected} whole numbers")
        return Matrix(form, parts, None, (n_rows, n_columns))
    dense = of.get("" if [*of] == [""] else name)
    if dense is None or dense.ndim != 2:
        return None
    if dense.dtype.kind not in "biuf":
        raise DataError(f"{path}: array {name if name in of else 'of the file'} does not contain numbers")
    return Matrix("", {}, dense, (dense.shape[0], dense.shape[1]))


def matrix_blocks(path: Path, matrix: Matrix, begin: int, end: int, zero: bool) -> Iterator[NumberSlice]:
    dense, n_columns = matrix.dense, matrix.shape[1]
    if dense is None:
        parts = matrix.parts if matrix.form == "csr" else rows_as_csr(matrix.parts, (begin, end), matrix.shape, str(path))
        yield from csr_blocks(parts, (begin, end), n_columns, str(path), zero)
        return

    def describe(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: column {column + 1}: value {value:g}, {FINITE}"

    yield from dense_blocks(lambda low, high: dense[low:high], (begin, end), n_columns, zero, describe)


def read_npz(task: Conversion) -> Part:
    path, options = task.inputs[0], task.options
    with _opened(task) as (arrays, *others):
        with mpi.agreed(task.comm, f"reading {task.input_name}"):
            X = find_matrix(arrays, "X")
            if X is None:
                expected = "expected a file of scipy.sparse.save_npz, or a dense array of rows × features"
                raise DataError(f"{path}: no matrix X; {expected}")
            own: dict[str, list[str]] = {}
            for name in ("feature_names", "label_names"):
                if name in arrays.of:
                    if arrays.of[name].ndim != 1 or arrays.of[name].dtype.kind not in "US":
                        raise DataError(f"{path}: array {name}: expected a list of strings")
                    own[name] = _values(path, name, arrays.of[name])
            # Labels are a matrix, a list of names, or the lines of a text file.
            label_arrays = others[0] if others else arrays
            Y, list_name = None, ""
            if label_arrays is not None:
                Y = find_matrix(label_arrays, "Y") or (find_matrix(label_arrays, "X") if others else None)
                list_name = next((name for name in (("", "y") if others else ("y",)) if name in label_arrays.of), "no list")
            if Y is None and list_name == "no list" and others:
                raise DataError(f"{task.inputs[1]}: no labels; expected a matrix of rows × labels, or y with one label of each row")
            if Y is None and list_name == "no list":
                hint = f"give a second file with labels: hpcml convert npz {path.name} LABELS"
                raise DataError(f"{path}: no labels (y, or Y); {hint}")
            if options.label_names is not None and Y is None:
                raise OptionError("label_names", options.label_names, "the labels already have names; remove it")
            if options.ignore_splits or options.test_share is not None:
                names = _values(path, "splits", arrays.of.get("splits", np.zeros(0, "U1")).reshape(-1))
                first = next(filter(None, map(str, names)), "")
                if options.ignore_splits and not first:
                    raise no_splits_error()
                if first and not options.ignore_splits:
                    raise conflicting_splits_error(options.test_share, first)
        n_rows, n_features = X.shape
        n_labels = 0 if Y is None else Y.shape[1]
        feature_names = read_names(task.comm, options.feature_names, n_features, "features") or own.get("feature_names")
        label_names = read_names(task.comm, options.label_names, n_labels, "labels") or own.get("label_names")
        begin, end = task.share(n_rows)
        with mpi.agreed(task.comm, f"reading {task.input_name}"):
            for what, names, size in (("feature_names", feature_names, n_features), ("label_names", label_names, n_labels)):
                if names is not None and len(names) != size:
                    raise DataError(f"{path}: {what} has {len(names)} names, but expected {size}")
            rows = NumberRows(task, feature_names, n_features, with_ids="row_ids" in arrays.of)
            for block in matrix_blocks(path, X, begin, end, options.missing_as_zero):
                rows.add(block)
            lists: dict[str, tuple[Path, np.ndarray]] = {
                name: (path, arrays.of[name])
                for name in ("row_ids", "splits")
                if name in arrays.of and not (name == "splits" and options.ignore_splits)
            }
            lines: Iterator[str] = iter(())
            if Y is not None:
                check_matrix_labels(path, options)
                if Y.shape[0] != n_rows:
                    raise DataError(f"{label_arrays.path}: the labels have {Y.shape[0]} rows, but X has {n_rows}")
                rows.append_label_matrix(matrix_blocks(label_arrays.path, Y, begin, end, False), label_arrays.path, begin)
            elif label_arrays is None:
                lines = _text_labels(task.inputs[1], begin, end, n_rows)
            else:
                lists["y"] = label_arrays.path, label_arrays.of[list_name]
            for name, (file, array) in lists.items():
                if array.shape != (n_rows,):
                    what = "the labels are" if name == "y" else f"array {name} has"
                    raise DataError(f"{file}: {what} {' × '.join(map(str, array.shape))}, but X has {n_rows} rows")
            ids, splits = (name if name in lists else None for name in ("row_ids", "splits"))
            roles = Roles(labels=("y",) if Y is None else (), id=ids, split=splits)
            for low in range(begin, end, ENTRIES):
                n = min(ENTRIES, end - low)
                columns = {name: _values(path, name, array[low : low + n]) for name, (_, array) in lists.items()}
                columns.setdefault("y", list(islice(lines, n)))
                describe_rows(rows, Batch(n, columns, row_namer(path, low)), roles, options, by_number=Y is not None)
            next(lines, None)  # checks the number of lines
    return finish(task, rows, None if Y is None else label_names or [str(label) for label in range(n_labels)])


def _values(path: Path, name: str, values: np.ndarray) -> list[Any]:
    if values.dtype.kind not in "US":
        return values.tolist()
    try:
        strings = [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: array {name}: a string is not UTF-8") from None
    for text in strings:
        if "\0" in text or not is_unicode(text):
            raise DataError(f"{path}: array {name}: {text!r} contains a character that cannot be stored; remove it")
    return strings


def _text_labels(path: Path, begin: int, end: int, n_rows: int) -> Iterator[str]:
    number = 0
    for number, line in read_lines(path, LINE_MIB << 20):
        if begin < number <= end:
            yield line
    if number != n_rows:
        raise DataError(f"{path}: {number} lines, but X has {n_rows} rows; expected one line of labels per row")
