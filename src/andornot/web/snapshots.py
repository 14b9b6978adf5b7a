"""Worker threads, the latest committed version of the gallery, and values cached per version."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from ..gallery import Gallery, GalleryError
from ..gallery.errors import LockedError
from .browsing import Browser
from .errors import BusyError, StoppingError, log, server_error

# --- threads ----------------------------------------------------------------------------------------------------------

P = ParamSpec("P")
T = TypeVar("T")

THREAD_PREFIX: Final = "andornot-"  # of the names of all threads of the server
_CLOSE_SECONDS: Final = 0.3


class WorkerPool:
    """Runs functions in `threads`; raises a `BusyError` while `limit` of them are running or waiting."""

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._executor = ThreadPoolExecutor(threads, f"{THREAD_PREFIX}{name}")
        self._places = threading.BoundedSemaphore(limit)
        self._jobs: set[Future[Any]] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the function, or raise a `BusyError`."""
        if not self._places.acquire(blocking=False):
            raise BusyError
        try:
            job = self._submit(work, *args, **kwargs)
        except StoppingError:
            self._places.release()
            raise
        # Released when the work is done, not when the client disconnects: the thread keeps working.
        job.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(job)

    async def run_anyway(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the function without a limit on waiting jobs, to finish started requests."""
        return await asyncio.wrap_future(self._submit(work, *args, **kwargs))

    def close(self) -> None:
        """Cancel waiting work, and wait a moment for running work: a thread cannot be stopped."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        wait(self._jobs.copy(), _CLOSE_SECONDS)

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            job = self._executor.submit(work, *args, **kwargs)
        except RuntimeError:  # the executor was shut down
            raise StoppingError from None
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job


# --- versions of the gallery ------------------------------------------------------------------------------------------

_POLL_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 0.3  # reads may take longer, but nothing waits for them any more


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
            self._version = version  # read before reopening, so that the next poll finds later commits
            self._error = None
        except LockedError:
            return  # keep serving the previous version meanwhile
        except Exception as error:  # the gallery may be readable again at the next poll
            if str(error) != str(self._error):
                log.error("%s", error)
            self._snapshot, self._error, self._version = None, error, None

    def _follow(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            self.poll()


class SnapshotCache:
    """Caches the result of each function of a snapshot, for the latest snapshot it was called with."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._cached: dict[Callable[[Snapshot], Any], tuple[Snapshot, asyncio.Task[Any]]] = {}

    async def get(self, compute: Callable[[Snapshot], T], snapshot: Snapshot) -> T:
        """Return the function's result, computed once for all waiting requests.

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
