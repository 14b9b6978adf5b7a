"""The parts of a running server, the queue of its searches, and the dependencies of routes."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Request

from ..gallery import Gallery, Hit, SearchOptions
from ..gallery.errors import FilterError, QueryError
from ..gallery.names import BoundFormula
from ..logic import FormulaError, Representation
from .errors import BusyError, RequestError
from .formulas import check_crops, check_names, has_crops, present_formula
from .presenters import filter_on_disk, present_hits, shown_path
from .responses import Thumbnails
from .schemas import SearchAnswer
from .snapshots import GalleryFollower, SnapshotCache, WorkerPool
from .uploads import Uploads

# --- searches: those that wait with the same options are answered by one call of the gallery --------------------------

MAX_CALLS: Final = 4
MAX_SECONDS: Final = 30.0
_BATCH_SIZE: Final = 32
_MAX_WAITING: Final = 128
_SLOW_SECONDS: Final = 0.5
_TIMEOUT: Final = "the search takes longer than {:.0f} seconds: use fewer names, or semantics=independent"


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search, and the answer without paths."""

    hits: list[Hit]
    answer: SearchAnswer

    def for_client(self, is_local: bool) -> SearchAnswer:
        """Return the answer, with paths for local requests."""
        if not is_local:
            return self.answer
        pairs = zip(self.answer.hits, self.hits, strict=True)
        hits = [shown.model_copy(update={"path": shown_path(hit.path)}) for shown, hit in pairs]
        return self.answer.model_copy(update={"hits": hits})


@dataclass(eq=False)
class _WaitingSearch:
    text: str
    options: SearchOptions
    offset: int
    result: asyncio.Future[SearchResult]


class _CropsError(Exception):
    """Raised for a formula with crops, which must be searched in its own pool."""


class SearchQueue:
    """Runs searches in batches with the same options; within a call, torch uses all its threads.

    The next call does not wait for a slow one. Formulas that may take seconds have their own pool, so that other
    searches do not wait for them; so do formulas with crops, for which files are decoded.
    """

    def __init__(
        self, follower: GalleryFollower, uploads: Uploads, pool: WorkerPool, slow: WorkerPool, cropping: WorkerPool
    ) -> None:
        self._follower, self._uploads = follower, uploads
        self._pool, self._slow, self._cropping = pool, slow, cropping
        self._waiting: list[_WaitingSearch] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._worker: asyncio.Task[None] | None = None

    async def search(self, text: str, options: SearchOptions, offset: int = 0) -> SearchResult:
        """Return the hits of a search from `offset`, or raise the error of this formula."""
        may_be_slow = check_names(text) and options.semantics == "exact"
        waiting = _WaitingSearch(text, options, offset, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(MAX_SECONDS):
                if may_be_slow:
                    await self._run_batch([waiting], self._slow)
                else:
                    self._enqueue(waiting)
                try:
                    return await waiting.result
                except _CropsError:
                    return await self._search_with_crops(text, options, offset)
        except TimeoutError:
            if waiting in self._waiting:
                raise BusyError from None
            raise RequestError(504, "timeout", _TIMEOUT.format(MAX_SECONDS)) from None

    async def _search_with_crops(self, text: str, options: SearchOptions, offset: int) -> SearchResult:
        [result] = await self._cropping.run(self._search_all, [text], options, offset, can_crop=True)
        if isinstance(result, Exception):
            raise result
        return result

    def _enqueue(self, waiting: _WaitingSearch) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            raise BusyError
        self._waiting.append(waiting)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run_batches())

    async def _run_batches(self) -> None:
        while batch := self._next_batch():
            call = asyncio.create_task(self._run_batch(batch, self._pool))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            await asyncio.wait({call}, timeout=_SLOW_SECONDS)
            while len(self._calls) >= MAX_CALLS:
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)

    def _next_batch(self) -> list[_WaitingSearch]:
        """Return the searches with the same options as the first."""
        self._waiting = [waiting for waiting in self._waiting if not waiting.result.done()]
        first = self._waiting[:1]
        batch = [one for one in self._waiting if (one.options, one.offset) == (first[0].options, first[0].offset)]
        batch = batch[:_BATCH_SIZE]
        self._waiting = [waiting for waiting in self._waiting if waiting not in batch]
        return batch

    async def _run_batch(self, batch: Sequence[_WaitingSearch], pool: WorkerPool) -> None:
        results: Sequence[SearchResult | Exception]
        try:
            texts = [waiting.text for waiting in batch]
            results = await pool.run(self._search_all, texts, batch[0].options, batch[0].offset)
        except Exception as error:
            results = [error] * len(batch)
        for waiting, result in zip(batch, results, strict=True):
            if waiting.result.done():  # the client has disconnected
                continue
            if isinstance(result, Exception):
                waiting.result.set_exception(result)
            else:
                waiting.result.set_result(result)

    def _search_all(
        self, texts: Sequence[str], options: SearchOptions, offset: int, *, can_crop: bool = False
    ) -> list[SearchResult | Exception]:
        """Return the result of each formula; a wrong one does not affect the others.

        Unless `can_crop`, a formula with crops gives a _CropsError. Definitions may contain crops, so this is known
        only when names are resolved.
        """
        snapshot = self._follower.current()
        options = replace(options, filter=filter_on_disk(options.filter, snapshot.browser), top=offset + options.top)
        try:
            total = int(snapshot.browser.mask(options.filter).sum())
        except FilterError as error:
            raise RequestError(400, "invalid-filter", str(error)) from None
        # First and once for all formulas, because an upload may be removed at any time.
        images = self._uploads.represent(texts, snapshot)
        asked: dict[int, BoundFormula] = {}
        results: dict[int, SearchResult | Exception] = {}
        for place, text in enumerate(texts):
            try:
                resolved = self._uploads.located(snapshot.gallery.resolve(text, images))
                check_crops(resolved)
            except FormulaError as error:
                results[place] = error
            else:
                if has_crops(resolved) and not can_crop:
                    results[place] = _CropsError()
                else:
                    asked[place] = resolved
        start = time.perf_counter()
        found = _search(list(asked.values()), snapshot.gallery, options, images)
        seconds = time.perf_counter() - start
        for (place, resolved), hits in zip(asked.items(), found, strict=True):
            if isinstance(hits, FormulaError) and hits.text != resolved.asked.text:
                # A position in the text of a definition is not valid in the formula that was typed.
                results[place] = FormulaError(hits.message, resolved.asked.text, 0, hits.suggestions, code=hits.code)
            elif isinstance(hits, FormulaError | QueryError):
                results[place] = hits
            else:
                hits = hits[offset:]
                stacked_on = snapshot.gallery.planner.near_copies([hit.id for hit in hits])
                # Unpacked, not dumped: dumping and validating a deep tree is slow, and pydantic limits its depth.
                answer = SearchAnswer.model_construct(
                    **dict(present_formula(resolved, snapshot.browser, self._uploads.file_names)),
                    total=total,
                    hits=present_hits(hits, stacked_on, snapshot.browser),
                    seconds=round(seconds, 6),
                )
                results[place] = SearchResult(hits, answer)
        return [results[place] for place in range(len(texts))]


def _search(
    asked: list[BoundFormula], gallery: Gallery, options: SearchOptions, images: Mapping[str, Representation]
) -> list[list[Hit] | FormulaError | QueryError]:
    """Return the hits or the error of each query."""
    try:
        return list(gallery.search(asked, options=options, images=images))
    except (FormulaError, QueryError) as error:
        if len(asked) == 1:
            return [error]
        return [result for one in asked for result in _search([one], gallery, options, images)]


# --- the parts of the server ------------------------------------------------------------------------------------------

# The number of threads, and the maximum number of running and waiting jobs.
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

    Searches have their own threads, so that they do not wait for hundreds of thumbnails.
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
    """Return whether paths may be returned; never to requests that were forwarded by a proxy."""
    services = await _services(request)
    return services.show_paths and not any(name in request.headers for name in _PROXY_HEADERS)


ServicesDep = Annotated[Services, Depends(_services)]
IsLocal = Annotated[bool, Depends(_is_local)]
