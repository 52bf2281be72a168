"""`hpcml plan METHOD DATA`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import Operation, PathLike, Session, check_outputs
from hpcml.commands.train import Train
from hpcml.options import Flag, Only
from hpcml.planning.options import PlanOptions

if TYPE_CHECKING:
    from hpcml.planning.plan import Plan


@dataclass(frozen=True)
class PlanTraining(Operation["Plan"]):
    """Estimate memory, disk space and time of a training run, and print its command."""

    data: PathLike | None = None
    """Dataset made with `hpcml convert`. Without it, give --rows, --features and --labels; the time is then not estimated."""
    _: KW_ONLY
    method: str
    """Method of `hpcml train`."""
    setup: PlanOptions
    """Size of the data, and the machine."""
    options: Any = None
    """Options of the method."""
    json: PathLike | None = None
    """JSON file for the plan. Default: none."""
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""

    families, options_for = Train.families, Train.options_for

    def execute(self, session: Session) -> "Plan":
        from hpcml.methods.registry import method_named
        from hpcml.planning.plan import plan

        check_outputs(session, self.force, [self.data], json=self.json)
        return plan(session, method_named(self.method), self.data, self.setup, self.options)
