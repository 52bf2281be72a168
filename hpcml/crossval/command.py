"""`hpcml cv`: from the names on the command line to a table on the screen and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.crossval.methods import divide_names, divide_path
from hpcml.crossval.table import CrossValidation, csv_text
from hpcml.crossval.validate import cross_validate
from hpcml.files.atomic import check_new, write_whole
from hpcml.log import Log


def cv(
    comm: mpi.Comm,
    names: Sequence[str],
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
    **options: Any,
) -> CrossValidation:
    """Cross-validate the methods among `names` on the data among them; write `output` as CSV.

    `options` are those of `cross_validate`. Collective over `comm`.
    """

    def divided() -> tuple[list[str], list[str]]:
        methods, data = divide_names(names)
        if output is not None:
            check_new(output, force, [divide_path(name)[0] for name in data])
        return methods, data

    methods, data = mpi.run_on_root(comm, "looking for the data", divided)
    result = cross_validate(comm, methods, data, log=log, **options)
    if output is not None:
        mpi.run_on_root(comm, f"writing {output}", lambda: write_whole(output, csv_text(result).encode()))
    return result
