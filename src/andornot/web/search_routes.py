"""API routes for searching: hits, downloads, comparisons, suggestions, and uploads to search with."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.requests import ClientDisconnect

from ..errors import printable
from ..gallery import SearchOptions
from ..gallery.names import BoundFormula
from ..gallery.words import WordIndex
from ..logic import FormulaError
from ..logic.atoms import write_name
from . import schemas
from .downloads import as_csv, as_zip
from .errors import BusyError, RequestError, error_responses, formula_error_detail
from .formula_schemas import ErrorAnswer, FormulaAnswer
from .formulas import MAX_CHARACTERS, check_crops, check_names, compare, correct, present_formula
from .parameters import (
    DownloadParameters,
    FileName,
    FormulaText,
    Id,
    ImageText,
    LenientSearchParameters,
    Limit,
    Top,
    UploadName,
)
from .presenters import position_of, present_name
from .responses import EncodedImage, image_response, image_responses, json_response
from .services import IsLocal, Services, ServicesDep
from .snapshots import Snapshot
from .suggestions import Completer, Completion, Example, examples_of, group_of
from .uploads import MAX_BYTES, Upload, Uploads

# --- searches ---------------------------------------------------------------------------------------------------------

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
        result = await services.searches.search(searched.formula, searched.options, searched.offset)
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
    hits = [hit for hit in result.hits if downloaded.weak or not hit.is_weak]
    headers = {"Content-Disposition": f'attachment; filename="hits.{downloaded.format}"'}
    if downloaded.format == "csv":
        return Response(as_csv(hits, is_local), media_type="text/csv", headers=headers)
    if services.downloads.locked():
        raise BusyError
    return StreamingResponse(_stream(as_zip(hits), services), media_type="application/zip", headers=headers)


@router.get("/words", response_model=schemas.WordsAnswer)
async def get_words(services: ServicesDep, limit: Limit = 200) -> Response:
    """Return the most distinctive words of the gallery."""
    snapshot = services.follower.current()
    index = await services.cache.get(_word_index, snapshot)
    return json_response(
        schemas.WordsAnswer(
            words=[
                schemas.WordShare(
                    word=word,
                    term=write_name(word),
                    group=group_of(word),
                    images=count,
                    share=count / len(snapshot.browser),
                )
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
    check_names(text)
    resolved = snapshot.gallery.resolve(text, services.uploads.known_in(text))
    check_crops(resolved)
    return resolved


def _explain_error(error: FormulaError, text: str, services: Services) -> ErrorAnswer:
    """Return an error with its corrections, and the parsed formula if it can be parsed but not searched."""
    snapshot = services.follower.current()

    def check(formula: str) -> FormulaError | None:
        try:
            _resolve(formula, snapshot, services)
        except FormulaError as wrong:
            return wrong
        return None

    detail = formula_error_detail(error)
    understood = snapshot.gallery.planner.names.read(text, services.uploads.known_in(text)).formula
    detail.understood = understood if understood != text else None
    detail.corrections = correct(error, check) if error.text == understood else []
    parsed = None if check(text) else _explain(text, snapshot, services)
    return ErrorAnswer(error=detail, parsed=parsed)


def _word_index(snapshot: Snapshot) -> WordIndex:
    return snapshot.gallery.planner.words.index


def _examples(snapshot: Snapshot) -> list[Example]:
    return examples_of(snapshot.gallery)


def _complete(text: str, cursor: int, limit: int, snapshot: Snapshot) -> schemas.CompleteAnswer:
    planner = snapshot.gallery.planner
    completer = Completer(snapshot.browser, planner.words.index, tuple(planner.table.definitions))
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


# --- uploads ----------------------------------------------------------------------------------------------------------

# An upload may take this many seconds, and one more for each MIN_BYTES_PER_SECOND received: a stalled upload is soon
# aborted, a slow one is not.
STALL_SECONDS: Final = 5.0
MIN_BYTES_PER_SECOND: Final = 50_000
MAX_SECONDS: Final = 120.0
# An upload that is slightly too large is received completely: if the connection were closed, the client would not get
# the error.
_MAX_RECEIVED: Final = 5 * MAX_BYTES
_TOO_LARGE: Final = f"the image has more than {MAX_BYTES:,} bytes"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post(
    "/uploads", response_model=schemas.UploadAnswer, responses=error_responses(408, 413, 415), openapi_extra=_BODY
)
async def upload(services: ServicesDep, request: Request, name: FileName = "") -> Response:
    """Upload an image for use in formulas; the body is the file."""
    if not request.headers.get("content-type", "").startswith("image/"):
        raise RequestError(415, "not-an-image", "send the bytes of an image, with a Content-Type such as image/jpeg")
    async with _place(services):
        content = await _receive(request)
        stored = await services.pool.run(_store, content, name, services.follower.current(), services.uploads)
    answer = schemas.UploadAnswer(upload=stored.name, name=stored.file_name, width=stored.width, height=stored.height)
    return json_response(answer)


@router.get("/uploads/{upload}/thumbnail", response_class=Response, responses=image_responses("image/jpeg"))
async def get_upload_thumbnail(services: ServicesDep, upload: UploadName) -> Response:
    """Return an uploaded image as a JPEG of at most 256 x 256 pixels."""
    thumbnail = EncodedImage(services.uploads.get(upload).thumbnail)
    return image_response(thumbnail, f'"{upload}"', is_immutable=True)


@router.delete("/uploads/{upload}", status_code=204, responses=error_responses(404))
async def remove_upload(services: ServicesDep, upload: UploadName) -> Response:
    """Remove an uploaded image."""
    await services.pool.run(services.uploads.remove, upload)
    return Response(status_code=204)


@asynccontextmanager
async def _place(services: Services) -> AsyncIterator[None]:
    """Acquire one of the few upload slots, or raise a BusyError; stalled uploads are aborted before this times out."""
    try:
        async with asyncio.timeout(2 * STALL_SECONDS):
            await services.receiving.acquire()
    except TimeoutError:
        raise BusyError from None
    try:
        yield
    finally:
        services.receiving.release()


def _store(content: bytes, name: str, snapshot: Snapshot, uploads: Uploads) -> Upload:
    stored = uploads.add(content, name)
    uploads.represent([stored.name], snapshot)  # encode now, so that no search waits for it
    return stored


async def _receive(request: Request) -> bytes:
    """Return the body, or raise a RequestError if it is too slow or too large, regardless of its Content-Length."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > _MAX_RECEIVED:
        raise RequestError(413, "too-large", _TOO_LARGE)
    content, size, start = bytearray(), 0, asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(start + STALL_SECONDS) as limit:
            async for part in request.stream():
                size += len(part)
                limit.reschedule(start + min(STALL_SECONDS + size / MIN_BYTES_PER_SECOND, MAX_SECONDS))
                if size <= MAX_BYTES:
                    content += part
                elif size > _MAX_RECEIVED:
                    break
    except TimeoutError:
        raise RequestError(408, "timeout", "the upload was too slow: try again") from None
    except ClientDisconnect:
        raise RequestError(400, "incomplete-upload", "the image did not arrive completely: try again") from None
    if size > MAX_BYTES:
        raise RequestError(413, "too-large", _TOO_LARGE)
    return bytes(content)
