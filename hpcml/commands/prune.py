"""`hpcml prune MODEL DATA --below MAGNITUDE`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, AnyModel, Floats, Operation, PathLike, Session, path_of
from hpcml.options import Flag, Only, Range, Several

if TYPE_CHECKING:
    from hpcml.reduce.prune import Pruning


@dataclass(frozen=True)
class Prune(Operation["Pruning"]):
    """Leave small weights out of a linear model.

    Prints the size and the quality of each pruned model. The saved model is sparse.
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """A dataset with the model's features and labels, to judge on."""
    _: KW_ONLY
    below: Annotated[Floats, Several, Range(0)]
    """Leave out weights of smaller magnitude than this. Several give a line of the table each."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """The model to make, of the last magnitude. Default: only the table."""
    split: str | None = None
    """Rows to judge on: a split of the file, or all. Default: test if the file has it."""
    force: Annotated[Flag, Only("output")] = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> Pruning:
        """Judge the pruned models and write the last. Collective over the session."""
        from hpcml.evaluation.seen import split_to_judge
        from hpcml.reduce.prune import prune
        from hpcml.run.session import opened_both

        with opened_both(session, self.model, self.data) as (model, dataset):
            split = split_to_judge(session.comm, dataset, self.split, session.log)
            return prune(session.comm, model, dataset, split, self.below, path_of(self.output), self.force, session.log)
