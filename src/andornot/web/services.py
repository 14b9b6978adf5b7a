"""The parts of a running server, and how a route gets them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from fastapi import Depends, Request

from ..gallery import Gallery
from .follower import Follower
from .search_queue import AT_ONCE, SearchQueue
from .state_cache import StateCache
from .thumbnails import Thumbnails
from .uploads import Uploads
from .worker_pool import WorkerPool

_THREADS: Final = 2
_LIMIT: Final = 128
_DEMANDING: Final = (2, 8)  # threads, and searches under way or waiting for them
_DOWNLOADS: Final = 4
_RECEIVING: Final = 8
_TIDY_SECONDS: Final = 60.0
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class Services:
    """Everything that lives as long as the server.

    Searches have threads of their own: thumbnails are asked for by the hundred.
    """

    def __init__(self, gallery: Gallery, *, tells_paths: bool) -> None:
        self.tells_paths = tells_paths
        self.follower = Follower(gallery)
        self.uploads = Uploads()
        self.thumbnails = Thumbnails(gallery.cache_folder("thumbnails"))
        self.pool = WorkerPool("working", _THREADS, _LIMIT)
        self.states = StateCache(self.pool)
        self._searching = WorkerPool("searching", AT_ONCE, _LIMIT)
        self._demanding = WorkerPool("demanding", *_DEMANDING)
        self.searches = SearchQueue(self.follower, self.uploads, self._searching, self._demanding)
        self.downloads = asyncio.Semaphore(_DOWNLOADS)
        self.receiving = asyncio.Semaphore(_RECEIVING)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows the gallery; afterwards ends all threads, and removes what was temporary."""
        self.follower.start()
        tidying = asyncio.create_task(self._tidy())
        try:
            yield
        finally:
            tidying.cancel()
            self._close()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            await self.pool.run_anyway(self.uploads.tidy)

    def _close(self) -> None:
        self.follower.stop()
        self.pool.close()
        self._searching.close()
        self._demanding.close()
        self.uploads.close()
        self.thumbnails.close()


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _is_owner(request: Request) -> bool:
    """Whether who asks is at this machine, as far as can be known: not through a proxy, which most of them say."""
    return _services(request).tells_paths and not any(name in request.headers for name in _PASSED_ON)


ServicesDep = Annotated[Services, Depends(_services)]
Owner = Annotated[bool, Depends(_is_owner)]
