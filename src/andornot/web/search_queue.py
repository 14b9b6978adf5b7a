"""A queue of searches: those that wait with the same options are answered by one call of the gallery."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..gallery import Gallery, Hit, SearchOptions
from ..gallery.errors import FilterError, QueryError
from ..gallery.names import BoundFormula
from ..logic import Formula, FormulaError, Representation
from .errors import BusyError, RequestError
from .formulas import check_crops, has_crops, parse_formula, present_formula, repeats_names
from .presenters import filter_on_disk, present_hits, shown_path
from .schemas import SearchAnswer
from .snapshots import GalleryFollower
from .uploads import Uploads
from .worker_pool import WorkerPool

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
    formula: Formula
    options: SearchOptions
    result: asyncio.Future[SearchResult]


class _CropsError(Exception):
    """Raised for a formula with crops where none can be cut."""


class SearchQueue:
    """Calls the gallery for one batch of searches after the other; within a call torch uses all its threads.

    The next call does not wait for a slow one. Formulas that may take seconds have a pool of their own, so that other
    searches do not wait for them. So have formulas with crops, for which files are decoded.
    """

    def __init__(
        self, follower: GalleryFollower, uploads: Uploads, pool: WorkerPool, slow: WorkerPool, cropping: WorkerPool
    ) -> None:
        self._follower, self._uploads = follower, uploads
        self._pool, self._slow, self._cropping = pool, slow, cropping
        self._waiting: list[_WaitingSearch] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._worker: asyncio.Task[None] | None = None

    async def search(self, text: str, options: SearchOptions) -> SearchResult:
        """Return the result of a search, or raise the error of this formula alone."""
        formula = parse_formula(text)
        waiting = _WaitingSearch(formula, options, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(MAX_SECONDS):
                if options.semantics == "exact" and repeats_names(formula):
                    await self._run_batch([waiting], self._slow)
                else:
                    self._enqueue(waiting)
                try:
                    return await waiting.result
                except _CropsError:
                    return await self._search_with_crops(formula, options)
        except TimeoutError:
            if waiting in self._waiting:
                raise BusyError from None
            raise RequestError(504, "timeout", _TIMEOUT.format(MAX_SECONDS)) from None

    async def _search_with_crops(self, formula: Formula, options: SearchOptions) -> SearchResult:
        [result] = await self._cropping.run(self._search_all, [formula], options, can_crop=True)
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
        batch = [waiting for waiting in self._waiting if waiting.options == self._waiting[0].options][:_BATCH_SIZE]
        self._waiting = [waiting for waiting in self._waiting if waiting not in batch]
        return batch

    async def _run_batch(self, batch: Sequence[_WaitingSearch], pool: WorkerPool) -> None:
        results: Sequence[SearchResult | Exception]
        try:
            formulas = [waiting.formula for waiting in batch]
            results = await pool.run(self._search_all, formulas, batch[0].options)
        except Exception as error:
            results = [error] * len(batch)
        for waiting, result in zip(batch, results, strict=True):
            if waiting.result.done():  # the client is gone
                continue
            if isinstance(result, Exception):
                waiting.result.set_exception(result)
            else:
                waiting.result.set_result(result)

    def _search_all(
        self, formulas: Sequence[Formula], options: SearchOptions, *, can_crop: bool = False
    ) -> list[SearchResult | Exception]:
        """Return the result of each formula; a wrong one does not affect the others.

        Unless `can_crop`, a formula with crops is a _CropsError: names may be defined by crops, so this is known only
        when they are resolved.
        """
        snapshot = self._follower.current()
        options = replace(options, filter=filter_on_disk(options.filter, snapshot.browser))
        try:
            total = int(snapshot.browser.mask(options.filter).sum())
        except FilterError as error:
            raise RequestError(400, "invalid-filter", str(error)) from None
        # First, and once for all formulas: an upload may be dropped at any moment.
        images = self._uploads.represent([name for formula in formulas for name in formula.names], snapshot)
        asked: dict[int, BoundFormula] = {}
        results: dict[int, SearchResult | Exception] = {}
        for place, formula in enumerate(formulas):
            try:
                resolved = self._uploads.located(snapshot.gallery.resolve(formula, images))
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
                # A position in the text of a definition is none in the formula that was typed.
                results[place] = FormulaError(hits.message, resolved.asked.text, 0, hits.suggestions, code=hits.code)
            elif isinstance(hits, FormulaError | QueryError):
                results[place] = hits
            else:
                stacked_on = snapshot.gallery.planner.near_copies([hit.id for hit in hits])
                # Unpacked, not dumped: to dump and validate a deep tree takes long, and pydantic limits its depth.
                answer = SearchAnswer.model_construct(
                    **dict(present_formula(resolved, snapshot.browser, self._uploads.file_names)),
                    total=total,
                    hits=present_hits(hits, stacked_on, snapshot.browser),
                    seconds=round(seconds, 6),
                )
                results[place] = SearchResult(hits, answer)
        return [results[place] for place in range(len(formulas))]


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
