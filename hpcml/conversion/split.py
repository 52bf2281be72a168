"""Rows to train and to test on, drawn by the global row: the same on any number of ranks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.files.atomic import temporary_path
from hpcml.files.slabs import editing, group_in
from hpcml.files.spool import slices
from hpcml.log import Log
from hpcml.partition import offsets
from hpcml.rng import bits, uniform


def random_test(seed: int, share: float, rows: np.ndarray) -> np.ndarray:
    """Which of these global rows are in a random test split of about this share."""
    return uniform(seed, "split", rows) < share


def drawn_test(seed: int, share: float, first: int, n_rows: int) -> np.ndarray:
    """Test flags of so many rows, of which the first is global row `first`."""
    flags = np.empty(n_rows, dtype=bool)
    for some in slices(n_rows):
        flags[some] = random_test(seed, share, np.arange(first + some.start, first + some.stop))
    return flags


def check_share(share: float, option: str = "--test-share") -> None:
    """Raise ConfigError unless 0 < share < 1."""
    if not 0 < share < 1:
        raise ConfigError(f"{option} {share}: expected a number between 0 and 1")


def check_split_name(name: str) -> str:
    """The name of a row's split, "" for none. Raises ValueError unless `--split` can name it."""
    if name in ("all", ".", "..") or "/" in name or "," in name:
        raise ValueError(f"split {name!r} cannot be used; choose another name, without / and comma and not all")
    return name


class RowSplits(NamedTuple):
    """The names of the splits, and the place among them of each row's (-1: it is in none)."""

    names: list[str]
    of_rows: np.ndarray

    @property
    def training(self) -> np.ndarray:
        """Flags of the training rows: those of the split train, or all without one."""
        return np.ones(self.of_rows.size, dtype=bool) if "train" not in self.names else self.of_rows == self.names.index("train")


def row_splits(task: Conversion, n_local: int, own: list[str] | None) -> RowSplits:
    """Collective. The rows' splits: their own ("": none), or drawn. Raises ConfigError."""
    comm, share = task.comm, task.options.test_share
    names = sorted(set().union(*comm.allgather({name for name in own or [] if name})))
    if share is None:
        number = {name: n for n, name in enumerate(names)}
        places = (number.get(name, -1) for name in own or repeat("", n_local))
        return RowSplits(names, np.fromiter(places, dtype=np.int32, count=n_local))
    if names:
        raise ConfigError(f"--test-share {share}: the rows have splits already ({', '.join(names)}); leave it out")
    (first,), _ = mpi.exclusive_sum(comm, [n_local])
    test = drawn_test(task.options.seed, share, int(first), n_local)
    _, (n_test, n_rows) = mpi.exclusive_sum(comm, [int(np.count_nonzero(test)), n_local])
    check_sizes(int(n_test), int(n_rows), share)
    return RowSplits(["test", "train"], np.subtract(1, test, dtype=np.int32))


def check_sizes(n_test: int, n_rows: int, share: float) -> None:
    """Raise ConfigError if test or train would be empty."""
    if n_test in (0, n_rows):
        name = "test" if n_test == 0 else "train"
        raise ConfigError(f"--test-share {share}: the split {name} of {n_rows} rows would be empty; choose another share or seed")


def stratified_test(seed: int, share: float, n_labels: int, y_indptr: np.ndarray, y_indices: np.ndarray) -> np.ndarray:
    """Test flags (m) with the share kept within strata: a row's rarest label, or none.

    In each stratum the first rows in the order of their random bits are test rows (rounded).
    """
    n_rows = y_indptr.size - 1
    order = np.argsort(np.bincount(y_indices, minlength=n_labels), kind="stable")
    rarity = np.empty(n_labels + 1, dtype=np.int64)
    rarity[order] = np.arange(n_labels)
    rarity[n_labels] = n_labels
    stratum = np.full(n_rows, n_labels, dtype=np.int64)
    labelled = np.flatnonzero(np.diff(y_indptr))
    if labelled.size:
        stratum[labelled] = np.minimum.reduceat(rarity[y_indices], y_indptr[labelled])
    by_stratum = np.lexsort((bits(seed, "split", np.arange(n_rows)), stratum))
    sizes = np.bincount(stratum, minlength=n_labels + 1)
    place = np.arange(n_rows) - np.repeat(offsets(sizes)[:-1], sizes)
    wanted = np.floor(share * sizes + 0.5)
    test = np.empty(n_rows, dtype=bool)
    test[by_stratum] = place < np.repeat(wanted, sizes)
    return test


def _test_flags(dataset: DataFile, share: float, stratified: bool, seed: int) -> np.ndarray:
    """Test flags (m) of a dataset's rows."""
    if stratified:
        return stratified_test(seed, share, dataset.n_labels, np.array(dataset.map("Y/indptr")), dataset.map("Y/indices"))
    return drawn_test(seed, share, 0, dataset.n_rows)


def _drawn(dataset: DataFile, test_share: float, valid_share: float | None, stratified: bool, seed: int) -> dict[str, np.ndarray]:
    """The flags of each split's rows. Raises ConfigError if one would be empty."""
    test = held = _test_flags(dataset, test_share, stratified, seed)
    check_sizes(int(np.count_nonzero(test)), test.size, test_share)
    if valid_share is not None:
        held = _test_flags(dataset, test_share + valid_share, stratified, seed)
    parts = {"test": test, "train": ~held} | ({} if valid_share is None else {"valid": held & ~test})
    if empty := [name for name, flags in parts.items() if not flags.any()]:
        raise ConfigError(f"--valid-share {valid_share}: the split {empty[0]} of {test.size} rows would be empty; choose another")
    return parts


def split(
    comm: mpi.Comm,
    path: Path,
    output: Path | None,
    test_share: float,
    stratified: bool,
    seed: int,
    force: bool,
    log: Log,
    valid_share: float | None = None,
) -> None:
    """Collective over `comm`. Write `path` with splits train, test, valid to `output`, or in place.

    The file is copied beside its destination, the copy is edited and renamed. Raises ConfigError
    for shares outside (0, 1) or that leave a split empty, and for splits or an output that exist
    (without `force`); DataError for unusable files.
    """
    check_share(test_share)
    if valid_share is not None:
        check_share(valid_share, "--valid-share")
        check_together(test_share, valid_share)
    counts, learned = {}, False
    with temporary_path(comm, output or path, force or output is None) as temporary, mpi.agreed(comm, f"splitting {path}"):
        if comm.rank == 0:
            with DataFile(path) as dataset:
                if dataset.split_names() and not force:
                    raise ConfigError(f"{path} has splits ({', '.join(dataset.split_names())}); use --force to replace them")
                parts, learned = _drawn(dataset, test_share, valid_share, stratified, seed), "text/idf" in dataset.file
            counts = {name: int(np.count_nonzero(flags)) for name, flags in parts.items()}
            shutil.copyfile(path, temporary)
            _write_splits(temporary, parts)
    if comm.rank == 0:
        valid = f", {counts['valid']} rows of the split valid" if "valid" in counts else ""
        log(f"{output or path}: {counts['train']} training rows, {counts['test']} test rows{valid}")
    if learned:
        log("note: the words' weights were made before this split; `hpcml convert --test-share` makes them from training rows only")


def check_together(test_share: float, valid_share: float) -> None:
    """Raise ConfigError if both shares leave no training rows."""
    if test_share + valid_share >= 1:
        raise ConfigError(f"--test-share {test_share} and --valid-share {valid_share} leave no training rows; choose smaller ones")


def _write_splits(path: Path, parts: Mapping[str, np.ndarray]) -> None:
    """Replace the splits of a dataset file in place; `parts`: flags of all rows by name."""
    with editing(path) as file:
        if "splits" in file:
            del file["splits"]
        group = group_in(file, "splits")
        for name, flags in parts.items():
            group[name] = np.flatnonzero(flags).astype(np.int64)
