"""`hpcml report RUN... -o PAGE`, and `hpcml.report(runs, output)`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session
from hpcml.errors import ConfigError, OptionError, repeated
from hpcml.log import plural
from hpcml.options import Flag


@dataclass(frozen=True)
class ReportPage(Operation[Path]):
    """Write an HTML report of one run, or of several side by side.

    The page has measures, curves, a table of all labels, and misclassified rows. It loads nothing from the network. Needs:
    pip install 'hpcml[report]'.

    Examples
    --------
    >>> hpcml.report(["run"], "page.html", data="docs.h5").name
    'page.html'
    """

    runs: Paths
    """Run folders, or model files. The others are compared with the first one."""
    output: Annotated[PathLike, OUTPUT]
    """HTML file to write."""
    _: KW_ONLY
    data: PathLike | None = None
    """Dataset to evaluate on, with the features and labels of the models. Default: the dataset of each run."""
    split: str | None = None
    """Rows to evaluate on: a split of the dataset, or all. Default: test if the dataset has it, else all."""
    titles: PathLike | None = None
    """JSON lines with the titles of the rows, such as the file that was converted. Default: show ids only."""
    optimiser: Flag = False
    """Add iterations, certified duality gaps and numbers of weights."""
    force: Flag = False
    """Replace the page if it exists."""

    def execute(self, session: Session) -> "Path":
        """The path of the page. Collective over the session."""
        from datetime import UTC, datetime

        from hpcml import mpi
        from hpcml.files.atomic import check_output, write_atomically
        from hpcml.reporting.gather import gather
        from hpcml.reporting.page import check_packages, page

        comm, log, output, titles = session.comm, session.log, self.output, self.titles
        if not self.runs:
            raise ConfigError("missing RUNS: name one or more run folders")
        if twice := repeated(map(str, self.runs)):
            raise ConfigError(f"{twice}: named twice; name each run once")

        def check() -> None:
            check_packages()
            check_output(output, self.force, [self.data, titles])

        mpi.run_on_root(comm, f"creating {output}", check)
        gathered = [gather(comm, run, self.data, self.split, log, titles, self.optimiser) for run in self.runs]

        def write() -> None:
            reports = [each for each in gathered if each is not None]
            if self.optimiser and not any(each.facts.optimiser for each in reports):
                raise OptionError("optimiser", True, "has no effect: no run is of a linear model")
            title = f"hpcml report: {', '.join(each.facts.name for each in reports)}"
            text = page(reports, title, f"{datetime.now(UTC):%Y-%m-%d}", self.optimiser)
            write_atomically(output, text.encode(errors="backslashreplace"))
            log(f"{output}: {len(text) / 1e6:.2f} MB about {plural(len(reports), 'run')}")

        mpi.run_on_root(comm, f"writing {output}", write)
        return output
