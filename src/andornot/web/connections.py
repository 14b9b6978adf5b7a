"""Connections, which anybody may open: only as many as the machine can bear, and none that waits for ever."""

import asyncio
import logging
import socket
import time
from collections import Counter
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 10.0
READING_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 256
_GRACE_SECONDS: Final = 2
_SECONDS_BETWEEN_LINES: Final = 60.0
_FILES: Final = 4096
_WAITING: Final = 512
# The others are for the gallery, for pictures, and for connections that were accepted and are about to be closed.
_FILES_PER_CONNECTION: Final = 4
_ACCEPTED_AT_ONCE: Final = 8

_log: Final = logging.getLogger("andornot.web")


def make_server(app: ASGIApp) -> uvicorn.Server:
    """A server of the app whose connections have limits."""
    most = min(MAX_CONNECTIONS, _open_files() // _FILES_PER_CONNECTION)
    config = uvicorn.Config(
        app,
        http=type("Connection", (_Connection,), {"most": most}),
        backlog=_ACCEPTED_AT_ONCE,  # before one is closed, three times as many are accepted
        access_log=False,  # an address may have the token in it
        log_level="error",  # each request that is no HTTP would be a warning
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return _Server(config)


class _Connection(H11Protocol):
    """A connection that is closed if a request does not arrive in time, if its answer is not read, or to make room."""

    most = MAX_CONNECTIONS
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first request."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._expect_request()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Looks whether the head of a request is complete; uvicorn itself has time for a half one, without end."""
        super().data_received(data)
        if self._is_being_answered:
            self._cancel_late()
        elif self._late is None:  # the next request begins, or the rest of one that was answered already
            self._expect_request()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write: it may, but not as slowly as it likes."""
        super().pause_writing()
        self._unread = self.loop.call_later(READING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._cancel_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        super().connection_lost(exc)
        self._cancel_late()
        self._cancel_unread()

    @property
    def _is_being_answered(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _make_room(self) -> None:
        """Closes, of those that nobody works for, the oldest of the client that has most: at worst this one itself."""
        every = [c for c in self.connections if isinstance(c, _Connection) and not c.transport.is_closing()]
        if len(every) > self.most:
            count = Counter(connection._address for connection in every)
            idle = (connection for connection in every if not connection._is_being_answered)
            min(idle, key=lambda connection: (-count[connection._address], connection._since)).transport.abort()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""


class _Server(uvicorn.Server):
    """A server whose log does not grow by a line for each connection that cannot be accepted."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        asyncio.get_running_loop().set_exception_handler(_Handler())
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_WAITING)  # uvicorn takes one number for both; who finds no place here tries for seconds


class _Handler:
    """What is done about errors in the event loop that reach nobody."""

    def __init__(self) -> None:
        self._said = -_SECONDS_BETWEEN_LINES

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Says it; asyncio tries to accept again after a second, and so says the same without end."""
        if "accept()" not in context["message"]:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            _log.error("connections cannot be accepted at the moment: %s", context["exception"])


def _open_files() -> int:
    """How many files this process may have open, after asking for as many as it needs."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has another limit for files than for connections
        return _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # -1 stands for no limit
    wanted = min(_FILES, hard) if hard >= 0 else _FILES
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
