"""The latest committed version of the gallery, and values that are computed once for each version."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

from ..gallery import Gallery, GalleryError
from ..gallery.errors import LockedError
from .browsing import Browser
from .errors import log, server_error
from .worker_pool import THREAD_PREFIX, WorkerPool

T = TypeVar("T")

_POLL_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 0.3  # reading may take longer, but nothing waits for it any more


class Snapshot(NamedTuple):
    """One version of the gallery. It stays usable when newer versions are committed."""

    gallery: Gallery
    browser: Browser


class GalleryFollower:
    """Reopens a gallery whenever a new version is committed, between `start` and `stop`."""

    def __init__(self, gallery: Gallery) -> None:
        self._given = self._latest = gallery
        self._version: object = None
        self._snapshot: Snapshot | None = None
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"{THREAD_PREFIX}following", daemon=True)

    @property
    def name(self) -> str:
        """The name of the gallery's folder."""
        return self._given.name

    def current(self) -> Snapshot:
        """Return the latest snapshot, or raise a RequestError if the gallery cannot be read."""
        snapshot = self._snapshot
        if snapshot is None:
            raise server_error(self._error or GalleryError("the gallery is not open yet"))
        return snapshot

    def start(self) -> None:
        """Read the gallery and follow it from now on."""
        self.poll()
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._stopping.set()
        self._thread.join(_JOIN_SECONDS)

    def poll(self) -> None:
        """Reopen the gallery if there is a new version."""
        try:
            version = self._latest.latest_version
            if version == self._version:
                return
            self._latest = self._latest.reopen()
            self._snapshot = Snapshot(self._latest, Browser(self._latest.planner))
            self._version = version  # from before reading: what was committed since is found by the next poll
            self._error = None
        except LockedError:
            return  # keep serving the previous version meanwhile
        except Exception as error:  # whatever it is, the gallery may be readable again at the next poll
            if str(error) != str(self._error):
                log.error("%s", error)
            self._snapshot, self._error, self._version = None, error, None

    def _follow(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            self.poll()


class SnapshotCache:
    """Caches the results of functions of a snapshot, each for the snapshot it was called with last."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._cached: dict[Callable[[Snapshot], Any], tuple[Snapshot, asyncio.Task[Any]]] = {}

    async def get(self, compute: Callable[[Snapshot], T], snapshot: Snapshot) -> T:
        """Return the function's result, computed once however many requests wait for it.

        A request that is cancelled does not stop the computation for the others.
        """
        return cast(T, await asyncio.shield(self._task(compute, snapshot)))

    def _task(self, compute: Callable[[Snapshot], T], snapshot: Snapshot) -> asyncio.Task[T]:
        cached = self._cached.get(compute)
        if cached is None or cached[0] is not snapshot or _has_failed(cached[1]):
            cached = snapshot, asyncio.create_task(self._pool.run_anyway(compute, snapshot))
            self._cached[compute] = cached
        return cached[1]


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
