"""The API for looking around: the gallery, its pictures, its features."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..gallery.database import Picture
from . import answers
from .parameters import FeatureNumber, Id, Limit, Listed, Offset, Top, Version
from .problems import failures
from .sending import as_json, as_picture, is_among, pictures, unchanged
from .services import Here, Owner, Services
from .telling import record, tell_feature, tell_features, tell_gallery, tell_picture, tell_pictures
from .thumbnails import Shown, is_as_indexed, show, tag_of, version_of

router: Final = APIRouter()


@router.get("/gallery", response_model=answers.GalleryAnswer)
async def get_gallery(here: Here) -> Response:
    """The gallery as a whole."""
    return as_json(await here.lane.run(tell_gallery, here.live.current().browser, here.live.name))


@router.get("/pictures", response_model=answers.PicturesAnswer)
async def get_pictures(here: Here, listed: Annotated[Listed, Query()]) -> Response:
    """A part of the gallery, in some order."""
    browser, part = here.live.current().browser, (listed.order, listed.offset, listed.limit)
    return as_json(await here.lane.run(tell_pictures, browser, listed.options.where, *part))


@router.get("/pictures/{id}", response_model=answers.PictureAnswer, responses=failures(404))
async def get_picture(here: Here, owner: Owner, id: Id) -> Response:  # noqa: A002
    """One picture, and the features that it has most of."""
    return as_json(await here.lane.run(tell_picture, here.live.current().browser, id, owner))


@router.get("/pictures/{id}/thumbnail", response_class=Response, responses=pictures("image/jpeg"))
async def get_thumbnail(here: Here, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """The picture as a JPEG with no side longer than 256 pixels."""
    return await _send(here, request, id, v, here.thumbnails.get)


@router.get(
    "/pictures/{id}/picture",
    response_class=Response,
    responses=pictures("image/jpeg", "image/png", "image/gif", "image/webp"),
)
async def get_picture_itself(here: Here, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """The picture itself: its file where browsers can show it, else a JPEG."""
    return await _send(here, request, id, v, show)


@router.get("/features", response_model=answers.FeaturesAnswer)
async def get_features(
    here: Here, order: Literal["spread", "mean"] = "spread", offset: Offset = 0, limit: Limit = 60
) -> Response:
    """The features, those that differ most between pictures (or that pictures have most of) first."""
    return as_json(await here.lane.run(tell_features, here.live.current().browser, order, offset, limit))


@router.get("/features/{n}", response_model=answers.FeatureAnswer, responses=failures(404))
async def get_feature(here: Here, n: FeatureNumber, top: Top = 60) -> Response:
    """One feature: how its degrees are distributed, and the pictures that show it most."""
    return as_json(await here.lane.run(tell_feature, here.live.current().browser, n, top))


async def _send(
    here: Services, request: Request, identity: int, version: str, make: Callable[[Picture], Shown]
) -> Response:
    """A picture, unless the asker has it already."""
    picture, given = record(here.live.current().browser, identity), request.headers.get("if-none-match", "")

    def make_if_needed() -> tuple[str, bool, Shown | None]:
        tag = tag_of(picture)
        lasts = version == version_of(picture.digest) and is_as_indexed(picture)
        return tag, lasts, None if is_among(tag, given) else make(picture)

    tag, lasts, shown = await here.lane.run(make_if_needed)
    return unchanged(tag, lasts) if shown is None else as_picture(shown, tag, lasts)
