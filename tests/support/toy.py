"""A method outside the package: PROBE with one additional option."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml import mpi
from hpcml.estimators.parameters import OPTION, classifier_of
from hpcml.methods.linear.estimator import LinearClassifier
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.method import USUAL, Method
from hpcml.methods.probe.probe import METHOD
from hpcml.options import Between


@Parameter(name="*")
@dataclass(frozen=True)
class ToyOptions(LinearOptions):
    """Options of `hpcml train toy`."""

    steps: ClassVar[int] = 30

    zeal: Annotated[float, Between(0)] = 1.0
    """How eagerly it plays."""


@classifier_of(ToyOptions)
class ToyClassifier(LinearClassifier):
    """A classifier to play with.

    References
    ----------
    None.
    """

    _method = METHOD

    loss: str = OPTION
    lam: str | float = OPTION
    zeal: float = OPTION
    comm: mpi.Comm | None = None
    """The ranks that share the rows."""


TOY = Method(
    name="toy",
    about="a method to play with",
    options=ToyOptions,
    linear="hpcml.methods.probe.probe:METHOD",
    estimator="support.toy:ToyClassifier",
    supports=USUAL | {"tune"},
)
