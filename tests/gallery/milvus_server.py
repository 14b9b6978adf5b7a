"""A real Milvus server in a temporary folder, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

# Its embedded etcd has a port that cannot be chosen, so one server runs on a machine at a time.
_LOCK = Path(tempfile.gettempdir()) / "andornot-milvus.lock"
_START_SECONDS = 120.0
# How long a killed server is believed to live, in seconds; in milliseconds, how often a clock ticks that searches wait
# for, and how often the server looks whether a collection is loaded.
_QUICK = {
    "common.session.ttl": 2,
    "proxy.timeTickInterval": 20,
    "queryCoord.checkInterval": 100,
    "queryCoord.distPullInterval": 100,
    "queryCoord.checkHandoffInterval": 100,
}


class MilvusServer:
    """A context: the server runs inside it, unless killed, and is gone after it."""

    def __enter__(self) -> "MilvusServer":
        from milvus import MilvusServer as Server

        self._lock = FileLock(_LOCK)
        self._lock.acquire()
        self._folder = tempfile.TemporaryDirectory(prefix="andornot-milvus-", ignore_cleanup_errors=True)
        self.port = _free_port()
        self._server: Any = Server(_configuration(self._folder.name, self.port), wait_for_started=False)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()
        self._lock.release()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        self._server.start()
        # However this process ends, its pipe is closed then: no server outlives its tests.
        command = f"cat; kill -9 {self._server.server_proc.pid}"
        self._watcher = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        health = f"http://127.0.0.1:{self._server.webservice_port}/healthz"
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._server.server_proc.poll() is None:
            with suppress(OSError), urllib.request.urlopen(health, timeout=5) as answer:
                if b"OK" in answer.read():
                    return
            time.sleep(0.1)
        log = Path(self._folder.name, "logs", "milvus-stdout.log").read_text()
        raise RuntimeError(f"the Milvus server did not start: {log[-2000:]}")

    def kill(self) -> None:
        """SIGKILL, as if the power failed."""
        if self._server.server_proc is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._server.server_proc.kill()
            self._server.server_proc.wait()
        self._server.stop()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections, and answers nothing."""
        os.kill(self._server.server_proc.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._server.server_proc.pid, signal.SIGCONT)

    def address(self, collection: str) -> str:
        """The name of the engine for a collection."""
        return f"milvus://root:Milvus@127.0.0.1:{self.port}/{collection}"

    @cached_property
    def client(self) -> Any:
        """A client, to look at what is there."""
        from pymilvus import MilvusClient

        return MilvusClient(f"http://127.0.0.1:{self.port}", token="root:Milvus")


def _configuration(folder: str, port: int) -> Any:
    from milvus import MilvusServerConfig

    class Configuration(MilvusServerConfig):  # type: ignore[misc]
        """Takes a port that a killed server had a moment ago for free, as the server does."""

        def try_bind_port(self, port: int) -> socket.socket | None:
            try:
                return socket.create_server(("127.0.0.1", port))
            except OSError:
                return None

    configuration = Configuration(data_dir=folder, proxy_port=port)
    configuration.set("authorization_enabled", True)
    for key, value in _QUICK.items():
        configuration.set(key, value)
    return configuration


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
