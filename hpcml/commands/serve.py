"""`hpcml serve RUN`."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from hpcml.commands.operation import Operation, PathLike, Session
from hpcml.options import Range


@dataclass(frozen=True)
class Serve(Operation[None]):
    """Serve predictions for texts over HTTP, with a page to try them.

    For the backend http of Annif, and other programs. SIGTERM or Ctrl-C ends the server. Each request is logged as a line of JSON
    on standard output, without its text. Needs: pip install 'hpcml[serve]'.
    """

    run: PathLike
    """Run folder, or model file (model.h5), of a model of texts with probabilities (`hpcml calibrate`, or --loss logistic)."""
    _: KW_ONLY
    host: str = "127.0.0.1"
    """Address to listen on. Default: this machine only; 0.0.0.0 is every address."""
    port: Annotated[int, Range(0, 65535)] = 8080
    """Port to listen on; 0 selects a free port."""
    max_body_mb: Annotated[int, Range(1, 1024)] = 8
    """Maximum size of a request body, in MiB; larger requests get status 413."""
    max_seconds: Annotated[float, Range(0.001, 3600)] = 30.0
    """Maximum time until a request is answered, in seconds; later requests get status 503."""

    ends_itself = True

    def execute(self, session: Session) -> None:
        from hpcml.serving.app import RequestLimits
        from hpcml.serving.serve import serve

        limits = RequestLimits(body_bytes=self.max_body_mb << 20, answer_seconds=self.max_seconds)
        serve(session.comm, self.run, self.host, self.port, limits, session.signals, session.log)
