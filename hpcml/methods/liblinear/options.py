"""Options of `hpcml train liblinear`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcml.methods.linear.options import InterceptOptions
from hpcml.options import Between, Count, Seed


@dataclass(frozen=True)
class LiblinearOptions(InterceptOptions):
    """Options of `hpcml train liblinear`; every rank needs all rows."""

    steps: ClassVar[int] = 20000
    tolerance: ClassVar[str] = "liblinear_tol"

    liblinear_tol: Annotated[float, Between(0)] = 0.1
    """LIBLINEAR's stopping tolerance (default: 0.1)."""
    seed: Seed = 0
    """Random seed for the order of rows."""
    max_steps: Count = None
    """Maximum number of passes per label; a label that reaches it is reported as not converged. Default: 20000."""
