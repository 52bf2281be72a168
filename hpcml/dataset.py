"""The class `hpcml.Dataset`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml.commands.operation import make_options, python_session
from hpcml.data import dataset

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import ArrayLike

    from hpcml.log import Log
    from hpcml.mpi import Comm
    from hpcml.options import Value


class Dataset(dataset.DataFile):
    """A dataset file, opened read-only; use it in a `with`, or call `file.close()`.

    Opening reads sizes only. The attributes `n_rows`, `n_features`, `n_labels` and `nnz` (values of X) are int; `label_names()` and
    `split_names()` return lists of str; `split(name)` returns the sorted row numbers (int64) of a split.

    Parameters
    ----------
    path : path
        The dataset file.

    Raises
    ------
    DataError
        If the file is not a dataset of this format version, or is damaged.

    Examples
    --------
    >>> with hpcml.Dataset("docs.h5") as dataset:
    ...     print(dataset.n_rows, dataset.split_names())
    100 ['test', 'train', 'valid']
    """

    @classmethod
    def from_sparse(
        cls,
        X: Any,
        Y: Any,
        path: Path | str,
        *,
        feature_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        splits: Sequence[str] | Mapping[str, ArrayLike] | None = None,
        groups: Sequence[str] | None = None,
        comm: Comm | None = None,
        force: bool = False,
        log: Log | None = None,
        **options: Value,
    ) -> Dataset:
        """Create a dataset file from matrices; each rank passes its own rows, in rank order. Collective over `comm`.

        Parameters
        ----------
        X : sparse matrix or array (n_rows, n_features)
            Numbers within the range of float32.
        Y : sparse matrix or array (n_rows, n_labels) of 0 and 1, or sequence (n_rows)
            An entry of a sequence is the row's label (a name or an integer), or a list of labels; None or "": an unlabelled row.
        path : path
            The file to create.
        feature_names, label_names : sequence of str or None
            Names of the columns of X and Y, the same on all ranks. Default: none; columns are numbered from 0.
        ids : sequence of str (n_rows) or None
            Names of the rows.
        splits : sequence of str (n_rows), mapping or None
            The split of each row ("": none), or a mapping from splits to this rank's row numbers or masks.
        groups : sequence of str (n_rows) or None
            The group of each row ("": none). No split, fold or sample divides a group.
        comm : mpi4py communicator or None
            The ranks that pass rows; None: this process alone.
        force : bool
            Replace the file if it exists.
        log : Log or None
            Receiver of messages; default: the logger `hpcml`.
        **options
            `test_share`, `seed`, `like`, `new_labels`, `renamed`, `missing_as_zero`, `missing_columns_as_zero`, `empty_labels`.

        Returns
        -------
        Dataset
            The opened file.

        Raises
        ------
        ConfigError, DataError
            If options or rows are invalid, or the file cannot be written.

        Examples
        --------
        >>> import scipy.sparse
        >>> X = scipy.sparse.random(100, 20, 0.3, format="csr", dtype="float32")
        >>> with hpcml.Dataset.from_sparse(X, ["spam", "ham"] * 50, "mail.h5", test_share=0.2) as dataset:
        ...     print(dataset.split_names())
        ['test', 'train']
        """
        from hpcml.conversion.from_memory import Matrices
        from hpcml.conversion.from_memory import from_sparse as convert
        from hpcml.conversion.options import ConvertOptions
        from hpcml.conversion.sources import SPARSE, options_class

        with python_session(comm, log) as session:
            convert_options = ConvertOptions(**vars(make_options(options_class(SPARSE), "convert npz", options)))
            matrices = Matrices(X, Y, feature_names, label_names, ids, splits, groups)
            convert(session.comm, matrices, Path(path), convert_options, force, session.log)
            return cls(path)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        path: Path | str,
        *,
        comm: Comm | None = None,
        force: bool = False,
        log: Log | None = None,
        **options: Value,
    ) -> Dataset:
        """Create a dataset file from a pandas frame; each rank passes its own rows, in rank order. Collective over `comm`.

        Parameters
        ----------
        frame : pandas.DataFrame (n_rows, n_columns)
            Columns of texts or numbers, and of labels.
        path : path
            The file to create.
        comm : mpi4py communicator or None
            The ranks that pass rows; None: this process alone.
        force : bool
            Replace the file if it exists.
        log : Log or None
            Receiver of messages; default: the logger `hpcml`.
        **options
            Those of `hpcml convert`: `text=["title", "abstract"]` or `features=["a", "b"]`, `labels=["topics"]`, `indicators`,
            `id`, `split_column`, `label_separator`, `min_df`, `test_share` and others. A list in a label column is several labels.

        Returns
        -------
        Dataset
            The opened file.

        Raises
        ------
        ConfigError, DataError
            If options or rows are invalid, or the file cannot be written.

        Examples
        --------
        >>> import pandas
        >>> frame = pandas.read_csv("docs.csv")
        >>> with hpcml.Dataset.from_frame(frame, "frame.h5", text=["text"], labels=["topic"]) as dataset:
        ...     print(dataset.n_rows, dataset.n_labels)
        100 2
        """
        from hpcml.conversion.from_memory import from_frame as convert
        from hpcml.conversion.options import ConvertOptions
        from hpcml.conversion.sources import TABLE, options_class

        with python_session(comm, log) as session:
            convert_options = ConvertOptions(**vars(make_options(options_class(TABLE), "convert parquet", options)))
            convert(session.comm, frame, Path(path), convert_options, force, session.log)
            return cls(path)

    def matrix(self, split: str = "all", *, unlabelled: bool = False) -> sp.csr_matrix:
        """Return the features of the rows of a split.

        Parameters
        ----------
        split : str
            A split of the dataset, or "all".
        unlabelled : bool
            Include unlabelled rows, which `labels` always excludes.

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_features) of float32
            A copy in memory.

        Raises
        ------
        ConfigError, DataError
            If the split does not exist, or the file is damaged.

        Examples
        --------
        >>> with hpcml.Dataset("docs.h5") as dataset:
        ...     X, Y = dataset.matrix("train"), dataset.labels("train")
        """
        from hpcml.data.shard import read_rows

        return read_rows(self, self.split(split) if unlabelled else self.labelled_split(split), dense=False)

    def labels(self, split: str = "all") -> sp.csr_matrix:
        """Return the labels of the labelled rows of a split.

        Parameters
        ----------
        split : str
            A split of the dataset, or "all".

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_labels) of float32
            1 where the row has the label; a copy in memory.

        Raises
        ------
        ConfigError, DataError
            If the split does not exist, or the file is damaged.

        Examples
        --------
        >>> with hpcml.Dataset("docs.h5") as dataset:
        ...     n_positive = dataset.labels("train").sum(axis=0)
        """
        from hpcml.data.shard import read_slab, rows_of, verify

        rows = self.labelled_split(split)
        self.check_unchanged()
        slab = read_slab(self, rows, 0, rows.size)
        verify(self, slab)
        csr = (slab.y_indptr, slab.y_indices, np.broadcast_to(np.float32(1), slab.y_indices.shape))
        labels = rows_of(csr, slab.rows, self.n_labels, dense=False)
        self.check_unchanged()
        return labels
