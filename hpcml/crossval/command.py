"""`hpcml cv`: from the names on the command line to a table on the screen and in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcml import mpi
from hpcml.crossval.methods import divide_names, divide_path
from hpcml.crossval.table import CrossValidation, csv_text
from hpcml.crossval.top_table import TopPrecision, top_csv_text
from hpcml.crossval.validate import cross_validate, cross_validate_top
from hpcml.errors import ConfigError, nearest
from hpcml.files.atomic import check_new, write_whole
from hpcml.log import Log


class Judging(NamedTuple):
    """A protocol: its function, the writer of its results, and the options that only it has."""

    work: Callable[..., Any]
    csv_text: Callable[[Any], str]
    options: tuple[str, ...]


PROTOCOLS = {
    "folds": Judging(cross_validate, csv_text, ("folds", "baseline")),
    "top": Judging(cross_validate_top, top_csv_text, ("top", "splits", "picture")),
}


def judging(protocol: str, **options: Any) -> tuple[Judging, dict[str, Any]]:
    """The protocol of that name, and the options without those that are not given (None). Local.

    Raises ConfigError for an option of another protocol.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol {protocol}: no such protocol; {nearest(protocol, PROTOCOLS)}")
    given = {name: value for name, value in options.items() if value is not None}
    for other, how in PROTOCOLS.items():
        foreign = [f"--{name}" for name in how.options if name in given]
        if other != protocol and foreign:
            raise ConfigError(f"{', '.join(foreign)}: only --protocol {other} has that; leave it out, or choose that protocol")
    return PROTOCOLS[protocol], given


def cv(
    comm: mpi.Comm,
    names: Sequence[str],
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
    protocol: str = "folds",
    **options: Any,
) -> CrossValidation | TopPrecision:
    """Collective over `comm`. Cross-validate the methods among `names` on the data among them.

    `options` are the protocol's; the table goes to `output` as CSV. Raises ConfigError or DataError
    for what the user can mend, before the work where that is possible.
    """
    how, options = judging(protocol, **options)
    found = None
    with mpi.agreed(comm, "looking for the data"):
        if comm.rank == 0:
            found = divide_names(names)
            if output is not None:
                check_new(output, force, [divide_path(name)[0] for name in found[1]])
    methods, data = comm.bcast(found)
    result: CrossValidation | TopPrecision = how.work(comm, methods, data, log=log, **options)
    with mpi.agreed(comm, f"writing {output}"):
        if comm.rank == 0 and output is not None:
            write_whole(output, how.csv_text(result).encode())
    return result
