"""The API for searching: formulas, hits, two pictures side by side, and hits to keep."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from ..gallery import SearchOptions
from . import answers
from .comparing import compare
from .downloads import as_csv, as_zip
from .formulas import explain, read
from .live import Served
from .parameters import Downloaded, FormulaText, Id, PictureText, Searched, Top
from .problems import BusyError, failures
from .sending import as_json
from .services import Here, Owner, Services
from .telling import find

router: Final = APIRouter()

_FILES: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get("/formula", response_model=answers.FormulaAnswer)
async def get_formula(here: Here, formula: FormulaText) -> Response:
    """What a formula says: its names and its tree."""
    return as_json(await here.lane.run(_explain, formula, here.live.current(), here))


@router.get("/search", response_model=answers.SearchAnswer)
async def search(here: Here, owner: Owner, searched: Annotated[Searched, Query()]) -> Response:
    """The pictures nearest to a formula."""
    found = await here.searches.ask(searched.formula, searched.options)
    return as_json(found.told(owner))


@router.get("/pictures/{id}/similar", response_model=answers.SearchAnswer, responses=failures(404))
async def get_similar(here: Here, owner: Owner, id: Id, top: Top = 24) -> Response:  # noqa: A002
    """The pictures nearest to a picture."""
    find(here.live.current().browser, id)
    found = await here.searches.ask(str(id), SearchOptions(top))
    return as_json(found.told(owner))


@router.get("/compare", response_model=answers.CompareAnswer, responses=failures(404))
async def get_comparison(
    here: Here, a: PictureText, b: PictureText, features: Annotated[int, Query(ge=1, le=256)] = 32
) -> Response:
    """Two pictures, and their OR, AND, NOT and difference, in the features with the most to see."""
    return as_json(await here.lane.run(compare, a, b, features, here.live.current(), here.uploads))


@router.get(
    "/download",
    response_class=Response,
    responses={200: {"description": "the hits", "content": {"application/zip": _FILES, "text/csv": _FILES}}},
)
async def download(here: Here, owner: Owner, downloaded: Annotated[Downloaded, Query()]) -> Response:
    """The hits of a search as a list, or as a zip of the pictures."""
    found = await here.searches.ask(downloaded.formula, downloaded.options)
    headers = {"Content-Disposition": f'attachment; filename="hits.{downloaded.format}"'}
    if downloaded.format == "csv":
        return Response(as_csv(found.hits, owner), media_type="text/csv", headers=headers)
    if here.downloads.locked():
        raise BusyError
    return StreamingResponse(_streamed(as_zip(found.hits), here), media_type="application/zip", headers=headers)


def _explain(text: str, served: Served, here: Services) -> answers.FormulaAnswer:
    formula = read(text)
    return explain(served.gallery.resolve(formula, here.uploads.known(formula.names)), served.browser)


async def _streamed(parts: Iterator[bytes], here: Services) -> AsyncIterator[bytes]:
    async with here.downloads:
        while (part := await here.lane.run_anyway(next, parts, None)) is not None:
            yield part
