"""A method that is in no room of hpcml: steps of PROBE under another name, with an option of its own."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from cyclopts import Parameter

from hpcml.errors import ConfigError
from hpcml.methods.linear import train as linear
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.probe.train import METHOD
from hpcml.methods.registry import Method


@Parameter(name="*")
@dataclass(frozen=True)
class ToyOptions(LinearOptions):
    """Options of `hpcml train toy`."""

    steps: ClassVar[int] = 30

    zeal: float = 1.0
    """How eagerly it plays."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense."""
        super().validate()
        if not self.zeal > 0:
            raise ConfigError(f"--zeal {self.zeal}: expected a number above 0")


train = partial(linear.train, replace(METHOD, name="toy"))
TOY = Method(
    name="toy",
    about="a method to play with",
    options=ToyOptions,
    train="support.toy:train",
    estimator="hpcml.methods.probe.estimator:ProbeClassifier",
)
