"""`hpcml serve`: open a model and its words once, and answer until a signal comes.

uvicorn has a thread of its own, while the first thread waits for a signal.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
import time
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import ConfigError, OptionError, reason_and_hint
from hpcml.log import Log, plural, say
from hpcml.prediction.loaded import LoadedModel
from hpcml.serving.app import PROJECT, App, RequestLimits
from hpcml.serving.suggest import Suggester
from hpcml.signals import StopSignals

LOOK_SECONDS = 0.1  # between looks at whether a signal has come
CONNECTIONS = 200  # at a time; requests of further ones get 503
END_SECONDS = 3  # for requests in progress at a signal; then they get 503
START_SECONDS = 30.0
KEEP_SECONDS = 10  # that a client may stay silent between two requests


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ConfigError if that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise OptionError("host", host, f"no address of this machine ({error})") from None
    family, kind, protocol, _, address = found[0]
    out = socket.socket(family, kind, protocol)  # with its protocol, for which asyncio turns Nagle's delay off
    try:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.bind(address)
        out.listen(512)
    except OSError as error:
        out.close()
        hint = "; choose another port, or 0 for any that is free" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"--host {host} --port {port}: cannot listen: {reason_and_hint(error)[0]}{hint}") from None
    return out


class Server:
    """In a `with`, an application answers at `url`; at its end, requests have END_SECONDS."""

    def __init__(self, app: App, listening: socket.socket) -> None:
        from uvicorn import Config
        from uvicorn import Server as Uvicorn

        config = Config(
            app,
            loop="asyncio",
            http="h11",  # which limits the head of a request to 64 KiB; httptools does not
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # the application logs what happens
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS + 1,  # the first number that is too large
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=END_SECONDS,
        )
        host, port, *_ = listening.getsockname()
        self.app, self.url = app, f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        self._listening, self._uvicorn = listening, Uvicorn(config)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listening])
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._error = error

    @property
    def lives(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def __enter__(self) -> Server:
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._uvicorn.started:
            if not self.lives or time.monotonic() > end:
                raise RuntimeError("the server did not start") from self._error
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(END_SECONDS + 2.0)
        self.app.worker.end()


def open_suggester(comm: mpi.Comm, run: Path) -> tuple[Suggester, dict[str, Any]]:
    """Return the suggester of headings, and what Annif knows of a project and the page shows. One rank.

    Raises ConfigError, DataError.
    """
    with mpi.agreed(comm, f"opening {run}"):
        suggester = Suggester(LoadedModel(run))
        model = suggester.model
        return suggester, {
            "project_id": PROJECT,
            "name": run.parent.name if run.name == "model.h5" else run.name,
            "language": "",
            "backend": {"backend_id": "hpcml"},
            "is_trained": True,
            "modification_time": datetime.fromtimestamp(model.path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "method": str(model.attrs.get("method", "")),
            "labels": model.n_labels,
            "features": model.n_features,
            "probabilities": model.probability_source,
            "thresholds": model.threshold_source or "0 for all labels",
            "fields": [field.name for field in suggester.fields],
            "words": suggester.features is not None,
        }


def serve(comm: mpi.Comm, run: Path, host: str, port: int, limits: RequestLimits, signals: StopSignals, log: Log) -> None:
    """Answer requests until a signal comes. Raises ConfigError for more than one rank, a model
    without probabilities or not of texts, or an address that is taken; DataError for a damaged model.
    """
    if comm.size > 1:
        raise ConfigError(f"serve answers from one process, but MPI has started {comm.size}; run it without mpirun")
    if find_spec("uvicorn") is None:
        raise ConfigError("serve needs the package uvicorn; install it with: pip install 'hpcml[serve]'")
    listening = listen(host, port)
    with listening:
        begin = time.monotonic()
        suggester, about = open_suggester(comm, run)
        app = App(suggester, about, limits, partial(say, stream=sys.stdout))
        log(f"{run}: {plural(suggester.model.n_labels, 'label')}, probabilities {suggester.model.probability_source}")
        with Server(app, listening) as server:
            log(f"ready after {time.monotonic() - begin:.1f} s: {server.url} (Annif: {server.url}v1/projects/{PROJECT}/suggest)")
            while server.lives and not signals.seen:
                time.sleep(LOOK_SECONDS)
            if not server.lives:
                raise RuntimeError("the server has ended by itself")
            log(f"ending: requests in progress have {END_SECONDS} s")
