"""The class `hpcml.Dataset`: a handle on a dataset, and what makes one from rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcml.api_session import options_of, python_session
from hpcml.data import dataset

if TYPE_CHECKING:
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
        comm: Comm | None = None,
        force: bool = False,
        log: Log | None = None,
        **options: Value,
    ) -> Dataset:
        """Collective over `comm`. Make a dataset of matrices, and open it; each rank gives its own
        rows, in rank order.

        Parameters
        ----------
        X : sparse matrix or array (rows × features)
            Numbers that float32 holds.
        Y : sparse matrix or array (rows × labels) of 0 and 1, or sequence
            Of a sequence an entry is the label of a row (a name or a whole number), or a list of
            its labels.
        path : path
            The file to make.
        feature_names, label_names : sequence of str or None
            The same on all ranks. `label_names` are those of the columns of Y. Default: no names;
            numbers from 0.
        ids : sequence of str or None
            The names of the rows.
        splits : sequence of str, mapping or None
            The split of each row, "" for none; or for each split the rows of this rank (numbers
            from 0, or a mask).
        comm : mpi4py communicator or None
            The ranks that take part; None: this process alone.
        force : bool
            Replace the file if it exists.
        log
            Who hears the messages; by default the logger `hpcml`.
        **options
            Of `hpcml convert`: `test_share`, `seed`, `like`, `new_labels`, `renamed`,
                `label_noise`, `missing_as_zero`.

        Raises
        ------
        ConfigError, DataError
            For what can be mended.
        """
        from hpcml.conversion.from_memory import from_sparse as work
        from hpcml.conversion.options import ConvertOptions

        with python_session(comm, log) as session:
            found = options_of(ConvertOptions, options, "from_sparse", "hpcml convert --help")
            work(session.comm, X, Y, Path(path), feature_names, label_names, ids, splits, found, force, session.log)
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
        """Collective over `comm`. Make a dataset of a pandas frame, and open it; each rank gives
        its own rows, in rank order.

        Parameters
        ----------
        frame : pandas.DataFrame
            Columns of texts or numbers, and of labels.
        path : path
            The file to make.
        comm, force, log
            As of `from_sparse`.
        **options
            Of `hpcml convert`: `text=["title", "abstract"]` or `features=["a", "b"]`,
            `labels=["topics"]`, `indicators`, `id`, `split_column`, `label_separator`, `min_df`,
            `test_share` and others. A list in a column of labels is several labels.

        Raises
        ------
        ConfigError, DataError
            For what can be mended.
        """
        from hpcml.conversion.from_memory import from_frame as work
        from hpcml.conversion.options import ConvertOptions

        with python_session(comm, log) as session:
            found = options_of(ConvertOptions, options, "from_frame", "hpcml convert --help")
            work(session.comm, frame, Path(path), found, force, session.log)
            return cls(path)
