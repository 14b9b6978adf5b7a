"""Blocking work off the event loop: a few threads, and a line before them that is never long."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from .problems import BusyError

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """Runs functions in `threads`; with `limit` of them under way or waiting, the next is refused as `BusyError`."""

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._pool = ThreadPoolExecutor(threads, f"andornot-{name}")
        self._room = threading.BoundedSemaphore(limit)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns."""
        if not self._room.acquire(blocking=False):
            raise BusyError
        job = self._pool.submit(work, *args, **kwargs)
        # When it is done, and not when the asker goes away: the thread works on.
        job.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(job)

    async def run_anyway(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same, however many are waiting: for the rest of what was begun."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    def close(self) -> None:
        """Waits for what is running, and forgets what is waiting."""
        self._pool.shutdown(cancel_futures=True)
