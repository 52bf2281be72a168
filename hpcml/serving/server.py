"""Listening: uvicorn in a thread of its own, while the first thread waits for a signal."""

from __future__ import annotations

import errno
import logging
import socket
import sys
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hpcml.errors import ConfigError, reason_and_hint

if TYPE_CHECKING:
    from hpcml.serving.app import App

CONNECTIONS = 200  # at a time; others are told 503
END_SECONDS = 0.6  # for requests that are being answered when the server ends
START_SECONDS = 30.0
KEEP_SECONDS = 10  # that a client may stay silent between two requests


def check_package() -> None:
    """Raise ConfigError unless the package is there that a server needs."""
    if find_spec("uvicorn") is None:
        raise ConfigError("serve needs the package uvicorn; install it with: pip install 'hpcml[serve]'")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ConfigError if that cannot be."""
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"--port {port}: expected a number from 0 (any that is free) to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: no address of this machine ({error})") from None
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


def url_of(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server:
    """In a `with`, an application answers at `url`; at its end, requests have END_SECONDS."""

    def __init__(self, app: App, listening: socket.socket) -> None:
        from uvicorn import Config
        from uvicorn import Server as Uvicorn

        for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
            logging.getLogger(name).disabled = True  # the application says what happens
        config = Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=KEEP_SECONDS,
        )
        config.timeout_graceful_shutdown = END_SECONDS  # type: ignore[assignment]  # which may be a fraction of a second
        self.app, self.url = app, url_of(listening)
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
        self._thread.join(END_SECONDS + 1.0)
        self.app.worker.end()


def write_line(line: str) -> None:
    """Write a line of the access log to standard output; that nobody reads it ends nothing."""
    from hpcml.log import say

    say(line, sys.stdout)
