"""`hpcml retrain RUN DATA -o RUN`, and `hpcml.retrain(run, data, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation, function
from hpcml.options import Seconds

if TYPE_CHECKING:
    from hpcml.methods.linear.report import TrainReport


@dataclass(frozen=True)
class Retrain(TrainingOperation["TrainReport"]):
    """Train again when the data have changed, and only what has.

    The options are those of a finished run of `train dual`. If the documents are the same, labels
    with the same positive rows keep their models, and only the others are trained. If documents
    came or went, all are trained. Either way the model is the file that training anew gives.

    Examples
    --------
    >>> hpcml.retrain("run", "new.h5", "again").model
    """

    run: PathLike
    """The run folder of a finished `hpcml train dual`."""
    data: PathLike
    """A dataset with the features of the run's, made with `hpcml convert --like` (and
    --new-labels).
    """
    output: Annotated[PathLike, OUTPUT]
    """The new run folder; must not exist without --resume or --force."""
    _: KW_ONLY
    time_limit: Seconds = None
    """Seconds of training (without loading) after which to write a checkpoint and stop with exit code 75."""

    def execute(self, session: Session) -> TrainReport:
        """A text, with the path of the model as `model`. Collective over the session."""
        from hpcml.methods.retrain import retrain
        from hpcml.run.session import Target

        target = Target(Path(self.output), self.force, self.resume)
        return retrain(session, Path(self.run), Path(self.data), target, self.time_limit)


retrain = function(Retrain)
