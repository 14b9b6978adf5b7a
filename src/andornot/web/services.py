"""The parts of a running server, and the dependencies of routes."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Request

from ..gallery import Gallery
from .search_queue import MAX_CALLS, SearchQueue
from .snapshots import GalleryFollower, SnapshotCache
from .thumbnails import Thumbnails
from .uploads import Uploads
from .worker_pool import WorkerPool

# Threads, and the most jobs that run or wait for them.
_WORKING: Final = (2, 128)
_SEARCHING: Final = (MAX_CALLS, 128)
_SLOW: Final = (2, 8)
_CROPPING: Final = (1, 8)  # one thread: a large image takes seconds and hundreds of megabytes
_MAX_DOWNLOADS: Final = 4
_MAX_UPLOADS: Final = 8
_CLEANUP_SECONDS: Final = 60.0
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class Services:
    """Everything that lives as long as the server.

    Searches have threads of their own, so that they do not wait for hundreds of thumbnails.
    """

    def __init__(self, gallery: Gallery, *, show_paths: bool) -> None:
        self.show_paths = show_paths
        self.follower = GalleryFollower(gallery)
        self.uploads = Uploads()
        self.thumbnails = Thumbnails(_thumbnail_folder(gallery))
        self.pool = WorkerPool("working", *_WORKING)
        self.cache = SnapshotCache(self.pool)
        self._search_pools = (
            WorkerPool("searching", *_SEARCHING),
            WorkerPool("slow", *_SLOW),
            WorkerPool("cropping", *_CROPPING),
        )
        self.searches = SearchQueue(self.follower, self.uploads, *self._search_pools)
        self.downloads = asyncio.Semaphore(_MAX_DOWNLOADS)
        self.receiving = asyncio.Semaphore(_MAX_UPLOADS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the gallery; afterwards stop all threads and remove temporary files."""
        self.follower.start()
        cleanup = asyncio.create_task(self._clean_up())
        try:
            yield
        finally:
            cleanup.cancel()
            self._close()

    async def _clean_up(self) -> None:
        while True:
            await asyncio.sleep(_CLEANUP_SECONDS)
            await self.pool.run_anyway(self.uploads.evict)

    def _close(self) -> None:
        self.follower.stop()
        for pool in (self.pool, *self._search_pools):
            pool.close()
        self.uploads.close()
        self.thumbnails.close()


def _thumbnail_folder(gallery: Gallery) -> Path:
    """Return the folder of thumbnails, which may be deleted at any time; a temporary one for an object store."""
    if gallery.folder is None:
        return Path(tempfile.mkdtemp(prefix="andornot-"))
    return gallery.folder / "cache" / "thumbnails"


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _is_local(request: Request) -> bool:
    """Return whether paths may be shown: not to requests that say they come through a proxy."""
    services = await _services(request)
    return services.show_paths and not any(name in request.headers for name in _PROXY_HEADERS)


ServicesDep = Annotated[Services, Depends(_services)]
IsLocal = Annotated[bool, Depends(_is_local)]
