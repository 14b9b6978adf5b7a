"""Blocking work off the event loop: a few threads, and a line before them that is never long."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, ParamSpec, TypeVar

from .problems import BusyError

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = "andornot-"  # how the names of all threads of the server begin
_PATIENCE: Final = 0.3


class WorkerPool:
    """Runs functions in `threads`; with `limit` of them under way or waiting, the next is refused as `BusyError`."""

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._pool = ThreadPoolExecutor(threads, f"{THREADS}{name}")
        self._room = threading.BoundedSemaphore(limit)
        self._jobs: set[Future[Any]] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns."""
        if not self._room.acquire(blocking=False):
            raise BusyError
        job = self._submit(work, *args, **kwargs)
        # When it is done, and not when the asker goes away: the thread works on.
        job.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(job)

    async def run_anyway(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same, however many are waiting: for the rest of what was begun."""
        return await asyncio.wrap_future(self._submit(work, *args, **kwargs))

    def close(self) -> None:
        """Forgets what is waiting, and waits a little for what is running: a thread cannot be stopped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(self._jobs.copy(), _PATIENCE)

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        job = self._pool.submit(work, *args, **kwargs)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job
