"""`hpcml check FOLDER`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import Operation, PathLike, Session, Strings, check_files
from hpcml.errors import ConfigError
from hpcml.options import Flag, Only, Several

if TYPE_CHECKING:
    from hpcml.check.bits import Digests
    from hpcml.check.check import Findings


@dataclass(frozen=True)
class Check(Operation["tuple[Findings, Digests]"]):
    """Check that this machine can train: launcher, files, a run.

    On the ranks that are there: launcher, cores, messages, files, locks, a tiny run; or whether bits are those of other processors.
    """

    folder: PathLike = Path("hpcml-check")
    """A new folder on the file system where runs will lie; it is removed again."""
    _: KW_ONLY
    bits: Flag = False
    """Train all methods on tiny data instead, score, judge, calibrate, and compare with what came out elsewhere."""
    methods: Annotated[Strings, Several, Only("bits")] = ()
    """With --bits: only these methods."""
    json: Annotated[PathLike | None, Only("bits")] = None
    """With --bits: write the digests, and by what they were computed, to this file."""
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""

    def execute(self, session: Session) -> tuple[Findings, Digests]:
        """Return the findings, and with `bits` the digests. Collective over the session."""
        from hpcml.check.check import check, check_bits

        if not self.bits:
            return check(session.comm, Path(self.folder)), {}
        check_files(session, self.force, [], json=self.json)
        return check_bits(session.comm, Path(self.folder), self.methods)

    def format_result(self, result: Any) -> str:
        """Return the findings."""
        return str(result[0])

    def finish(self, session: Session, result: Any) -> None:
        """Write the digests. Raise ConfigError if there is an error. Collective over the session."""
        from hpcml.check.bits import write
        from hpcml.mpi import run_on_root

        findings, digests = result
        if self.json is not None:
            run_on_root(session.comm, f"writing {self.json}", lambda: write(Path(self.json), digests))
        if session.comm.bcast(findings.n_bad):
            advice = "results marked error differ from those of other processors" if self.bits else "correct what is marked error"
            raise ConfigError(f"check failed: {advice}")
