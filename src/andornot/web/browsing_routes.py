"""The API for looking around: the gallery, its pictures, its features."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..gallery.records import Picture
from . import schemas
from .follower import Served
from .parameters import FeatureNumber, Id, Limit, Listed, Offset, Top, Version
from .presenters import (
    record,
    tell_broken,
    tell_definitions,
    tell_feature,
    tell_features,
    tell_folders,
    tell_gallery,
    tell_picture,
    tell_pictures,
)
from .problems import failures
from .responses import as_json, as_picture, is_among, pictures, unchanged
from .services import Owner, Services, ServicesDep
from .thumbnails import Shown, is_as_indexed, show, tag_of, version_of

router: Final = APIRouter()


@router.get("/gallery", response_model=schemas.GalleryAnswer)
async def get_gallery(services: ServicesDep) -> Response:
    """The gallery as a whole."""
    return as_json(await services.pool.run(tell_gallery, services.follower.current().browser, services.follower.name))


@router.get("/pictures", response_model=schemas.PicturesAnswer)
async def get_pictures(services: ServicesDep, listed: Annotated[Listed, Query()]) -> Response:
    """A part of the gallery, in some order."""
    browser, part = services.follower.current().browser, (listed.order, listed.offset, listed.limit)
    return as_json(await services.pool.run(tell_pictures, browser, listed.options.where, *part))


@router.get("/pictures/{id}", response_model=schemas.PictureAnswer, responses=failures(404))
async def get_picture(services: ServicesDep, owner: Owner, id: Id) -> Response:  # noqa: A002
    """One picture, and the features that it has most of."""
    gallery, browser = services.follower.current()
    return as_json(await services.pool.run(tell_picture, gallery, browser, id, owner))


@router.get("/pictures/{id}/thumbnail", response_class=Response, responses=pictures("image/jpeg"))
async def get_thumbnail(services: ServicesDep, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """The picture as a JPEG with no side longer than 256 pixels."""
    return await _send(services, request, id, v, services.thumbnails.get)


@router.get(
    "/pictures/{id}/picture",
    response_class=Response,
    responses=pictures("image/jpeg", "image/png", "image/gif", "image/webp"),
)
async def get_picture_itself(services: ServicesDep, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """The picture itself: its file where browsers can show it, else a JPEG."""
    return await _send(services, request, id, v, show)


@router.get("/folders", response_model=schemas.FolderAnswer)
async def get_folders(services: ServicesDep) -> Response:
    """The folders of the gallery, with the number of pictures in each."""
    return as_json(await services.states.get(_folders, services.follower.current()))


@router.get("/definitions", response_model=schemas.DefinitionsAnswer)
async def get_definitions(services: ServicesDep) -> Response:
    """The names that were given to formulas."""
    return as_json(await services.states.get(_definitions, services.follower.current()))


@router.get("/broken", response_model=schemas.BrokenAnswer)
async def get_broken(services: ServicesDep, owner: Owner, offset: Offset = 0, limit: Limit = 100) -> Response:
    """The files that could not be read as pictures."""
    gallery = services.follower.current().gallery
    return as_json(await services.pool.run(tell_broken, gallery, offset, limit, owner))


@router.get("/features", response_model=schemas.FeaturesAnswer)
async def get_features(
    services: ServicesDep, order: Literal["spread", "mean"] = "spread", offset: Offset = 0, limit: Limit = 60
) -> Response:
    """The features, those that differ most between pictures (or that pictures have most of) first."""
    return as_json(await services.pool.run(tell_features, services.follower.current().browser, order, offset, limit))


@router.get("/features/{n}", response_model=schemas.FeatureAnswer, responses=failures(404))
async def get_feature(services: ServicesDep, n: FeatureNumber, top: Top = 60) -> Response:
    """One feature: how its degrees are distributed, and the pictures that show it most."""
    return as_json(await services.pool.run(tell_feature, services.follower.current().browser, n, top))


def _folders(served: Served) -> schemas.FolderAnswer:
    return tell_folders(served.browser.folders.root)


def _definitions(served: Served) -> schemas.DefinitionsAnswer:
    return tell_definitions(served.gallery)


async def _send(
    services: Services, request: Request, identity: int, version: str, make: Callable[[Picture], Shown]
) -> Response:
    """A picture, unless the asker has it already."""
    picture, given = record(services.follower.current().browser, identity), request.headers.get("if-none-match", "")

    def make_if_needed() -> tuple[str, bool, Shown | None]:
        tag = tag_of(picture)
        lasts = version == version_of(picture.digest) and is_as_indexed(picture)
        return tag, lasts, None if is_among(tag, given) else make(picture)

    tag, lasts, shown = await services.pool.run(make_if_needed)
    return unchanged(tag, lasts) if shown is None else as_picture(shown, tag, lasts)
