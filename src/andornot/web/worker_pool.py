"""Threads for blocking work, with a bounded queue."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, ParamSpec, TypeVar

from .errors import BusyError, StoppingError

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
        """Return the result of the function, however many are waiting: to finish what was begun."""
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
