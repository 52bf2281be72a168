"""`hpcml serve`: open a model and answer requests until a stop signal. uvicorn runs in its own thread."""

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

POLL_SECONDS = 0.1  # interval between checks for a signal
CONNECTIONS = 200  # at most; requests on further connections get 503
SHUTDOWN_SECONDS = 3  # after a signal; requests that take longer get 503
START_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 10  # maximum silence between two requests of a connection


def listen(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise OptionError("host", host, f"cannot be resolved ({error}); expected a name or address of this machine") from None
    family, kind, protocol, _, address = addresses[0]
    out = socket.socket(family, kind, protocol)  # asyncio sets TCP_NODELAY only if the protocol is given
    try:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.bind(address)
        out.listen(512)
    except OSError as error:
        out.close()
        hint = "; choose another port, or 0 for a free port" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"--host {host} --port {port}: cannot listen: {reason_and_hint(error)[0]}{hint}") from None
    return out


class Server:
    """Runs an application at `url`; a context manager. On exit, open requests have SHUTDOWN_SECONDS."""

    def __init__(self, app: App, listening: socket.socket) -> None:
        from uvicorn import Config
        from uvicorn import Server as Uvicorn

        config = Config(
            app,
            loop="asyncio",
            http="h11",  # limits the header of a request to 64 KiB; httptools does not
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # the application has its own log
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS + 1,  # the first rejected number
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        host, port, *_ = listening.getsockname()
        self.app, self.url = app, f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        self._listening, self._uvicorn = listening, Uvicorn(config)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listening])
        except BaseException as error:  # noqa: BLE001 - __enter__ raises it
            self._error = error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> "Server":
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._uvicorn.started:
            if not self.is_alive or time.monotonic() > end:
                raise RuntimeError("the server did not start") from self._error
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(SHUTDOWN_SECONDS + 2.0)
        self.app.worker.stop()


def open_suggester(comm: mpi.Comm, run: Path) -> tuple[Suggester, dict[str, Any]]:
    """Return the suggester of a model, and its description for Annif and the page. Raises ConfigError, DataError."""
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
            "thresholds": model.threshold_source or "score 0 for all labels",
            "fields": [field.name for field in suggester.fields],
            "words": suggester.features is not None,
        }


def serve(comm: mpi.Comm, run: Path, host: str, port: int, limits: RequestLimits, signals: StopSignals, log: Log) -> None:
    """Answer requests until a stop signal. Raises ConfigError for an unsuitable model or address, DataError for a damaged model."""
    if comm.size > 1:
        raise ConfigError(f"serve uses one process, but MPI started {comm.size}; run it without mpirun")
    if find_spec("uvicorn") is None:
        raise ConfigError("serve needs the package uvicorn; install it: pip install 'hpcml[serve]'")
    listening = listen(host, port)
    with listening:
        begin = time.monotonic()
        suggester, about = open_suggester(comm, run)
        app = App(suggester, about, limits, partial(say, stream=sys.stdout))
        log(f"{run}: {plural(suggester.model.n_labels, 'label')}, probabilities {suggester.model.probability_source}")
        with Server(app, listening) as server:
            log(f"ready after {time.monotonic() - begin:.1f} s: {server.url} (Annif: {server.url}v1/projects/{PROJECT}/suggest)")
            while server.is_alive and not signals.seen:
                time.sleep(POLL_SECONDS)
            if not server.is_alive:
                raise RuntimeError("the server stopped unexpectedly")
            log(f"shutting down: waiting up to {SHUTDOWN_SECONDS} s for open requests")
