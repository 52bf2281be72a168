"""`hpcml report`: judging runs and writing the page about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcml import mpi
from hpcml.errors import ConfigError, repeated
from hpcml.files.atomic import check_new, write_whole
from hpcml.log import Log, plural
from hpcml.reporting.gather import gather
from hpcml.reporting.page import check_packages, page


def report(
    comm: mpi.Comm,
    runs: Sequence[Path],
    data: Path | None,
    split: str | None,
    output: Path,
    force: bool,
    log: Log,
    titles: Path | None = None,
) -> Path:
    """Collective over `comm`. Judge runs (folders, models) and write a page about them; on rank 0.

    `data` None: each run's own. `titles`: JSON lines with those of rows. Raises ConfigError,
    DataError or NonFiniteError; then there is no page.
    """
    if not runs:
        raise ConfigError("report what? name a run folder, or several")
    twice = repeated(map(str, runs))
    if twice is not None:
        raise ConfigError(f"{twice}: named twice; name each run once")

    def check() -> None:
        check_packages()
        check_new(output, force, [data, titles])

    mpi.run_on_root(comm, f"creating {output}", check)
    reports = [gather(comm, run, data, split, log, titles) for run in runs]

    def write() -> None:
        found = [each for each in reports if each is not None]
        text = page(found, f"hpcml report: {', '.join(each.facts.name for each in found)}")
        write_whole(output, text.encode(errors="backslashreplace"))
        log(f"{output}: {len(text) / 1e6:.2f} MB about {plural(len(reports), 'run')}")

    mpi.run_on_root(comm, f"writing {output}", write)
    return output
