"""`hpcml plan METHOD DATA`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import Operation, PathLike, Session, check_files, path_of
from hpcml.options import Flag, Only
from hpcml.planning.options import PlanOptions

if TYPE_CHECKING:
    from hpcml.planning.plan import Plan


@dataclass(frozen=True)
class PlanTraining(Operation["Plan"]):
    """Say what training would take: memory, disk and time, and the command for it."""

    data: PathLike | None = None
    """A dataset made with `hpcml convert`. Without it give --rows, --features and --labels; then the time stays unknown."""
    _: KW_ONLY
    method: str
    """A method of `hpcml train`."""
    wanted: PlanOptions
    """Figures in place of data, and where the training would run."""
    options: Any = None
    """The options of the method."""
    json: PathLike | None = None
    """Write the plan to this file."""
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""

    def execute(self, session: Session) -> Plan:
        """Return the plan. Collective over the session."""
        from hpcml.methods.registry import method_named
        from hpcml.planning.plan import plan

        check_files(session, self.force, [self.data], json=self.json)
        return plan(session, method_named(self.method), path_of(self.data), self.wanted, self.options)
