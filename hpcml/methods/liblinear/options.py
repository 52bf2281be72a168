"""The options of `hpcml train liblinear`."""

from dataclasses import dataclass
from typing import ClassVar

from cyclopts import Parameter

from hpcml.methods.linear.options import InterceptOptions
from hpcml.options import check_above_0


@Parameter(name="*")
@dataclass(frozen=True)
class LiblinearOptions(InterceptOptions):
    """Options of `hpcml train liblinear`, which needs all rows on every rank."""

    steps: ClassVar[int] = 20000
    tolerance: ClassVar[str] = "liblinear_tol"

    liblinear_tol: float = 0.1
    """LIBLINEAR's stopping tolerance."""
    seed: int = 0
    """Random seed for the order of rows."""
    max_steps: int | None = None
    """Maximum number of passes per label; a label that reaches it is reported as not converged. Default: 20000."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        check_above_0(self, "liblinear_tol")
