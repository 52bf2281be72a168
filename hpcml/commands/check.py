"""`hpcml check FOLDER`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import Operation, PathLike, Session, Strings, check_outputs
from hpcml.errors import ConfigError
from hpcml.options import Flag, Only, Several

if TYPE_CHECKING:
    from hpcml.check.bits import Digests
    from hpcml.check.check import Findings


@dataclass(frozen=True)
class Check(Operation["tuple[Findings, Digests]"]):
    """Check the launcher, the file system and a small training run.

    Checks ranks, cores, memory, clocks, messages, files and locks, and a small training run on the ranks of the job. With --bits:
    whether the results of all methods equal those of other processors, bit by bit.
    """

    folder: PathLike = Path("hpcml-check")
    """New folder on the file system of the runs; it is removed at the end."""
    _: KW_ONLY
    bits: Flag = False
    """Train all methods on small data and compare digests of models, scores and measures with those of other processors."""
    methods: Annotated[Strings, Several, Only("bits")] = ()
    """With --bits: train only these methods. Default: all."""
    json: Annotated[PathLike | None, Only("bits")] = None
    """With --bits: write the digests to this file, with the versions of processor and libraries."""
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""

    def execute(self, session: Session) -> "tuple[Findings, Digests]":
        from hpcml.check.check import check, check_bits

        if not self.bits:
            return check(session.comm, self.folder), {}
        check_outputs(session, self.force, [], json=self.json)
        return check_bits(session.comm, self.folder, self.methods)

    def format_result(self, result: Any) -> str:
        return str(result[0])

    def finish(self, session: Session, result: Any) -> None:
        from hpcml.check.bits import write_digests
        from hpcml.mpi import run_on_root

        findings, digests = result
        if self.json is not None:
            run_on_root(session.comm, f"writing {self.json}", lambda: write_digests(self.json, digests))
        if session.comm.bcast(findings.count("error")):
            advice = "results marked error differ from those of other processors" if self.bits else "correct what is marked error"
            raise ConfigError(f"check failed: {advice}")
