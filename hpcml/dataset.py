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
    """A read-only handle on a dataset file, of which opening reads sizes only; for a `with`."""

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
        """Collective over `comm`. A dataset of matrices; each rank gives its own rows, in order.

        Parameters
        ----------
        X : sparse matrix or array (rows × features)
            Numbers that float32 holds.
        Y : sparse matrix or array (rows × labels) of 0 and 1, or sequence
            An entry of a sequence is a row's label (a name or a whole number), or a list of them;
            None or "": nobody labelled the row.
        path : path
            The file to make.
        feature_names, label_names : sequence of str or None
            The same on all ranks, of the columns of X and Y. Default: none; numbers from 0.
        ids : sequence of str or None
            The names of the rows.
        splits : sequence of str, mapping or None
            The split of each row, "" for none; or of each split this rank's rows (or a mask).
        groups : sequence of str or None
            The group of each row, "" for none. No split, fold or sample divides a group.
        comm : mpi4py communicator or None
            The ranks that take part; None: this process alone.
        force : bool
            Replace the file if it exists.
        log
            Who hears the messages; by default the logger `hpcml`.
        **options
            `test_share`, `seed`, `like`, `new_labels`, `renamed`, `missing_as_zero`, `missing_columns_as_zero`, `empty_labels`.

        Raises
        ------
        ConfigError, DataError
            If the options or the rows are invalid, or a file cannot be written.
        """
        from hpcml.conversion.from_memory import Matrices
        from hpcml.conversion.from_memory import from_sparse as work
        from hpcml.conversion.options import ConvertOptions
        from hpcml.conversion.sources import SPARSE, options_class

        with python_session(comm, log) as session:
            found = ConvertOptions(**vars(make_options(options_class(SPARSE), "convert npz", options)))
            given = Matrices(X, Y, feature_names, label_names, ids, splits, groups)
            work(session.comm, given, Path(path), found, force, session.log)
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
        """Collective over `comm`. A dataset of a pandas frame; each rank gives its rows, in order.

        Parameters
        ----------
        frame : pandas.DataFrame
            Columns of texts or numbers, and of labels.
        path : path
            The file to make.
        comm, force, log
            As of `from_sparse`.
        **options
            Of `hpcml convert`: `text=["title", "abstract"]` or `features=["a", "b"]`, `labels=["topics"]`, `indicators`, `id`,
            `split_column`, `label_separator`, `min_df`, `test_share` and others. A list in a column of labels is several labels.

        Raises
        ------
        ConfigError, DataError
            If the options or the rows are invalid, or a file cannot be written.
        """
        from hpcml.conversion.from_memory import from_frame as work
        from hpcml.conversion.options import ConvertOptions
        from hpcml.conversion.sources import TABLE, options_class

        with python_session(comm, log) as session:
            found = ConvertOptions(**vars(make_options(options_class(TABLE), "convert parquet", options)))
            work(session.comm, frame, Path(path), found, force, session.log)
            return cls(path)

    def matrix(self, split: str = "all", *, unlabelled: bool = False) -> sp.csr_matrix:
        """Return the values of the rows of a split.

        Parameters
        ----------
        split : str
            A split of the dataset, or all.
        unlabelled : bool
            Also the rows that nobody labelled, which `labels` leaves out.

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_features) of float32
            A copy in memory.

        Raises
        ------
        ConfigError, DataError
            If there is no such split, or the file is damaged.

        Examples
        --------
        >>> with hpcml.Dataset("first.h5") as dataset:
        ...     X, Y = dataset.matrix("train"), dataset.labels("train")
        """
        from hpcml.data.shard import read_rows

        return read_rows(self, self.split(split) if unlabelled else self.labelled_split(split), dense=False)

    def labels(self, split: str = "all") -> sp.csr_matrix:
        """Return the labels of the labelled rows of a split.

        Parameters
        ----------
        split : str
            A split of the dataset, or all.

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_labels) of float32
            1 where the row has the label; a copy in memory.

        Raises
        ------
        ConfigError, DataError
            If there is no such split, or the file is damaged.

        Examples
        --------
        >>> with hpcml.Dataset("first.h5") as dataset:
        ...     n_positive = dataset.labels("train").sum(axis=0)
        """
        from hpcml.data.shard import rows_of, slab_of, verify

        rows = self.labelled_split(split)
        self.check_unchanged()
        slab = slab_of(self, rows, 0, rows.size)
        verify(self, slab)
        csr = (slab.y_indptr, slab.y_indices, np.broadcast_to(np.float32(1), slab.y_indices.shape))
        found = rows_of(csr, slab.rows, self.n_labels, dense=False)
        self.check_unchanged()
        return found
