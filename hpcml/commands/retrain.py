"""`hpcml retrain RUN DATA -o RUN`, and `hpcml.retrain(run, data, output)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation
from hpcml.options import Seconds

if TYPE_CHECKING:
    from hpcml.methods.linear.report import TrainReport


@dataclass(frozen=True)
class Retrain(TrainingOperation["TrainReport"]):
    """Update a model of method dual after its data changed.

    Uses the options of the finished run. If the documents are the same, only labels with other positive rows are trained, and the
    other labels are copied. If documents were added or removed, all labels are trained. Either way the model equals that of a new
    training, byte for byte.

    Examples
    --------
    >>> hpcml.retrain("run", "new.h5", "updated").model.name
    'model.h5'
    """

    run: PathLike
    """Run folder of a finished `hpcml train dual`."""
    data: PathLike
    """Dataset with the features of the run's dataset, made with `hpcml convert --like` (and `--new-labels` for new labels)."""
    output: Annotated[PathLike, OUTPUT]
    """New run folder. An existing one needs --resume or --force."""
    _: KW_ONLY
    time_limit: Seconds = None
    """Seconds of training (without loading) after which to write a checkpoint and stop with exit code 75. Default: no limit."""

    def execute(self, session: Session) -> "TrainReport":
        """The report as a text, with the path of the model as `model`. Collective over the session."""
        from hpcml.methods.retrain import retrain
        from hpcml.run.session import Target

        return retrain(session, self.run, self.data, Target(self.output, self.force, self.resume), self.time_limit)
