"""The uvicorn server, with limits on connections.

uvicorn has no timeout for a request that does not arrive completely or a response that is not read: with its own
limits, 300 half-open connections lock out all other clients permanently (measured with uvicorn 0.54,
`limit_concurrency=256`).
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 10.0
READING_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 256
_GRACE_SECONDS: Final = 2
_SECONDS_BETWEEN_LOG_LINES: Final = 60.0
_MAX_FILES: Final = 4096
_BACKLOG: Final = 512
# File descriptors per connection; the rest are for the gallery, images, and connections that are being closed.
_FILES_PER_CONNECTION: Final = 4
_ACCEPTED_AT_ONCE: Final = 8

_log: Final = logging.getLogger("andornot.web")


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Create a server for the app with limits on connections."""
    max_connections = min(MAX_CONNECTIONS, _open_files() // _FILES_PER_CONNECTION)
    config = uvicorn.Config(
        app,
        http=type("Connection", (_Connection,), {"max_connections": max_connections}),
        backlog=_ACCEPTED_AT_ONCE,  # asyncio accepts this many at once, before any can be closed
        ws="none",  # the guard checks HTTP requests only
        access_log=False,  # addresses may contain the token
        log_level="error",  # each malformed request would be a warning
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return _Server(config)


class _Connection(H11Protocol):
    """A connection that is closed if a request is late, if its response is not read, or to make room."""

    max_connections = MAX_CONNECTIONS
    _request_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._opened = time.monotonic()
        self._expect_request()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the head of a request is complete."""
        super().data_received(data)
        if self._is_busy:
            self._cancel_request_timer()
        elif self._request_timer is None:  # the next request, or the rest of one that was already answered
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, such as a body in wrong chunks, without a traceback in the log."""
        if self._is_busy:
            self.cycle.disconnected = True  # discard what the app sends from now on
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # the response has started
            self.transport.close()

    def pause_writing(self) -> None:
        """Start a timer for a client that reads more slowly than the server writes."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(READING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client has read."""
        super().resume_writing()
        self._cancel_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        super().connection_lost(exc)
        self._cancel_request_timer()
        self._cancel_read_timer()

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _make_room(self) -> None:
        """Close the oldest idle connection of the client with the most connections, which may be this one."""
        connections = [c for c in self.connections if isinstance(c, _Connection) and not c.transport.is_closing()]
        if len(connections) > self.max_connections:
            count = Counter(connection._address for connection in connections)
            idle = (connection for connection in connections if not connection._is_busy)
            min(idle, key=lambda connection: (-count[connection._address], connection._opened)).transport.abort()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""


class _Server(uvicorn.Server):
    """A server that does not log a line for each connection that cannot be accepted."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        asyncio.get_running_loop().set_exception_handler(_ExceptionHandler())
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)  # uvicorn's backlog also limits how many are accepted at once


class _ExceptionHandler:
    """Handles errors of the event loop that nothing else handles."""

    def __init__(self) -> None:
        self._logged = -_SECONDS_BETWEEN_LOG_LINES

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error; failures to accept, which asyncio retries every second, at most once a minute."""
        if "accept()" not in context["message"]:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._logged >= _SECONDS_BETWEEN_LOG_LINES:
            self._logged = time.monotonic()
            _log.error("cannot accept connections: %s", context["exception"])


def _open_files() -> int:
    """Raise the limit of open files, and return it."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, where connections do not count as files
        return _MAX_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # -1: no limit
    wanted = min(_MAX_FILES, hard) if hard >= 0 else _MAX_FILES
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
