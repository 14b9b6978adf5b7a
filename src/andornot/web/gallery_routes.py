"""API routes for browsing: the gallery, its images, folders, definitions and features."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..gallery import Gallery, GalleryError
from ..gallery.errors import LockedError
from ..gallery.near_duplicates import DuplicateImage
from ..gallery.records import ImageRecord
from . import schemas
from .downloads import duplicates_as_csv
from .errors import RequestError, error_responses, server_error
from .parameters import DefinitionName, FeatureNumber, FilterParameters, Id, Limit, ListParameters, Offset, Top, Version
from .presenters import (
    image_record,
    present_broken,
    present_definitions,
    present_duplicates,
    present_feature,
    present_features,
    present_folders,
    present_gallery,
    present_image,
    present_images,
    present_timeline,
)
from .responses import (
    EncodedImage,
    digest_tag,
    encode_for_browser,
    etag,
    image_response,
    image_responses,
    json_response,
    matches,
    not_modified,
    version_of,
)
from .services import IsLocal, Services, ServicesDep
from .snapshots import Snapshot

router: Final = APIRouter()

_TRIES: Final = 3


@router.get("/gallery", response_model=schemas.GalleryAnswer)
async def get_gallery(services: ServicesDep, is_local: IsLocal) -> Response:
    """Return facts about the gallery."""
    browser, name = services.follower.current().browser, services.follower.name
    return json_response(await services.pool.run(present_gallery, browser, name, is_local))


@router.get("/images", response_model=schemas.ImagesAnswer)
async def get_images(services: ServicesDep, listed: Annotated[ListParameters, Query()]) -> Response:
    """List images, filtered and sorted."""
    browser, part = services.follower.current().browser, (listed.order, listed.offset, listed.limit)
    return json_response(await services.pool.run(present_images, browser, listed.options.filter, *part))


@router.get("/timeline", response_model=schemas.TimelineAnswer)
async def get_timeline(services: ServicesDep, filtered: Annotated[FilterParameters, Query()]) -> Response:
    """Return the number of images of each month, newest first."""
    browser = services.follower.current().browser
    return json_response(await services.pool.run(present_timeline, browser, filtered.options.filter))


@router.get("/images/{id}", response_model=schemas.ImageAnswer, responses=error_responses(404))
async def get_image(services: ServicesDep, is_local: IsLocal, id: Id) -> Response:  # noqa: A002
    """Return one image, with its strongest features and its tags."""
    gallery, browser = services.follower.current()
    return json_response(await services.pool.run(present_image, gallery, browser, id, is_local))


@router.get("/images/{id}/thumbnail", response_class=Response, responses=image_responses("image/jpeg"))
async def get_thumbnail(services: ServicesDep, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """Return the image as a JPEG of at most 256 x 256 pixels."""
    return await _send(services, request, id, v, services.thumbnails.get)


@router.get(
    "/images/{id}/image",
    response_class=Response,
    responses=image_responses("image/jpeg", "image/png", "image/gif", "image/webp"),
)
async def get_image_file(services: ServicesDep, request: Request, id: Id, v: Version = "") -> Response:  # noqa: A002
    """Return the image: its file if browsers can show that, else a JPEG."""
    return await _send(services, request, id, v, encode_for_browser)


@router.get("/folders", response_model=schemas.FolderAnswer)
async def get_folders(services: ServicesDep) -> Response:
    """Return the tree of folders, with the number of images in each."""
    return json_response(await services.cache.get(_folders, services.follower.current()))


@router.get("/definitions", response_model=schemas.DefinitionsAnswer)
async def get_definitions(services: ServicesDep) -> Response:
    """Return the defined names."""
    return json_response(await services.cache.get(_definitions, services.follower.current()))


@router.post("/definitions", response_model=schemas.DefinitionsAnswer)
async def define(services: ServicesDep, is_local: IsLocal, definition: schemas.DefinitionRequest) -> Response:
    """Define a name for a formula, or rename it, and return all names; local requests only."""

    def write(gallery: Gallery) -> None:
        if definition.replaces:
            gallery.rename_definition(definition.replaces, definition.name)
        else:
            gallery.define(definition.name, definition.formula)

    return await _change_definitions(services, is_local, write)


@router.delete("/definitions/{name}", response_model=schemas.DefinitionsAnswer)
async def undefine(services: ServicesDep, is_local: IsLocal, name: DefinitionName) -> Response:
    """Remove a definition that is not used by another one, and return the others; local requests only."""
    return await _change_definitions(services, is_local, lambda gallery: gallery.undefine(name))


@router.get("/duplicates", response_model=schemas.DuplicatesAnswer)
async def get_duplicates(
    services: ServicesDep, is_local: IsLocal, offset: Offset = 0, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """Return groups of copies and near duplicates, largest first."""
    snapshot = services.follower.current()
    groups = await services.cache.get(_duplicates, snapshot)
    return json_response(await services.pool.run(present_duplicates, snapshot.browser, groups, offset, limit, is_local))


@router.get(
    "/duplicates/list",
    response_class=Response,
    responses={200: {"description": "the list", "content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def get_duplicates_list(services: ServicesDep, is_local: IsLocal) -> Response:
    """Return all groups of duplicates as a CSV file."""
    snapshot = services.follower.current()
    groups = await services.cache.get(_duplicates, snapshot)
    headers = {"Content-Disposition": 'attachment; filename="duplicates.csv"'}
    return Response(duplicates_as_csv(groups, is_local), media_type="text/csv", headers=headers)


@router.get("/broken", response_model=schemas.BrokenAnswer)
async def get_broken(services: ServicesDep, is_local: IsLocal, offset: Offset = 0, limit: Limit = 100) -> Response:
    """List the files that could not be read as images."""
    gallery = services.follower.current().gallery
    return json_response(await services.pool.run(present_broken, gallery, offset, limit, is_local))


@router.get("/features", response_model=schemas.FeaturesAnswer)
async def get_features(
    services: ServicesDep, order: Literal["spread", "mean"] = "spread", offset: Offset = 0, limit: Limit = 60
) -> Response:
    """List the features, by standard deviation or by mean of their degrees."""
    browser = services.follower.current().browser
    return json_response(await services.pool.run(present_features, browser, order, offset, limit))


@router.get("/features/{n}", response_model=schemas.FeatureAnswer, responses=error_responses(404))
async def get_feature(services: ServicesDep, n: FeatureNumber, top: Top = 60) -> Response:
    """Return one feature: the histogram of its degrees, and the images with the highest."""
    return json_response(await services.pool.run(present_feature, services.follower.current().browser, n, top))


def _folders(snapshot: Snapshot) -> schemas.FolderAnswer:
    return present_folders(snapshot.browser.folders)


def _definitions(snapshot: Snapshot) -> schemas.DefinitionsAnswer:
    return present_definitions(snapshot.gallery, snapshot.browser)


async def _change_definitions(services: Services, is_local: bool, change: Callable[[Gallery], None]) -> Response:
    if not is_local:
        raise RequestError(403, "not-allowed", "only the machine that serves the gallery may define names")

    def write() -> None:
        try:
            change(services.follower.current().gallery.reopen())
        except LockedError as error:
            raise server_error(error) from None
        except GalleryError as error:
            raise RequestError(400, "invalid-definition", str(error)) from None
        services.follower.poll()

    await services.pool.run(write)
    return await get_definitions(services)


def _duplicates(snapshot: Snapshot) -> list[list[DuplicateImage]]:
    return snapshot.gallery.duplicates()


async def _send(
    services: Services, request: Request, identity: int, version: str, encode: Callable[[ImageRecord], EncodedImage]
) -> Response:
    """Return an image, or 304 if the client has it."""
    image = image_record(services.follower.current().browser, identity)
    if_none_match = request.headers.get("if-none-match", "")

    def respond() -> Response:
        for _ in range(_TRIES):
            tag = etag(image)
            is_immutable = version == version_of(image.digest) and tag == digest_tag(image)
            if matches(tag, if_none_match):
                return not_modified(tag, is_immutable)
            encoded = encode(image)
            if etag(image) == tag:  # otherwise a browser might cache another image under this tag
                return image_response(encoded, tag, is_immutable)
        raise RequestError(503, "file-changing", "the file of this image is being changed: try again in a second")

    return await services.pool.run(respond)
