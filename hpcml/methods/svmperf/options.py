"""Options of `hpcml train svmperf`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcml.methods.linear.options import InterceptOptions
from hpcml.options import Between, Count


@dataclass(frozen=True)
class SvmperfOptions(InterceptOptions):
    """Options of `hpcml train svmperf`."""

    steps: ClassVar[int] = 5000

    svmperf_epsilon: Annotated[float, Between(0)] = 0.1
    """Bound on f(w) − min f at which training stops, in percent (default: 0.1, which means 0.001)."""
    ranks_per_group: Count = None
    """Number of ranks that share the rows; labels are distributed over groups of this size. Default: chosen by memory and number of
    labels. Does not change the result.
    """
    max_steps: Count = None
    """Maximum number of cutting planes per label (default: 5000); a label that reaches it is reported as not converged."""
