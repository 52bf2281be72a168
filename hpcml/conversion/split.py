"""Training and test rows, drawn by the keys of rows or groups, so adding rows does not move other rows."""

import shutil
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.data.dataset import DataFile
from hpcml.data.row_keys import draw_keys, find_key_values
from hpcml.data.stratify import divide
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.atomic import temporary_path
from hpcml.files.slabs import open_for_update, require_group
from hpcml.log import Log, named, plural
from hpcml.rng import uniform


def draw_test_rows(seed: int, share: float, keys: np.ndarray) -> np.ndarray:
    return uniform(seed, "split", keys) < share


def check_split_name(name: str) -> str:
    if name in ("all", ".", "..") or "/" in name or "," in name:
        raise ValueError(f"split name {name!r} is not allowed; expected a name without / and comma, other than all")
    return name


def conflicting_splits_error(share: float, name: str) -> OptionError:
    why = f"the input has splits, such as {named(name)}; remove it, or use --ignore-splits to draw new ones"
    return OptionError("test_share", share, why)


def no_splits_error() -> OptionError:
    return OptionError("ignore_splits", True, "has no effect on an input without splits; remove it")


class RowSplits(NamedTuple):
    names: list[str]
    split_of_row: np.ndarray


def row_splits(task: Conversion, keys: np.ndarray, groups: np.ndarray | None, own: list[str] | None) -> RowSplits:
    """Rows of the --like file and of its groups keep its splits. Collective."""
    comm, share = task.comm, task.options.test_share
    if groups is None and task.options.group is not None:
        raise DataError(f"{task.input_name}: --group {task.options.group}: no row has a value for it")
    names = sorted(set().union(*comm.allgather({name for name in own or [] if name})))
    if share is None:
        number = {name: n for n, name in enumerate(names)}
        numbers = (number.get(name, -1) for name in own or repeat("", keys.size))
        split_of_row = np.fromiter(numbers, dtype=np.int32, count=keys.size)
    else:
        test = draw_test_rows(task.options.seed, share, keys if groups is None else groups)
        names, split_of_row = ["test", "train"], np.subtract(1, test, dtype=np.int32)
        if task.options.like is not None:
            names, split_of_row = _apply_like_splits(task, keys, groups, names, split_of_row)
        _, (n_test, n_train, *_) = mpi.exclusive_sum(comm, np.bincount(split_of_row, minlength=len(names)))
        check_sizes(int(n_test), int(n_test + n_train), share)
        task.log.detail(f"--test-share {share}: {n_test / (n_test + n_train):.3f} of the rows are test rows")
    if groups is not None and names:
        inside = split_of_row >= 0
        of_inside, split = groups[inside], split_of_row[inside]
        apart = np.unique(of_inside[find_key_values(comm, of_inside, split, of_inside) != split])
        n_divided = np.unique(np.concatenate(mpi.allgather_arrays(comm, apart))).size
        if n_divided:
            what = f"rows of {plural(n_divided, 'group')} are in several splits"
            task.log(f"warning: {task.input_name}: {what}, so results on test rows may be too optimistic")
    return RowSplits(names, split_of_row)


def _apply_like_splits(
    task: Conversion, keys: np.ndarray, groups: np.ndarray | None, names: list[str], numbers: np.ndarray
) -> tuple[list[str], np.ndarray]:
    comm, path = task.comm, task.options.like
    with mpi.agreed(task.comm, f"reading {task.input_name}"), DataFile(path) as dataset:
        like_names = dataset.split_names()
        names = [*names, *(name for name in like_names if name not in names)]
        split = np.full(dataset.n_rows, -1, np.int32)
        for name in like_names:
            split[dataset.split(name)] = names.index(name)
        begin, end = task.share(dataset.n_rows)
        groups_name = "row_groups" if dataset.has_groups else "row_keys"
        like_keys, like_groups = (np.array(dataset.map(name, begin, end)) for name in ("row_keys", groups_name))
        like_keys, like_groups, split = (values[split[begin:end] >= 0] for values in (like_keys, like_groups, split[begin:end]))
    known = find_key_values(comm, like_keys, split, keys)
    is_known = known >= 0
    if groups is not None:  # a group gets the split of its known rows
        group_splits = find_key_values(comm, np.append(like_groups, groups[is_known]), np.append(split, known[is_known]), groups)
        numbers = np.where(group_splits >= 0, group_splits, numbers)
    elif groups_name == "row_groups":
        task.log(f"warning: --like {path} has row groups; without --group, new rows of a group may get another split")
    numbers = np.where(is_known, known, numbers)  # a known row keeps its split
    _, (n_known,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(is_known))])
    if n_known:
        task.log(f"{plural(int(n_known), 'row')} of {path} keep their splits")
    return names, numbers.astype(np.int32)


def check_sizes(n_test: int, n_rows: int, share: float) -> None:
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
    """Write the dataset `path` with splits train, test and valid to `output`, or in place. Collective over `comm`.

    The file is copied next to its destination, edited and renamed. Raises ConfigError for shares outside (0, 1), for empty splits,
    and for existing splits or outputs (without `force`); DataError for unusable files.
    """
    for name, share in (("test_share", test_share), ("valid_share", valid_share)):
        if share is not None and not 0 < share < 1:
            raise OptionError(name, share, "expected a number between 0 and 1")
    if valid_share is not None and test_share + valid_share >= 1:
        raise ConfigError(f"--test-share {test_share} and --valid-share {valid_share} leave no training rows; choose smaller ones")
    counts, has_idf = {}, False
    with temporary_path(comm, output or path, force or output is None) as temporary, mpi.agreed(comm, f"splitting {path}"):
        if comm.rank == 0:
            with DataFile(path) as dataset:
                if dataset.split_names() and not force:
                    raise ConfigError(f"{path} has splits ({', '.join(dataset.split_names())}); use --force to replace them")
                has_idf = "text/idf" in dataset.file
                shares = {"test": test_share} | ({} if valid_share is None else {"valid": valid_share})
                keys = draw_keys(dataset, np.arange(dataset.n_rows))
                if stratified:
                    part_shares = np.array([*shares.values(), 1 - sum(shares.values())])
                    indptr, labels = np.array(dataset.map("Y/indptr")), dataset.map("Y/indices")
                    part = divide(dataset.n_labels, indptr, labels, part_shares, keys, seed)
                else:
                    part = np.searchsorted(np.cumsum([*shares.values()]), uniform(seed, "split", keys), side="right")
                parts = {name: part == number for number, name in enumerate([*shares, "train"])}
            check_sizes(int(np.count_nonzero(parts["test"])), part.size, test_share)
            if empty := [name for name, flags in parts.items() if not flags.any()]:
                sentence = f"the split {empty[0]} of {part.size} rows would be empty; choose another"
                raise OptionError("valid_share", valid_share, sentence)
            counts = {name: int(np.count_nonzero(flags)) for name, flags in parts.items()}
            shutil.copyfile(path, temporary)
            with open_for_update(temporary) as file:
                if "splits" in file:
                    del file["splits"]
                group = require_group(file, "splits")
                for name, flags in parts.items():
                    group[name] = np.flatnonzero(flags).astype(np.int64)
    if comm.rank == 0:
        n_rows = sum(counts.values())
        parts_text = [
            f"{plural(counts[name], 'row')} of the split {name} ({counts[name] / n_rows:.3f}; requested: {share})"
            for name, share in shares.items()
        ]
        log(f"{output or path}: {plural(counts['train'], 'training row')}, {', '.join(parts_text)}")
    if has_idf:
        advice = "`hpcml convert --test-share` computes them from training rows only"
        log(f"note: word weights were computed before this split; {advice}")
