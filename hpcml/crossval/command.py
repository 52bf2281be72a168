"""`hpcml cv`: from the names on the command line to a table on the screen and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.crossval.methods import divide_names, divide_path
from hpcml.crossval.table import CrossValidation, csv_text
from hpcml.crossval.tasks import cross_validate
from hpcml.errors import DataError
from hpcml.files.atomic import check_output, write_whole
from hpcml.log import Log


@mpi.collective
def cv(
    comm: mpi.Comm, names: Sequence[str], output: Path | None = None, force: bool = False, log: Log | None = None, **options: Any
) -> CrossValidation:
    """Collective over `comm`. Cross-validate the methods among `names` on the data among them; `options` as `cross_validate`'s.

    The table is written to `output` as CSV. Raises ConfigError or DataError for what the user can mend, before the work where that
    is possible.
    """
    found = None
    with mpi.agreed(comm, "looking for the data"):
        if comm.rank == 0:
            found = divide_names(names)
            if output is not None:
                check_output(output, force, [divide_path(name)[0] for name in found[1]])
                if not output.parent.is_dir():
                    raise DataError(f"{output}: the folder {output.parent} does not exist; create it first")
    methods, data = comm.bcast(found)
    result = cross_validate(comm, methods, data, log=log, **options)
    with mpi.agreed(comm, f"writing {output}"):
        if comm.rank == 0 and output is not None:
            write_whole(output, csv_text(result).encode())
    return result
