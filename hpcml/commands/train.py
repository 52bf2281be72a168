"""`hpcml train METHOD DATA -o RUN`, and `hpcml.train(method, data, output)`."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation

if TYPE_CHECKING:
    from hpcml.methods.method import Report


@dataclass(frozen=True)
class Train(TrainingOperation["Report"]):
    """Train a classifier for each label, or one for all classes.

    The run folder gets the model, its configuration, a log, and checkpoints while the run lasts.

    Examples
    --------
    >>> hpcml.train("dual", "docs.h5", "sea-only", dual_tol=0.01, label=["sea"]).model.name
    'model.h5'
    """

    method: str
    """Name of the method, such as "dual" (see `hpcml train --help`)."""
    data: PathLike
    """Dataset; for the single-pass methods also svmlight text."""
    output: Annotated[PathLike, OUTPUT]
    """Run folder. An existing one needs --resume or --force."""
    _: KW_ONLY
    options: Any
    """The options of the method: the names of the flags with `_` for `-`; `lam` is --lambda."""
    config: Path | None = None
    """TOML file with any of these options. Flags override it."""

    @classmethod
    def families(cls) -> dict[str, str]:
        from hpcml.methods.registry import METHODS

        return {name: method.title for name, method in METHODS.items()}

    @classmethod
    def options_for(cls, values: Mapping[str, Any]) -> tuple[type, str]:
        from hpcml.methods.registry import method_named

        return method_named(values["method"]).options, f"train {values['method']}"

    def can_resume(self) -> bool:
        return hasattr(self.options, "checkpoint_every")

    def execute(self, session: Session) -> "Report":
        """The report as a text, with the path of the model as `model`. Collective over the session."""
        from hpcml.methods.registry import train
        from hpcml.run.session import Target

        return train(self.method, session, self.data, Target(self.output, self.force, self.resume), self.options)
