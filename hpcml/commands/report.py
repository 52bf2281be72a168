"""`hpcml report RUN... -o PAGE`, and `hpcml.report(runs, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session, function, path_of, paths_of
from hpcml.errors import ConfigError, OptionError, repeated
from hpcml.log import plural
from hpcml.options import Flag


@dataclass(frozen=True)
class ReportPage(Operation[Path]):
    """Make one page (HTML) about a run, or several side by side.

    It has measures, curves, all labels, wrong rows, and needs no network. Needs: pip install 'hpcml[report]'.

    Examples
    --------
    >>> hpcml.report(["run", "other"], "page.html", data="docs.h5")
    """

    runs: Paths
    """Run folders, or models. The first one is what the others are compared with."""
    output: Annotated[PathLike, OUTPUT]
    """The page to make."""
    _: KW_ONLY
    data: PathLike | None = None
    """A dataset to judge on, with the models' features and labels. Default: the data of each run."""
    split: str | None = None
    """Rows to judge on: a split of the file, or all. Default: test if the file has it."""
    titles: PathLike | None = None
    """JSON lines with the titles of rows, as those that the data were made of. Default: rows are shown by their ids."""
    optimiser: Flag = False
    """Show iterations, certified gaps and the number of weights. Default: leave them out."""
    force: Flag = False
    """Replace the page if it exists."""

    def execute(self, session: Session) -> Path:
        """The page. Collective over the session."""
        from datetime import UTC, datetime

        from hpcml import mpi
        from hpcml.files.atomic import check_output, write_whole
        from hpcml.reporting.gather import gather
        from hpcml.reporting.page import check_packages, page

        comm, log, output = session.comm, session.log, Path(self.output)
        runs, data, titles = paths_of(self.runs), path_of(self.data), path_of(self.titles)
        if not runs:
            raise ConfigError("missing RUNS: name a run folder, or several")
        if twice := repeated(map(str, runs)):
            raise ConfigError(f"{twice}: named twice; name each run once")

        def check() -> None:
            check_packages()
            check_output(output, self.force, [data, titles])

        mpi.run_on_root(comm, f"creating {output}", check)
        reports = [gather(comm, run, data, self.split, log, titles, self.optimiser) for run in runs]

        def write() -> None:
            found = [each for each in reports if each is not None]
            if self.optimiser and not any(each.facts.optimiser for each in found):
                raise OptionError("optimiser", True, "has no effect: no run is of a linear model")
            title = f"hpcml report: {', '.join(each.facts.name for each in found)}"
            text = page(found, title, f"{datetime.now(UTC):%Y-%m-%d}", self.optimiser)
            write_whole(output, text.encode(errors="backslashreplace"))
            log(f"{output}: {len(text) / 1e6:.2f} MB about {plural(len(reports), 'run')}")

        mpi.run_on_root(comm, f"writing {output}", write)
        return output


report = function(ReportPage)
