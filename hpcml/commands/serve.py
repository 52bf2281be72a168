"""`hpcml serve RUN`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import Operation, PathLike, Session
from hpcml.options import Range


@dataclass(frozen=True)
class Serve(Operation[None]):
    """Answer over HTTP: the labels of texts, and a page to try it.

    For Annif's backend http and other programs. Ends at SIGTERM or Ctrl-C. Standard output has a line of JSON for each request,
    without the text. Needs: pip install 'hpcml[serve]'.
    """

    run: PathLike
    """A run folder, or its model.h5, of a model of texts with probabilities (hpcml calibrate, or --loss logistic)."""
    _: KW_ONLY
    host: str = "127.0.0.1"
    """The address to listen at. Default: this machine only; 0.0.0.0 is every address."""
    port: Annotated[int, Range(0, 65535)] = 8080
    """The port to listen at; 0 is any that is free."""
    max_body_mb: Annotated[int, Range(1, 1024)] = 8
    """The longest body of a request, in MiB; a longer one is refused (413)."""
    max_seconds: Annotated[float, Range(0.001, 3600)] = 30.0
    """How long a request waits for its answer, in seconds; then it is refused (503)."""

    ends_itself = True

    def execute(self, session: Session) -> None:
        """Answer until a signal comes. One rank."""
        from hpcml.serving.app import RequestLimits
        from hpcml.serving.serve import serve

        limits = RequestLimits(body_bytes=self.max_body_mb << 20, answer_seconds=self.max_seconds)
        serve(session.comm, Path(self.run), self.host, self.port, limits, session.signals, session.log)
