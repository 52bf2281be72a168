"""The command that answers over HTTP: `hpcml serve`."""

from __future__ import annotations

from pathlib import Path

from hpcml.cli.session import Here
from hpcml.errors import ConfigError

MOST_MB, MOST_SECONDS = 1024, 3600


def serve(
    run: Path,
    /,
    *,
    data: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    max_body_mb: int = 8,
    max_seconds: float = 30.0,
    session: Here,
) -> None:
    """Answer over HTTP: the headings of texts, for Annif's backend http and other programs, and a
    page to try a text in.

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
    host:
        The address to listen at. Default: this machine only; 0.0.0.0 is every address.
    port:
        The port to listen at; 0 is any that is free.
    max_body_mb:
        The longest body of a request, in MiB; a longer one is refused (413).
    max_seconds:
        How long a request waits for its answer, in seconds; then it is refused (503).
    """
    from hpcml.serving.app import RequestLimits
    from hpcml.serving.serve import serve as work

    if not 1 <= max_body_mb <= MOST_MB:
        raise ConfigError(f"--max-body-mb {max_body_mb}: expected a number from 1 to {MOST_MB}")
    if not 0 < max_seconds <= MOST_SECONDS:
        raise ConfigError(f"--max-seconds {max_seconds:g}: expected a number above 0 and at most {MOST_SECONDS}")
    limits = RequestLimits(body_bytes=max_body_mb << 20, answer_seconds=max_seconds)
    work(session.comm, run, data, host, port, limits, session.signals, session.log)


serve.ends_itself = True  # type: ignore[attr-defined]  # it looks at signals
