"""`andornot serve`: bind a socket and run the server until it is stopped."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from ..errors import AndornotError

if TYPE_CHECKING:
    from ..gallery import Gallery

DEFAULT_PORT: Final = 8008
_PORTS_TRIED: Final = 100
_JOIN_SECONDS: Final = 0.05


class ServeError(AndornotError):
    """Raised when the server cannot start."""


def serve(
    address: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    cluster: str | None = None,
    shards: int | None = None,
    needs_token: bool = True,
    show_paths: bool = True,
    ready: Callable[[Gallery, str], None] = lambda _, __: None,
) -> None:
    """Serve the gallery at an address until Ctrl-C or SIGTERM; call `ready` with the gallery and the page's address.

    By default, only this machine can reach the server, and no token is needed. Paths are never returned to other
    machines.
    """
    # Imported here because it takes a second, and `--help` needs only the defaults above.
    from ..gallery import Gallery
    from .app import make_app
    from .connections import make_server
    from .security import is_loopback
    from .snapshots import THREAD_PREFIX

    gallery = Gallery.open(address, storage_options=storage_options, cluster=cluster, shards=shards)
    _ = gallery.planner  # report errors before the server starts
    is_own_machine = is_loopback(host)
    with bind_socket(host, port) as listening:
        token = secrets.token_urlsafe() if needs_token and not is_own_machine else None
        app = make_app(gallery, host=host, token=token, show_paths=show_paths and is_own_machine)
        server = make_server(app)
        stopped = threading.Event()

        def stop(_: int, __: FrameType | None) -> None:
            stopped.set()
            server.should_exit = True

        # uvicorn has its own handlers while it runs; afterwards it raises the signal again, which these handle.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        ready(gallery, _address(host, listening.getsockname()[1], token))
        server.run(sockets=[listening])
        if not server.started and not stopped.is_set():
            raise ServeError("the server could not start: see the lines above")
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_PREFIX)]
    for thread in threads:
        thread.join(_JOIN_SECONDS)
    if any(thread.is_alive() for thread in threads):
        # A search is running or a disk does not respond; a normal exit would wait for these threads.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def bind_socket(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; on the next free port if none is given."""
    first = DEFAULT_PORT if port is None else port
    if not 0 <= first < 2**16:
        raise ServeError(f"invalid port {first}: use 1 to 65535")
    for number in range(first, first + (_PORTS_TRIED if port is None else 1)):
        try:
            family, *_, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
            listening = socket.create_server(address[:2], family=family)
        except socket.gaierror:
            raise ServeError(f"unknown host {host}: use an address of this machine, such as 0.0.0.0") from None
        except OSError as error:
            refused = error
        else:
            # asyncio does this only for its own sockets; without it, the second part of a response waits 40 ms.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
    if port is None:
        raise ServeError(f"no free port from {first} to {first + _PORTS_TRIED - 1}: {refused.strerror}")
    raise ServeError(f"cannot use port {port} of {host}: {refused.strerror}; choose another with --port")


def _address(host: str, port: int, token: str | None) -> str:
    """Return the address to open. If the server listens on all addresses, it is the one for other machines."""
    shown = _own_address() if host in ("0.0.0.0", "::", "") else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _own_address() -> str:
    """Return the address of this machine in its network, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
