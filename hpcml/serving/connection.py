"""A connection of uvicorn's that waits not for ever for a request, and logs what is no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the line and the headers of a request
LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(H11Protocol):
    """Closes itself if a request's head is late: uvicorn limits only pauses between requests."""

    refused: Callable[[str, int, str], None]  # takes a client, a status and the reason, for the log; a subclass has it
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait no longer if they complete the head of a request."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._rest()

    def on_response_complete(self) -> None:
        """Begin to wait for another request."""
        self._wait()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP, and log it."""
        self.refused(self._name, 400, msg)
        super().send_400_response(msg)

    @property
    def _name(self) -> str:
        return self.client[0] if self.client else ""

    def _wait(self) -> None:
        self._rest()
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:  # a part of a head
            self.refused(self._name, 408, "the head of the request was not here in time")
            self.transport.write(LATE)
        self.transport.close()
