"""What is computed once for each state of the gallery, when it is first asked for, however many ask at once."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .follower import Served
from .worker_pool import WorkerPool

T = TypeVar("T")


class StateCache:
    """Keeps what each of some functions makes of the state that was served last."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._kept: dict[Callable[[Served], Any], tuple[Served, asyncio.Task[Any]]] = {}

    async def get(self, make: Callable[[Served], T], served: Served) -> T:
        """What the function makes of a state; who goes away does not stop it for others."""
        return cast(T, await asyncio.shield(self._task(make, served)))

    async def soon(self, make: Callable[[Served], T], served: Served, patience: float) -> T | None:
        """The same, or None if that takes longer than so many seconds; it goes on meanwhile."""
        task = self._task(make, served)
        await asyncio.wait({task}, timeout=patience)
        return task.result() if task.done() else None

    def _task(self, make: Callable[[Served], T], served: Served) -> asyncio.Task[T]:
        kept = self._kept.get(make)
        if kept is None or kept[0] is not served or (kept[1].done() and (kept[1].cancelled() or kept[1].exception())):
            kept = served, asyncio.create_task(self._pool.run_anyway(make, served))
            self._kept[make] = kept
        return kept[1]
