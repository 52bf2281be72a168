"""The command that answers over HTTP: `hpcml serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from hpcml.cli.session import Here
from hpcml.errors import ConfigError

if TYPE_CHECKING:
    from hpcml.serving.app import RequestLimits

MOST_MB, MOST_SECONDS = 1024, 3600


@Parameter(name="*")
@dataclass(frozen=True)
class ServeOptions:
    """Options of `hpcml serve`."""

    host: str = "127.0.0.1"
    """The address to listen at. Default: this machine only; 0.0.0.0 is every address."""
    port: int = 8080
    """The port to listen at; 0 is any that is free."""
    max_body_mb: int = 8
    """The longest body of a request, in MiB; a longer one is refused (413)."""
    max_seconds: float = 30.0
    """How long a request waits for its answer, in seconds; then it is refused (503)."""

    def limits(self) -> RequestLimits:
        """The limits of a request. Raises ConfigError."""
        from hpcml.serving.app import RequestLimits

        if not 1 <= self.max_body_mb <= MOST_MB:
            raise ConfigError(f"--max-body-mb {self.max_body_mb}: expected a number from 1 to {MOST_MB}")
        if not 0 < self.max_seconds <= MOST_SECONDS:
            raise ConfigError(f"--max-seconds {self.max_seconds:g}: expected a number above 0 and at most {MOST_SECONDS}")
        return RequestLimits(body_bytes=self.max_body_mb << 20, answer_seconds=self.max_seconds)


def serve(
    run: Path,
    /,
    *,
    data: Path | None = None,
    options: ServeOptions = ServeOptions(),
    session: Here,
) -> None:
    """Answer over HTTP: the labels of texts, and a page to try it.

    For Annif's backend http and other programs.
    Ends at SIGTERM or Ctrl-C. Standard output has a line of JSON for each request, without the
    text. Needs: pip install 'hpcml[serve]'.

    Parameters
    ----------
    run:
        A run folder, or its model.h5, of a linear model with probabilities (hpcml calibrate, or
        --loss logistic).
    data:
        The dataset of texts that it was trained on, whose words and weights are used. Default: the
        data of the run.
    """
    from hpcml.serving.serve import serve as work

    work(session.comm, run, data, options.host, options.port, options.limits(), session.signals, session.log)


serve.ends_itself = True  # type: ignore[attr-defined]  # it looks at signals
