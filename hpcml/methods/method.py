"""The registry entry of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hpcml.errors import ConfigError
from hpcml.options import option_flag

if TYPE_CHECKING:
    from pathlib import Path

    from hpcml.data.dataset import DataFile
    from hpcml.mpi import Comm

DATASET = "A dataset made with `hpcml convert`."
OTHERS = "Others"  # a group of `registry.GROUPS`


class Report(Protocol):
    @property
    def model(self) -> Path: ...


# Optional features of a method; unsupported ones raise an error. The conformance tests check both.
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
    """A method. Paths are "module:name", imported on first use.

    `train(method, session, data, target, options)` trains into a run folder and returns a `Report`. The options are a frozen
    dataclass with `validate` and `free` (`hpcml.run.folder.Options`); a method whose options have `losses` minimises them.
    """

    name: str
    about: str  # one line
    options: type[Any]
    group: str = OTHERS  # one of GROUPS
    _: KW_ONLY
    train: str = "hpcml.methods.linear.train:train"
    estimator: str = ""  # scikit-learn classifier
    parameters: Mapping[str, Any] = field(default_factory=dict)  # estimator parameters that select this method
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name prefix: further parameters
    takes: str = DATASET
    penalty: str = "l2"  # objectives of methods with the same penalty can be compared
    linear: str = ""  # its `LinearMethod`, if it trains a weight vector per label
    supports: frozenset[str] = USUAL  # keys of SUPPORT
    pilot: str = ""  # module for `hpcml plan`, for methods that train row by row
    cost: float = 100.0  # rough training time relative to one pass over the rows

    @property
    def title(self) -> str:
        return self.about[0].upper() + self.about[1:]

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that the method minimises, default first; empty if it has no objective."""
        return getattr(self.options, "losses", ())

    @property
    def option_names(self) -> list[str]:
        return [option.name for option in fields(self.options)]

    @property
    def free_keys(self) -> set[str]:
        """Keys of config.toml that may differ when a run is resumed, or between parts of a run."""
        return {"data", *map(option_flag, self.options.free)}

    def load(self, path: str) -> Any:
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)

    def open_data(self, comm: Comm, path: Path) -> DataFile:
        """Open a dataset. Collective; raises DataError, and ConfigError if labels are features that the method cannot hide."""
        from hpcml.data.dataset import DataFile
        from hpcml.mpi import agreed

        with agreed(comm, f"opening {path}"):
            dataset = DataFile(path)
            if dataset.has_headings and "headings" not in self.supports:
                dataset.file.close()
                raise ConfigError(
                    f"{path} uses labels as features, which would leak them to {self.name}; train bernoulli-nb (or another method "
                    "of its group), or convert without --headings-as-features"
                )
        return dataset
