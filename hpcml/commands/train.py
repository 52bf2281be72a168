"""`hpcml train METHOD DATA -o RUN`, and `hpcml.train(method, data, output)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import OUTPUT, PathLike, Session, TrainingOperation, function

if TYPE_CHECKING:
    from hpcml.methods.method import Report


@dataclass(frozen=True)
class Train(TrainingOperation["Report"]):
    """Train with a method of `hpcml train` into a run folder.

    Raises `Interrupted` after a signal or the time limit, when a checkpoint has been written.

    Examples
    --------
    >>> hpcml.train("dual", "docs.h5", "run", dual_tol=0.01, label=["sea"]).model
    """

    method: str
    """A name in `hpcml.methods.registry.METHODS`, such as "dual"."""
    data: PathLike
    """A dataset; for the single-pass methods also svmlight text."""
    output: Annotated[PathLike, OUTPUT]
    """The run folder; must not exist without --resume or --force."""
    _: KW_ONLY
    options: Any
    """The options of the method, by the flags with `_` for `-`, and `lam`."""
    config: Path | None = None
    """A TOML file with any of these options; flags win over it."""

    @classmethod
    def families(cls) -> dict[str, str]:
        """Return the methods and their titles."""
        from hpcml.methods.registry import METHODS

        return {name: method.title for name, method in METHODS.items()}

    @classmethod
    def options_for(cls, given: Mapping[str, Any]) -> tuple[type, str]:
        """Return the class of the options of the method, and the command that lists them. Raises ConfigError."""
        from hpcml.methods.registry import method_named

        return method_named(given["method"]).options, f"train {given['method']}"

    def can_resume(self) -> bool:
        """Whether the method writes checkpoints."""
        return hasattr(self.options, "checkpoint_every")

    def execute(self, session: Session) -> Report:
        """A text, with the path of the model as `model`. Collective over the session."""
        from hpcml.methods.registry import train
        from hpcml.run.session import Target

        target = Target(Path(self.output), self.force, self.resume)
        return train(self.method, session, Path(self.data), target, self.options)


train = function(Train)
