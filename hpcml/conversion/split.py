"""Rows to train and to test on, drawn by the keys of rows or groups: adding other rows moves none."""

from __future__ import annotations

import shutil
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.data.dataset import DataFile
from hpcml.data.row_keys import draw_keys, look_up
from hpcml.data.stratify import divide
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.atomic import temporary_path
from hpcml.files.slabs import editing, group_in
from hpcml.log import Log, named, plural
from hpcml.rng import uniform


def drawn_test(seed: int, share: float, keys: np.ndarray) -> np.ndarray:
    """Return which rows, by their keys (`draw_keys`), are in a random test split of about this share."""
    return uniform(seed, "split", keys) < share


def check_split_name(name: str) -> str:
    """The name of a row's split, "" for none. Raises ValueError unless `--split` can name it."""
    if name in ("all", ".", "..") or "/" in name or "," in name:
        raise ValueError(f"split {name!r} cannot be used; choose another name, without / and comma and not all")
    return name


def two_kinds_of_splits(share: float, name: str) -> OptionError:
    """Return the error of --test-share for an input in which a row is in the split `name`."""
    return OptionError(
        "test_share", share, f"the input has splits, such as {named(name)}; remove it, or add --ignore-splits to draw others"
    )


def no_splits_to_ignore() -> OptionError:
    """Return the error of --ignore-splits for an input without splits."""
    return OptionError("ignore_splits", True, "has no effect: no row of the input has a split; remove it")


class RowSplits(NamedTuple):
    """The names of the splits, and the place among them of each row's (-1: it is in none)."""

    names: list[str]
    of_rows: np.ndarray


def row_splits(task: Conversion, keys: np.ndarray, groups: np.ndarray | None, own: list[str] | None) -> RowSplits:
    """Collective. The rows' splits: their own ("": none), or drawn by `keys` and `groups`.

    Rows of the --like dataset, and rows of their groups, keep its splits. Warns of groups that splits divide. Raises
    ConfigError, and DataError if no row has a value of --group.
    """
    comm, share = task.comm, task.options.test_share
    if groups is None and task.options.group is not None:
        raise DataError(f"{task.what}: --group {task.options.group}: no row has a value of it")
    names = sorted(set().union(*comm.allgather({name for name in own or [] if name})))
    if share is None:
        number = {name: n for n, name in enumerate(names)}
        places = (number.get(name, -1) for name in own or repeat("", keys.size))
        of_rows = np.fromiter(places, dtype=np.int32, count=keys.size)
    else:
        test = drawn_test(task.options.seed, share, keys if groups is None else groups)
        names, of_rows = ["test", "train"], np.subtract(1, test, dtype=np.int32)
        if task.options.like is not None:
            names, of_rows = _splits_of_like(task, keys, groups, names, of_rows)
        _, (n_test, n_train, *_) = mpi.exclusive_sum(comm, np.bincount(of_rows, minlength=len(names)))
        check_sizes(int(n_test), int(n_test + n_train), share)
        task.log.detail(f"--test-share {share}: {n_test / (n_test + n_train):.3f} of the rows are test rows")
    if groups is not None and names:
        inside = of_rows >= 0
        of_inside, split = groups[inside], of_rows[inside]
        apart = np.unique(of_inside[look_up(comm, of_inside, split, of_inside) != split])
        n_divided = np.unique(np.concatenate(mpi.allgather_arrays(comm, apart))).size
        if n_divided:
            task.log(
                f"warning: {task.what}: rows of {plural(n_divided, 'group')} are in several splits, "
                "so measures on the test rows may be too high"
            )
    return RowSplits(names, of_rows)


def _splits_of_like(
    task: Conversion, keys: np.ndarray, groups: np.ndarray | None, names: list[str], places: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Collective. Splits by name, and of each row the place of its split: that of --like, if it is there."""
    comm, path = task.comm, task.options.like
    with mpi.agreed(task.comm, f"reading {task.what}"), DataFile(path) as dataset:
        there = dataset.split_names()
        names = [*names, *(name for name in there if name not in names)]
        split = np.full(dataset.n_rows, -1, np.int32)
        for name in there:
            split[dataset.split(name)] = names.index(name)
        begin, end = task.share(dataset.n_rows)
        of_groups = "row_groups" if dataset.has_groups else "row_keys"
        of_like, groups_of_like = (np.array(dataset.map(name, begin, end)) for name in ("row_keys", of_groups))
        of_like, groups_of_like, split = (values[split[begin:end] >= 0] for values in (of_like, groups_of_like, split[begin:end]))
    known = look_up(comm, of_like, split, keys)
    is_known = known >= 0
    if groups is not None:  # a group is on the side of those of its rows that are known
        found = look_up(comm, np.append(groups_of_like, groups[is_known]), np.append(split, known[is_known]), groups)
        places = np.where(found >= 0, found, places)
    elif of_groups == "row_groups":
        task.log(f"warning: --like {path} has groups of rows; without --group their new rows may get other splits")
    places = np.where(is_known, known, places)  # a row's own split comes last, since it must not change
    _, (n_known,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(is_known))])
    if n_known:
        task.log(f"{plural(int(n_known), 'row')} of {path} keep their splits")
    return names, places.astype(np.int32)


def check_sizes(n_test: int, n_rows: int, share: float) -> None:
    """Raise ConfigError if test or train would be empty."""
    if n_test in (0, n_rows):
        name = "test" if n_test == 0 else "train"
        raise OptionError("test_share", share, f"the split {name} of {n_rows} rows would be empty; choose another share or seed")


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

    The file is copied beside its destination, the copy is edited and renamed. Raises ConfigError for shares outside (0, 1) or that
    leave a split empty, and for splits or an output that exist (without `force`); DataError for unusable files.
    """
    for name, share in (("test_share", test_share), ("valid_share", valid_share)):
        if share is not None and not 0 < share < 1:
            raise OptionError(name, share, "expected a number between 0 and 1")
    if valid_share is not None and test_share + valid_share >= 1:
        raise ConfigError(f"--test-share {test_share} and --valid-share {valid_share} leave no training rows; choose smaller ones")
    counts, learned = {}, False
    with temporary_path(comm, output or path, force or output is None) as temporary, mpi.agreed(comm, f"splitting {path}"):
        if comm.rank == 0:
            with DataFile(path) as dataset:
                if dataset.split_names() and not force:
                    raise ConfigError(f"{path} has splits ({', '.join(dataset.split_names())}); use --force to replace them")
                learned = "text/idf" in dataset.file
                shares = {"test": test_share} | ({} if valid_share is None else {"valid": valid_share})
                keys = draw_keys(dataset, np.arange(dataset.n_rows))
                if stratified:
                    of_parts = np.array([*shares.values(), 1 - sum(shares.values())])
                    indptr, labels = np.array(dataset.map("Y/indptr")), dataset.map("Y/indices")
                    part = divide(dataset.n_labels, indptr, labels, of_parts, keys, seed)
                else:
                    part = np.searchsorted(np.cumsum([*shares.values()]), uniform(seed, "split", keys), side="right")
                parts = {name: part == number for number, name in enumerate([*shares, "train"])}
            check_sizes(int(np.count_nonzero(parts["test"])), part.size, test_share)
            if empty := [name for name, flags in parts.items() if not flags.any()]:
                sentence = f"the split {empty[0]} of {part.size} rows would be empty; choose another"
                raise OptionError("valid_share", valid_share, sentence)
            counts = {name: int(np.count_nonzero(flags)) for name, flags in parts.items()}
            shutil.copyfile(path, temporary)
            with editing(temporary) as file:
                if "splits" in file:
                    del file["splits"]
                group = group_in(file, "splits")
                for name, flags in parts.items():
                    group[name] = np.flatnonzero(flags).astype(np.int64)
    if comm.rank == 0:
        n_rows = sum(counts.values())
        made = [
            f"{plural(counts[name], 'row')} of the split {name} ({counts[name] / n_rows:.3f}; asked: {share})"
            for name, share in shares.items()
        ]
        log(f"{output or path}: {plural(counts['train'], 'training row')}, {', '.join(made)}")
    if learned:
        log("note: the words' weights were made before this split; `hpcml convert --test-share` makes them from training rows only")
