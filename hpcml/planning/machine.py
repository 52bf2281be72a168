"""The file with a machine's constants."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.atomic import check_output, write_whole
from hpcml.methods.forecast import Machine

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
    with mpi.agreed(comm, f"writing {path}"):
        if comm.rank == 0:
            if make_folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            check_output(path, force)
            if not path.parent.is_dir():
                raise DataError(f"{path}: the folder {path.parent} does not exist; create it first")
    machine = measure()
    with mpi.agreed(comm, f"writing {path}"):
        if comm.rank == 0:
            write_machine(path, machine)
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
    curves = found.get("constants")
    if not isinstance(curves, dict) or not curves or not all(_is_sound(count, each) for count, each in curves.items()):
        raise _damaged(path)
    return Machine(found["about"], curves)


def _is_sound(count: str, curves: Any) -> bool:
    """Whether these are curves by name, for a number of ranks."""
    return count.isdecimal() and isinstance(curves, dict) and all(map(_is_curve, curves.values()))


def _is_curve(curve: Any) -> bool:
    """Whether these are points, at numbers above 0 that ascend."""
    if not (isinstance(curve, list) and curve and all(isinstance(point, list) and len(point) == 2 for point in curve)):
        return False
    numbers = all(map(_is_number, chain(*curve)))
    return numbers and curve[0][0] > 0 and all(a[0] < b[0] for a, b in pairwise(curve))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _damaged(path: Path) -> DataError:
    return DataError(f"{path}: expected what `hpcml bench machine` writes; make it again with --force")
