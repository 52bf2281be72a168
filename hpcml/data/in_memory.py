"""Checks of matrices and labels that a caller passes, before compiled code reads them.

Neither SciPy's compiled code nor our kernels check indices: an index outside the matrix reads or writes other memory of the
process. SciPy also sorts some matrices in place. Every function that takes a matrix from a caller therefore works on
`check_csr(matrix, name)`, a new object that shares the caller's arrays, which are never written to.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcml.errors import MatrixError

BLOCK = 1 << 22  # entries checked at a time
LABEL_SETS = (list, tuple, set, frozenset)  # types of a row's collection of labels


def check_csr(matrix: Any, name: str) -> Any:
    """Return a checked sparse matrix as CSR, sharing its arrays if possible; return others unchanged. Raises MatrixError."""
    import scipy.sparse as sp  # slow to import, and most conversions do not need it

    if not sp.issparse(matrix):
        return matrix
    if matrix.ndim != 2:
        raise MatrixError(f"{name} has {matrix.ndim} dimensions, but expected 2: rows and columns")
    (n_rows, n_columns), kind = matrix.shape, matrix.format
    if kind == "csc":
        _check_compressed(name, matrix, "column", n_columns, n_rows)
    try:
        if kind == "coo":
            # SciPy checks the indices of the new matrix.
            matrix = sp.coo_matrix((matrix.data, (matrix.row, matrix.col)), matrix.shape)
        elif kind == "bsr":
            matrix = matrix.tocoo(copy=False)  # likewise
        matrix = matrix if kind == "csr" else matrix.tocsr()
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise MatrixError(f"{name}: damaged matrix: {' '.join(str(error).split())}") from None
    indptr, indices = _check_compressed(name, matrix, "row", n_rows, n_columns)
    if indices.size >= 2**31 or indices.dtype not in (np.int32, np.int64):
        indices = indices.astype(np.int32 if max(indices.size, n_columns) < 2**31 else np.int64, copy=False)
    checked = sp.csr_matrix((n_rows, n_columns))
    checked.data, checked.indices = np.ascontiguousarray(matrix.data)[: indices.size], np.ascontiguousarray(indices)
    checked.indptr = np.ascontiguousarray(indptr, indices.dtype)
    return checked


def canonical(X: Any) -> Any:
    """Return a CSR matrix with sorted columns and no duplicates: `X` itself or a copy. Raises MatrixError if a sum overflows."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    if not np.isfinite(X.data).all():
        raise MatrixError(f"X: a row has a feature twice, and the sum of its values exceeds {X.dtype}")
    return X


def check_label_sets(y: Any, name: str = "y") -> Any:
    import scipy.sparse as sp

    if sp.issparse(y):
        return check_csr(y, name)
    kind = getattr(y, "dtype", None)
    if y is None or (isinstance(kind, np.dtype) and kind.kind != "O"):  # scikit-learn checks floats for NaN
        return y
    rows = y if isinstance(y, (list, tuple)) else np.asarray(y, dtype=object).tolist()
    for row, value in enumerate(rows if isinstance(rows, Sequence) else ()):
        for each in value if isinstance(value, LABEL_SETS) else (value,):
            if is_missing(each):
                raise MatrixError(f"{name}[{row}] is {each}, but expected a label; remove rows without a label")
        if isinstance(value, str) != isinstance(rows[0], str):
            raise MatrixError(f"{name}[0] is {rows[0]!r}, but {name}[{row}] is {value!r}; expected only strings, or only numbers")
    return y


def is_missing(value: object) -> bool:
    is_nan = isinstance(value, (float, np.floating)) and value != value
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def find_out_of_range(indices: np.ndarray, size: int) -> int:
    """Return the position of the first index that is not in 0 to size − 1; −1 if there is none."""
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))  # a negative index becomes huge: one pass instead of two
    if not indices.size or int(unsigned.max()) < size:
        return -1
    return int(np.argmax((indices < 0) | (indices >= size)))


def find_decrease(indptr: np.ndarray) -> int:
    """Return the first row whose end precedes its begin; −1 if there is none."""
    falls = indptr[1:] < indptr[:-1]  # differences could overflow
    return int(np.argmax(falls)) if falls.any() else -1


def find_unsorted_entry(indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> int:
    """Return the position of the first entry (`indices` begin at entry `first`) not above the previous one of its row; −1: none."""
    for begin in range(0, indices.size, BLOCK):
        block = indices[begin : begin + BLOCK + 1]
        starts = np.flatnonzero(block[1:] <= block[:-1]) + first + begin + 1  # only a new row may begin at these entries
        wrong = indptr[np.searchsorted(indptr, starts)] != starts
        if wrong.any():
            return int(starts[np.argmax(wrong)])
    return -1


def row_of(indptr: np.ndarray, entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def _check_compressed(name: str, matrix: Any, line: str, n_lines: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    indptr, indices = (np.asarray(getattr(matrix, part)) for part in ("indptr", "indices"))
    for part, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            kind = f"{name}: {part} has the shape {array.shape} and the type {array.dtype}"
            raise MatrixError(f"{kind}, but expected a 1-d array of integers")
    if indptr.size != n_lines + 1:
        raise MatrixError(f"{name}: indptr has {indptr.size} numbers, but expected {n_lines + 1}")
    if np.ndim(matrix.data) != 1:
        raise MatrixError(f"{name}: data has {np.ndim(matrix.data)} dimensions, but expected 1")
    if len(matrix.data) != indices.size:
        raise MatrixError(f"{name}: indices has {indices.size} numbers, but data has {len(matrix.data)}")
    if indptr[0] != 0:
        raise MatrixError(f"{name}: indptr begins with {indptr[0]}, but expected 0")
    if (fall := find_decrease(indptr)) >= 0:
        raise MatrixError(f"{name}: {line} {fall + 1}: indptr goes down")
    if indptr[-1] > indices.size:
        raise MatrixError(f"{name}: indptr ends with {indptr[-1]}, but there are {indices.size} values")
    indices = indices[: indptr[-1]]
    if (position := find_out_of_range(indices, size)) >= 0:
        number = int(np.searchsorted(indptr, position, side="right"))
        raise MatrixError(f"{name}: {line} {number}: index {indices[position]}, but expected 0 to {size - 1}")
    return indptr, indices
