"""`hpcml bench machine`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session, path_of
from hpcml.options import Flag


@dataclass(frozen=True)
class BenchMachine(Operation[str]):
    """Measure what `hpcml plan` must know of this machine, with the real kernels, in about a
    minute; with mpirun on all ranks.
    """

    _: KW_ONLY
    output: Annotated[PathLike | None, OUTPUT] = None
    """The file to write. Default: machine.json in ~/.cache/hpcml, for `hpcml plan`."""
    folder: PathLike = Path()
    """Where runs will lie: its disk is measured, with a file that is removed again."""
    quick: Flag = False
    """Measure for a few seconds only; the constants may be several times too large or small."""
    force: Flag = False
    """Replace the file if it exists."""

    def execute(self, session: Session) -> str:
        """Measure, write the file and return the text. Collective over the session."""
        from hpcml.planning.machine import default_path, write_to
        from hpcml.planning.measure import measure_machine
        from hpcml.planning.report import format_machine

        comm, output = session.comm, path_of(self.output)
        path, folder = output or default_path(), Path(self.folder)
        found = write_to(comm, path, output is None, self.force, lambda: measure_machine(comm, folder, self.quick, session.log))
        return format_machine(found, path)
