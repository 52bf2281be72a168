"""The file with a machine's constants."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.atomic import check_output, write_whole
from hpcml.methods.forecast import Curve, Machine

FORMAT = "hpcml machine 1"
LARGEST = 1 << 20  # bytes of such a file


def default_path() -> Path:
    """In XDG_CACHE_HOME or ~/.cache. Raises ConfigError for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "hpcml", "machine.json")
    except RuntimeError:
        raise ConfigError(
            "no home folder is known for the file with this machine's constants: set HOME, or name the file"
        ) from None


def write_to(comm: mpi.Comm, path: Path, make_folder: bool, force: bool, measure: Callable[[], Machine]) -> Machine:
    """Collective over `comm`. Check the path, measure, write. Raises ConfigError, DataError."""

    def check() -> None:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        check_output(path, force)
        if not path.parent.is_dir():
            raise DataError(f"{path}: the folder {path.parent} does not exist; create it first")

    mpi.run_on_root(comm, f"writing {path}", check)
    machine = measure()
    mpi.run_on_root(comm, f"writing {path}", lambda: write_machine(path, machine))
    return machine


def write_machine(path: Path, machine: Machine) -> None:
    """Write the file. Local; raises DataError."""
    content = {"format": FORMAT, "about": machine.about, "constants": machine.curves}
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def read_machine(path: Path) -> Machine:
    """Read the file. Local; raises ConfigError if there is none, DataError if it is not sound."""
    try:
        if not path.exists():
            raise ConfigError(
                f"{path} does not exist: measure this machine first with `hpcml bench machine`, or name --machine FILE"
            )
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path}: too large for what `hpcml bench machine` writes")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise file_error(path, "read", error) from None
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("about"), dict):
        raise _damaged(path)
    try:
        _check_curves(found["constants"])
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
        raise _damaged(path) from None
    return Machine(found["about"], found["constants"])


def _check_curves(constants: dict[str, dict[str, Curve]]) -> None:
    """Raise an error unless these are curves by name, for numbers of ranks; a curve ascends from a number above 0."""
    if not all(count.isdecimal() for count in constants) or not constants:
        raise ValueError
    for curve in chain(*(curves.values() for curves in constants.values())):
        if {type(number) for point in curve for number in point} - {int, float}:
            raise TypeError
        x, y = np.array(curve, np.float64).T
        if not (np.isfinite(x + y).all() and x[0] > 0 and (np.diff(x) > 0).all() and (y >= 0).all()):
            raise ValueError


def _damaged(path: Path) -> DataError:
    return DataError(f"{path}: expected what `hpcml bench machine` writes; make it again with --force")
