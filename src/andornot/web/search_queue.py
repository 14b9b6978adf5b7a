"""Searches of many askers: those that wait and ask in the same way are answered by one call of the gallery."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..gallery import Gallery, GalleryError, Hit, SearchOptions
from ..gallery.errors import QueryError
from ..gallery.names import Resolved
from ..logic import Formula, FormulaError, Representation
from .follower import Follower
from .formulas import names, read, repeats_names
from .presenters import tell_hits, tell_path, where_on_disk
from .problems import BusyError, RequestError
from .schemas import SearchAnswer
from .uploads import Uploads
from .worker_pool import WorkerPool

AT_ONCE: Final = 4
MAX_SECONDS: Final = 30.0
_TOGETHER: Final = 32
_WAITING: Final = 128
_LONG: Final = 0.5
_TOO_LONG: Final = "the search takes longer than {:.0f} seconds: ask for less, or with semantics=independent"


@dataclass(frozen=True)
class Found:
    """The hits of a search, and what everybody is told of them."""

    hits: list[Hit]
    answer: SearchAnswer

    def told(self, is_owner: bool) -> SearchAnswer:
        """The answer; its pictures' owner hears where they are."""
        if not is_owner:
            return self.answer
        pairs = zip(self.answer.hits, self.hits, strict=True)
        hits = [told.model_copy(update={"path": tell_path(hit.path)}) for told, hit in pairs]
        return self.answer.model_copy(update={"hits": hits})


@dataclass(eq=False)
class _Question:
    formula: Formula
    options: SearchOptions
    answer: asyncio.Future[Found]


class SearchQueue:
    """Makes one call of the gallery after the other: within one, all threads of torch work anyway.

    A call that takes long is not waited for: the next one begins beside it. Formulas that may take seconds by
    themselves have a pool of their own, and nobody waits for them but their askers.
    """

    def __init__(self, follower: Follower, uploads: Uploads, pool: WorkerPool, demanding: WorkerPool) -> None:
        self._follower, self._uploads, self._pool, self._demanding = follower, uploads, pool, demanding
        self._waiting: list[_Question] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None

    async def ask(self, text: str, options: SearchOptions) -> Found:
        """What is found, or the error of this formula alone."""
        formula = read(text)
        question = _Question(formula, options, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(MAX_SECONDS):
                if options.semantics == "exact" and repeats_names(formula):
                    await self._answer([question], self._demanding)
                else:
                    self._enqueue(question)
                return await question.answer
        except TimeoutError:
            if question in self._waiting:
                raise BusyError from None
            raise RequestError(504, _TOO_LONG.format(MAX_SECONDS)) from None

    def _enqueue(self, question: _Question) -> None:
        if len(self._waiting) >= _WAITING:
            raise BusyError
        self._waiting.append(question)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while batch := self._next_batch():
            call = asyncio.create_task(self._answer(batch, self._pool))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            await asyncio.wait({call}, timeout=_LONG)
            while len(self._calls) >= AT_ONCE:
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)

    def _next_batch(self) -> list[_Question]:
        """Those that ask in the way of the first, if anybody asks still."""
        self._waiting = [question for question in self._waiting if not question.answer.done()]
        batch = [question for question in self._waiting if question.options == self._waiting[0].options][:_TOGETHER]
        self._waiting = [question for question in self._waiting if question not in batch]
        return batch

    async def _answer(self, batch: Sequence[_Question], pool: WorkerPool) -> None:
        results: Sequence[Found | Exception]
        try:
            formulas = [question.formula for question in batch]
            results = await pool.run(self._find_all, formulas, batch[0].options)
        except Exception as error:
            results = [error] * len(batch)
        for question, result in zip(batch, results, strict=True):
            if question.answer.done():  # nobody waits for it any more
                continue
            if isinstance(result, Exception):
                question.answer.set_exception(result)
            else:
                question.answer.set_result(result)

    def _find_all(self, formulas: Sequence[Formula], options: SearchOptions) -> list[Found | Exception]:
        """The result of each formula; a wrong one does not spoil the others."""
        served = self._follower.current()
        options = replace(options, where=where_on_disk(options.where, served.browser))
        try:
            total = int(served.browser.mask(options.where).sum())
        except GalleryError as error:  # a label that there is not, or no date
            raise RequestError(400, str(error)) from None
        # First, and once for all: an upload may be dropped at any moment.
        pictures = self._uploads.represent([name for formula in formulas for name in formula.names], served)
        asked: dict[int, Resolved] = {}
        results: dict[int, Found | Exception] = {}
        for place, formula in enumerate(formulas):
            try:
                asked[place] = self._uploads.located(served.gallery.resolve(formula, pictures))
            except FormulaError as error:
                results[place] = error
        begin = time.perf_counter()
        found = _search(list(asked.values()), served.gallery, options, pictures)
        seconds = time.perf_counter() - begin
        for (place, resolved), hits in zip(asked.items(), found, strict=True):
            if isinstance(hits, FormulaError) and hits.text != resolved.asked.text:
                # A place in what its definitions say is none in what was typed.
                results[place] = FormulaError(hits.message, resolved.asked.text, 0, hits.nearest)
            elif isinstance(hits, FormulaError | QueryError):
                results[place] = hits
            else:
                answer = SearchAnswer(
                    formula=resolved.asked.text,
                    names=names(resolved, served.browser, self._uploads.file_names),
                    total=total,
                    hits=tell_hits(hits, served.gallery.near_copies([hit.id for hit in hits]), served.browser),
                    seconds=round(seconds, 6),
                )
                results[place] = Found(hits, answer)
        return [results[place] for place in range(len(formulas))]


def _search(
    asked: list[Resolved], gallery: Gallery, options: SearchOptions, pictures: Mapping[str, Representation]
) -> list[list[Hit] | FormulaError | QueryError]:
    """The hits of each query, or its error."""
    try:
        return list(gallery.search(asked, options=options, pictures=pictures))
    except (FormulaError, QueryError) as error:
        if len(asked) == 1:
            return [error]
        return [result for one in asked for result in _search([one], gallery, options, pictures)]
