"""A gallery as a page: a socket, an address, and a server until it is told to stop."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from .errors import ServeError

if TYPE_CHECKING:
    from ..gallery import Gallery

DEFAULT_PORT: Final = 8008
_TRIED_PORTS: Final = 100
_PATIENCE: Final = 0.05


def serve(
    folder: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    engine: str = "auto",
    needs_token: bool = True,
    tells_paths: bool = True,
    ready: Callable[[Gallery, str], None] = lambda _, __: None,
) -> None:
    """Serves the gallery in the folder until Ctrl-C or SIGTERM. `ready` is told its address when it can be opened.

    This machine alone reaches it by default, and needs no token. Other machines are told no paths.
    """
    # Here, because it takes a second, and the defaults above are wanted at once.
    from ..gallery import Gallery

    try:
        from .app import make_app
        from .connections import make_server
        from .security import is_loopback
        from .worker_pool import THREADS
    except ModuleNotFoundError as missing:
        raise ServeError(f"the page needs the package {missing.name}: pip install 'andornot[web]'") from None
    gallery = Gallery.open(folder, engine=engine)
    gallery.browse()  # what is wrong with it is said now
    is_own_machine = is_loopback(host)
    with bound(host, port) as listening:
        token = secrets.token_urlsafe() if needs_token and not is_own_machine else None
        app = make_app(gallery, host=host, token=token, tells_paths=tells_paths and is_own_machine)
        server = make_server(app)
        stopped = threading.Event()

        def stop(_: int, __: FrameType | None) -> None:
            stopped.set()
            server.should_exit = True

        # uvicorn has its own handlers while it runs, and afterwards sends the signal again to these.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        ready(gallery, _address(host, listening.getsockname()[1], token))
        server.run(sockets=[listening])
        if not server.started and not stopped.is_set():
            raise ServeError("the server could not start: the lines above say why")
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREADS)]
    for thread in threads:
        thread.join(_PATIENCE)
    if any(thread.is_alive() for thread in threads):
        # A search that nobody waits for any more, or a disk that does not answer. Python itself would wait for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def bound(host: str, port: int | None) -> socket.socket:
    """A socket that listens; on the next free port if none was asked for."""
    first = DEFAULT_PORT if port is None else port
    if not 0 <= first < 2**16:
        raise ServeError(f"{first} is no port: they go from 1 to 65535")
    for number in range(first, first + (_TRIED_PORTS if port is None else 1)):
        try:
            family, *_, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
            listening = socket.create_server(address[:2], family=family)
        except socket.gaierror:
            raise ServeError(f"there is no address {host}: --host takes one of this machine, such as 0.0.0.0") from None
        except OSError as error:
            refused = error
        else:
            # asyncio does so only for sockets that it makes itself; without, an answer waits 40 ms for its second half.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
    if port is None:
        raise ServeError(f"no port from {first} on is free: {refused.strerror}")
    raise ServeError(f"port {port} of {host} cannot be used: {refused.strerror}; --port takes another")


def _address(host: str, port: int, token: str | None) -> str:
    """What to open. "All addresses of this machine" is none itself: then the one that others see."""
    shown = _own_address() if host in ("0.0.0.0", "::", "") else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _own_address() -> str:
    """The address of this machine in its network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
