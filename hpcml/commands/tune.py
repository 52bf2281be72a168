"""`hpcml tune DATA -o RUN`, and `hpcml.tune(data, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation, function
from hpcml.tuning.options import TuneOptions

if TYPE_CHECKING:
    from hpcml.tuning.tune import TuneReport


@dataclass(frozen=True)
class Tune(TrainingOperation["TuneReport"]):
    """Choose λ, weight and threshold of each label, and train.

    λ and the weight of positive rows are chosen by cross-validation on the training rows. The model
    also gets a threshold and a sigmoid for each label, from the scores of held-out folds.

    Examples
    --------
    >>> hpcml.tune("docs.h5", "run", folds=3, lambdas=[0.1, 1.0]).model
    """

    data: PathLike
    """A dataset made with `hpcml convert`."""
    output: Annotated[PathLike, OUTPUT]
    """The run folder; must not exist without --resume or --force. Besides what hpcml train writes
    it gets tuning.csv (the settings) and choice.csv (the labels).
    """
    _: KW_ONLY
    options: TuneOptions
    """The options of `hpcml tune`, by the flags with `_` for `-`, and `lam`."""

    def execute(self, session: Session) -> TuneReport:
        """A text, with the path of the model as `model`. Collective over the session."""
        from hpcml.run.session import Target
        from hpcml.tuning.tune import tune

        return tune(session, Path(self.data), Target(Path(self.output), self.force, self.resume), self.options)

    def format_result(self, result: TuneReport) -> str:
        """Return the report of the training; the choice is in the log already."""
        return str(result.trained)


tune = function(Tune)
