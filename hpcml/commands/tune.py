"""`hpcml tune DATA -o RUN`, and `hpcml.tune(data, output)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation
from hpcml.tuning.options import TuneOptions

if TYPE_CHECKING:
    from hpcml.tuning.tune import TuneReport


@dataclass(frozen=True)
class Tune(TrainingOperation["TuneReport"]):
    """Train with options chosen for each label by cross-validation.

    Chooses the regularisation λ and the weight of positive rows on the training rows. The model also gets a threshold and
    calibrated probabilities for each label, from the scores of the held-out folds.

    Examples
    --------
    >>> hpcml.tune("docs.h5", "tuned", folds=3, lambdas=[0.1, 1.0]).model.name
    'model.h5'
    """

    data: PathLike
    """Dataset made with `hpcml convert`."""
    output: Annotated[PathLike, OUTPUT]
    """Run folder; tuning.csv has all settings, choice.csv those of each label. An existing one needs --resume or --force."""
    _: KW_ONLY
    options: TuneOptions
    """The options of `hpcml tune`: the names of the flags with `_` for `-`; `lam` is --lambda."""

    def execute(self, session: Session) -> "TuneReport":
        """The report as a text, with the path of the model as `model`. Collective over the session."""
        from hpcml.run.session import Target
        from hpcml.tuning.tune import tune

        return tune(session, self.data, Target(self.output, self.force, self.resume), self.options)

    def format_result(self, result: "TuneReport") -> str:
        """Return the report of the training; the chosen settings are in the log."""
        return str(result.trained)
