"""The API for pictures that are not in the gallery: they can be named in formulas, as long as they are used."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from . import schemas
from .follower import Served
from .parameters import FileName, UploadName
from .problems import BusyError, RequestError, failures
from .responses import as_json, as_picture, pictures
from .services import Services, ServicesDep
from .thumbnails import Shown
from .uploads import MAX_BYTES, Upload, Uploads

router: Final = APIRouter()

# A picture may take so many seconds, and one more for each so many bytes that have come: who sends nothing is soon
# cut off, and who sends slowly is not.
PATIENCE: Final = 5.0
SLOWEST: Final = 50_000
MAX_SECONDS: Final = 120.0
# Who sends a little too much hears so; a connection that is cut off while sending would not tell why.
_LISTENED_TO: Final = 5 * MAX_BYTES
_TOO_LARGE: Final = f"the picture has more than {MAX_BYTES:,} bytes"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post("/uploads", response_model=schemas.UploadAnswer, responses=failures(408, 413, 415), openapi_extra=_BODY)
async def upload(services: ServicesDep, request: Request, name: FileName = "") -> Response:
    """Keeps a picture, whose bytes are the body, for the use in formulas."""
    if not request.headers.get("content-type", "").startswith("image/"):
        raise RequestError(415, "send the bytes of a picture, with a Content-Type such as image/jpeg")
    async with _place(services):
        content = await _received(request)
        kept = await services.pool.run(_keep, content, name, services.follower.current(), services.uploads)
    return as_json(schemas.UploadAnswer(upload=kept.name, name=kept.file_name, width=kept.width, height=kept.height))


@router.get("/uploads/{upload}/thumbnail", response_class=Response, responses=pictures("image/jpeg"))
async def get_upload_thumbnail(services: ServicesDep, upload: UploadName) -> Response:
    """An uploaded picture as a JPEG with no side longer than 256 pixels."""
    return as_picture(Shown(services.uploads.get(upload).thumbnail), f'"{upload}"', lasts=True)


@router.delete("/uploads/{upload}", status_code=204, responses=failures(404))
async def remove_upload(services: ServicesDep, upload: UploadName) -> Response:
    """Forgets an uploaded picture."""
    await services.pool.run(services.uploads.remove, upload)
    return Response(status_code=204)


@asynccontextmanager
async def _place(services: Services) -> AsyncIterator[None]:
    """One of the few places for who sends a picture; by the time that is waited for it, who stalls has lost his."""
    try:
        async with asyncio.timeout(2 * PATIENCE):
            await services.receiving.acquire()
    except TimeoutError:
        raise BusyError from None
    try:
        yield
    finally:
        services.receiving.release()


def _keep(content: bytes, name: str, served: Served, uploads: Uploads) -> Upload:
    kept = uploads.add(content, name)
    uploads.represent([kept.name], served)  # now, so that no search waits for it
    return kept


async def _received(request: Request) -> bytes:
    """The body, as long as it is neither too large, whatever its announced length, nor too slow."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > _LISTENED_TO:
        raise RequestError(413, _TOO_LARGE)
    content, size, begin = bytearray(), 0, asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(begin + PATIENCE) as limit:
            async for part in request.stream():
                size += len(part)
                limit.reschedule(begin + min(PATIENCE + size / SLOWEST, MAX_SECONDS))
                if size <= MAX_BYTES:
                    content += part
                elif size > _LISTENED_TO:
                    break
    except TimeoutError:
        raise RequestError(408, "the picture came too slowly, or not at all: try again") from None
    except ClientDisconnect:
        raise RequestError(400, "the picture did not arrive as a whole") from None
    if size > MAX_BYTES:
        raise RequestError(413, _TOO_LARGE)
    return bytes(content)
