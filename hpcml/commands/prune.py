"""`hpcml prune MODEL DATA --below MAGNITUDE`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from hpcml.commands.operation import OUTPUT, AnyModel, Floats, Operation, PathLike, Session
from hpcml.options import Flag, Only, Range, Several

if TYPE_CHECKING:
    from hpcml.reduce.prune import Pruning


@dataclass(frozen=True)
class Prune(Operation["Pruning"]):
    """Remove small weights from a linear model, or round them.

    Prints the size and the quality of each pruned model.
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: PathLike
    """Dataset with the features and labels of the model, to evaluate the pruned models."""
    _: KW_ONLY
    below: Annotated[Floats, Several, Range(0)]
    """Magnitude below which weights are removed. Several values: one line of the table for each."""
    weights: Literal["float16"] | None = None
    """Round the remaining weights to this type: float16. Default: keep their type."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """Model file to write, pruned with the last magnitude. Default: only print the table."""
    split: str | None = None
    """Rows to evaluate on: a split of the dataset, or all. Default: test if the dataset has it, else all."""
    force: Annotated[Flag, Only("output")] = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> "Pruning":
        from hpcml.evaluation.scored_rows import choose_split
        from hpcml.reduce.prune import prune
        from hpcml.run.session import open_model_and_dataset

        with open_model_and_dataset(session, self.model, self.data) as (model, dataset):
            split = choose_split(session.comm, dataset, self.split, session.log)
            half = self.weights is not None
            return prune(session.comm, model, dataset, split, self.below, self.output, self.force, session.log, half)
