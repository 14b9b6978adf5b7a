"""The API for searching: formulas, hits, two pictures side by side, and hits to keep."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from ..gallery import SearchOptions
from ..logic import FormulaError
from . import schemas
from .comparing import compare
from .downloads import as_csv, as_zip
from .follower import Served
from .formulas import explain, read
from .parameters import Downloaded, FormulaText, Id, PictureText, Searched, Top
from .presenters import find
from .problems import BusyError, failure_of, failures
from .responses import as_json
from .services import Owner, Services, ServicesDep

router: Final = APIRouter()

_FILES: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get("/formula", response_model=schemas.FormulaAnswer | schemas.Failure)
async def get_formula(
    services: ServicesDep,
    formula: FormulaText,
    unfinished: Annotated[bool, Query(description="while one types: a mistake is told, and the status is 200")] = False,
) -> Response:
    """What a formula says: its names and its tree."""
    try:
        return as_json(await services.pool.run(_explain, formula, services.follower.current(), services))
    except FormulaError as error:
        if not unfinished:
            raise
        return as_json(failure_of(error))


@router.get("/search", response_model=schemas.SearchAnswer)
async def search(services: ServicesDep, owner: Owner, searched: Annotated[Searched, Query()]) -> Response:
    """The pictures nearest to a formula."""
    found = await services.searches.ask(searched.formula, searched.options)
    return as_json(found.told(owner))


@router.get("/pictures/{id}/similar", response_model=schemas.SearchAnswer, responses=failures(404))
async def get_similar(services: ServicesDep, owner: Owner, id: Id, top: Top = 24) -> Response:  # noqa: A002
    """The pictures nearest to a picture."""
    find(services.follower.current().browser, id)
    found = await services.searches.ask(str(id), SearchOptions(top))
    return as_json(found.told(owner))


@router.get("/compare", response_model=schemas.CompareAnswer, responses=failures(404))
async def get_comparison(
    services: ServicesDep, a: PictureText, b: PictureText, features: Annotated[int, Query(ge=1, le=256)] = 32
) -> Response:
    """Two pictures, and their OR, AND, NOT and difference, in the features with the most to see."""
    return as_json(await services.pool.run(compare, a, b, features, services.follower.current(), services.uploads))


@router.get(
    "/download",
    response_class=Response,
    responses={200: {"description": "the hits", "content": {"application/zip": _FILES, "text/csv": _FILES}}},
)
async def download(services: ServicesDep, owner: Owner, downloaded: Annotated[Downloaded, Query()]) -> Response:
    """The hits of a search as a list, or as a zip of the pictures."""
    found = await services.searches.ask(downloaded.formula, downloaded.options)
    headers = {"Content-Disposition": f'attachment; filename="hits.{downloaded.format}"'}
    if downloaded.format == "csv":
        return Response(as_csv(found.hits, owner), media_type="text/csv", headers=headers)
    if services.downloads.locked():
        raise BusyError
    return StreamingResponse(_streamed(as_zip(found.hits), services), media_type="application/zip", headers=headers)


def _explain(text: str, served: Served, services: Services) -> schemas.FormulaAnswer:
    formula = read(text)
    resolved = served.gallery.resolve(formula, services.uploads.known(formula.names))
    return explain(services.uploads.located(resolved), served.browser, services.uploads.file_names)


async def _streamed(parts: Iterator[bytes], services: Services) -> AsyncIterator[bytes]:
    async with services.downloads:
        while (part := await services.pool.run_anyway(next, parts, None)) is not None:
            yield part
