"""The entry of a method in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hpcml.errors import ConfigError
from hpcml.options import flag_of

if TYPE_CHECKING:
    from pathlib import Path

    from hpcml.data.dataset import DataFile
    from hpcml.mpi import Comm

DATASET = "A dataset made with `hpcml convert`."
OTHERS = "Others"  # a group of `registry.GROUPS`


class Report(Protocol):
    """The report of a finished training: a text, with the path of the model."""

    @property
    def model(self) -> Path:
        """The model."""


# The features that a method may support; the others are refused. The conformance tests try both.
SUPPORT = {
    "label_sets": "rows with several labels",
    "negative_values": "values below 0",
    "pause": "checkpoints",
    "headings": "headings as features",
    "streams": "streams",
    "tune": "`hpcml tune`",
    "retrain": "`hpcml retrain`",
}
USUAL = frozenset({"label_sets", "negative_values", "pause"})


@dataclass(frozen=True)
class Method:
    """A method. Paths are "module:name", imported when they are first used.

    `train(method, session, data, target, options)` trains into a run folder and returns a report, a text with the path `model`. The
    options are a frozen dataclass with `validate` and `free` (`hpcml.run.folder.Options`); if they have `losses`, the method
    minimises these, and is compared with such methods by the objective.
    """

    name: str
    about: str  # in one line
    options: type[Any]
    group: str = OTHERS  # of GROUPS: for what data, or for whom
    _: KW_ONLY
    train: str = "hpcml.methods.linear.train:train"  # by default: label by label, as `linear` describes
    estimator: str = ""  # a scikit-learn classifier
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the estimator, that make it this method
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by prefix of the name: more parameters
    takes: str = DATASET
    penalty: str = "l2"  # of the methods with losses: those with the same can be compared by the objective
    linear: str = ""  # its `LinearMethod`, if it has a weight vector for each label and trains label by label
    supports: frozenset[str] = USUAL  # of SUPPORT
    pilot: str = ""  # the module that `hpcml plan` asks, if it has labels but trains row by row
    cost: float = 100.0  # of training, roughly, beside one pass over the rows

    @property
    def title(self) -> str:
        """`about` as the beginning of a sentence."""
        return self.about[0].upper() + self.about[1:]

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that it minimises, the first by default; none if it trains otherwise."""
        return getattr(self.options, "losses", ())

    @property
    def option_names(self) -> list[str]:
        """Its options, as parameters."""
        return [option.name for option in fields(self.options)]

    @property
    def free_keys(self) -> set[str]:
        """The keys of config.toml that may differ in a continuation, or between parts of a run."""
        return {"data", *map(flag_of, self.options.free)}

    def load(self, path: str) -> Any:
        """The object at one of its paths."""
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)

    def open_data(self, comm: Comm, path: Path) -> DataFile:
        """Open a dataset to train on. Collective over `comm`.

        Raises ConfigError if labels are among its features and the method cannot hide them, DataError.
        """
        from hpcml.data.dataset import DataFile
        from hpcml.mpi import agreed

        with agreed(comm, f"opening {path}"):
            dataset = DataFile(path)
            if dataset.has_headings and "headings" not in self.supports:
                dataset.file.close()
                raise ConfigError(
                    f"{path} has the labels of a row among its features, so {self.name} would be told the answer; train "
                    "bernoulli-nb (or another method of its group), or convert without --headings-as-features"
                )
        return dataset
