"""The options of `hpcml train svmperf`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.methods.linear.options import InterceptOptions
from hpcml.options import Between, Count


@Parameter(name="*")
@dataclass(frozen=True)
class SvmperfOptions(InterceptOptions):
    """Options of `hpcml train svmperf`."""

    steps: ClassVar[int] = 5000

    svmperf_epsilon: Annotated[float, Between(0)] = 0.1
    """Stop when the bound on f(w) − min f falls to this, in percent: 0.1 means 0.001."""
    ranks_per_group: Count = None
    """Ranks that divide the rows among themselves; the labels are divided among such rank groups.
    Default: by memory and labels. Does not change the result.
    """
    max_steps: Count = None
    """Give a label up after so many cutting planes and say so. Default: 5000."""
