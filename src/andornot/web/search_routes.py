"""API routes for searching: hits, downloads, comparisons, and suggestions for what to search."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from ..errors import printable
from ..gallery import SearchOptions
from ..gallery.names import BoundFormula
from ..gallery.words import WordIndex
from ..logic import FormulaError
from ..logic.atoms import write_name
from . import schemas
from .comparison import compare
from .completing import Completer, Completion
from .downloads import as_csv, as_zip
from .errors import BusyError, error_responses, formula_error_detail
from .examples import Example, examples_of
from .formula_schemas import ErrorAnswer, FormulaAnswer
from .formulas import MAX_CHARACTERS, check_crops, correct, parse_formula, present_formula
from .parameters import DownloadParameters, FormulaText, Id, ImageText, LenientSearchParameters, Limit, Top
from .presenters import position_of, present_name
from .responses import json_response
from .services import IsLocal, Services, ServicesDep
from .snapshots import Snapshot

router: Final = APIRouter()

_FILES: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get("/formula", response_model=FormulaAnswer)
async def get_formula(services: ServicesDep, formula: FormulaText) -> Response:
    """Parse a formula and return its names and its tree, without searching."""
    return json_response(await services.pool.run(_explain, formula, services.follower.current(), services))


@router.get("/search", response_model=schemas.SearchAnswer | ErrorAnswer)
async def search(
    services: ServicesDep, is_local: IsLocal, searched: Annotated[LenientSearchParameters, Query()]
) -> Response:
    """Return the images nearest to a formula, and the parsed formula."""
    try:
        result = await services.searches.search(searched.formula, searched.options)
    except FormulaError as error:
        if not searched.lenient:
            raise
        return json_response(await services.pool.run(_explain_error, error, searched.formula, services))
    return json_response(result.for_client(is_local))


@router.get("/images/{id}/similar", response_model=schemas.SearchAnswer, responses=error_responses(404))
async def get_similar(services: ServicesDep, is_local: IsLocal, id: Id, top: Top = 24) -> Response:  # noqa: A002
    """Return the images nearest to an image."""
    position_of(services.follower.current().browser, id)
    result = await services.searches.search(str(id), SearchOptions(top))
    return json_response(result.for_client(is_local))


@router.get("/compare", response_model=schemas.CompareAnswer, responses=error_responses(404))
async def get_comparison(
    services: ServicesDep, a: ImageText, b: ImageText, features: Annotated[int, Query(ge=1, le=256)] = 32
) -> Response:
    """Return the OR, AND, NOT and difference of two images, in the most informative features."""
    snapshot = services.follower.current()
    return json_response(await services.pool.run(compare, a, b, features, snapshot, services.uploads))


@router.get(
    "/download",
    response_class=Response,
    responses={200: {"description": "the hits", "content": {"application/zip": _FILES, "text/csv": _FILES}}},
)
async def download(
    services: ServicesDep, is_local: IsLocal, downloaded: Annotated[DownloadParameters, Query()]
) -> Response:
    """Return the hits of a search as a CSV file, or as a zip of the images."""
    result = await services.searches.search(downloaded.formula, downloaded.options)
    headers = {"Content-Disposition": f'attachment; filename="hits.{downloaded.format}"'}
    if downloaded.format == "csv":
        return Response(as_csv(result.hits, is_local), media_type="text/csv", headers=headers)
    if services.downloads.locked():
        raise BusyError
    return StreamingResponse(_stream(as_zip(result.hits), services), media_type="application/zip", headers=headers)


@router.get("/words", response_model=schemas.WordsAnswer)
async def get_words(services: ServicesDep, limit: Limit = 200) -> Response:
    """Return the most distinctive words of the gallery."""
    snapshot = services.follower.current()
    index = await services.cache.get(_word_index, snapshot)
    return json_response(
        schemas.WordsAnswer(
            words=[
                schemas.WordShare(word=word, term=write_name(word), images=count, share=count / len(snapshot.browser))
                for word, count in index.telling[:limit]
            ],
            has_words=index.is_ready,
        )
    )


@router.get("/complete", response_model=schemas.CompleteAnswer)
async def complete(
    services: ServicesDep,
    text: Annotated[str, Query(max_length=MAX_CHARACTERS, description="the formula as typed so far")] = "",
    cursor: Annotated[
        int | None, Query(ge=0, le=MAX_CHARACTERS, description="in characters (default: the end)")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 8,
) -> Response:
    """Return completions at the cursor of a formula."""
    snapshot = services.follower.current()
    await services.cache.get(_word_index, snapshot)
    at = len(text) if cursor is None else min(cursor, len(text))
    return json_response(await services.pool.run(_complete, text, at, limit, snapshot))


@router.get("/examples", response_model=schemas.ExamplesAnswer)
async def get_examples(services: ServicesDep) -> Response:
    """Return example queries that have hits in this gallery."""
    snapshot = services.follower.current()
    examples = await services.cache.get(_examples, snapshot)
    return json_response(await services.pool.run(_present_examples, examples, snapshot))


def _explain(text: str, snapshot: Snapshot, services: Services) -> FormulaAnswer:
    resolved = _resolve(text, snapshot, services)
    return present_formula(services.uploads.located(resolved), snapshot.browser, services.uploads.file_names)


def _resolve(text: str, snapshot: Snapshot, services: Services) -> BoundFormula:
    formula = parse_formula(text)
    resolved = snapshot.gallery.resolve(formula, services.uploads.known(formula.names))
    check_crops(resolved)
    return resolved


def _explain_error(error: FormulaError, text: str, services: Services) -> ErrorAnswer:
    """Return a mistake with its corrections, and the parsed formula if it can be parsed but not searched."""
    snapshot = services.follower.current()

    def check(formula: str) -> FormulaError | None:
        try:
            _resolve(formula, snapshot, services)
        except FormulaError as wrong:
            return wrong
        return None

    detail = formula_error_detail(error)
    detail.corrections = correct(error, check) if error.text == text else []
    parsed = None if check(text) else _explain(text, snapshot, services)
    return ErrorAnswer(error=detail, parsed=parsed)


def _word_index(snapshot: Snapshot) -> WordIndex:
    return snapshot.gallery.planner.words.index


def _examples(snapshot: Snapshot) -> list[Example]:
    return examples_of(snapshot.gallery)


def _complete(text: str, cursor: int, limit: int, snapshot: Snapshot) -> schemas.CompleteAnswer:
    planner = snapshot.gallery.planner
    completer = Completer(snapshot.browser, planner.words.index, tuple(planner.definitions))
    start, end, found = completer.complete(text, cursor, limit)
    return schemas.CompleteAnswer(
        start=start, end=end, completions=[_present_completion(one, snapshot) for one in found]
    )


def _present_completion(found: Completion, snapshot: Snapshot) -> schemas.CompletionOption:
    image = None if found.position is None else present_name(snapshot.browser, found.position)
    return schemas.CompletionOption(
        text=found.text,
        kind=found.kind,
        label=printable(found.label),
        images=found.images,
        id=None if image is None else image.id,
        version="" if image is None else image.version,
    )


def _present_examples(examples: list[Example], snapshot: Snapshot) -> schemas.ExamplesAnswer:
    browser = snapshot.browser
    return schemas.ExamplesAnswer(
        examples=[
            schemas.ExampleQuery(
                formula=one.formula,
                sentence=printable(one.sentence),
                hits=[present_name(browser, position_of(browser, hit.id)) for hit in one.hits],
            )
            for one in examples
        ]
    )


async def _stream(parts: Iterator[bytes], services: Services) -> AsyncIterator[bytes]:
    async with services.downloads:
        while (part := await services.pool.run_anyway(next, parts, None)) is not None:
            yield part
