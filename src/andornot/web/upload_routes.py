"""API routes for uploads: images outside the gallery that can be used in formulas."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from . import schemas
from .errors import BusyError, RequestError, error_responses
from .parameters import FileName, UploadName
from .responses import EncodedImage, image_response, image_responses, json_response
from .services import Services, ServicesDep
from .snapshots import Snapshot
from .uploads import MAX_BYTES, Upload, Uploads

router: Final = APIRouter()

# An upload may take this many seconds, and one more for each MIN_BYTES_PER_SECOND received: a stalled upload is soon
# aborted, a slow one is not.
STALL_SECONDS: Final = 5.0
MIN_BYTES_PER_SECOND: Final = 50_000
MAX_SECONDS: Final = 120.0
# An upload that is a little too large is received to its end: a client whose connection is closed learns no reason.
_MAX_RECEIVED: Final = 5 * MAX_BYTES
_TOO_LARGE: Final = f"the image has more than {MAX_BYTES:,} bytes"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post(
    "/uploads", response_model=schemas.UploadAnswer, responses=error_responses(408, 413, 415), openapi_extra=_BODY
)
async def upload(services: ServicesDep, request: Request, name: FileName = "") -> Response:
    """Upload an image, whose bytes are the body, for use in formulas."""
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
    """Take one of the few places for uploads, or raise a BusyError; stalled uploads free theirs in less time."""
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
    uploads.represent([stored.name], snapshot)  # now, so that no search waits for it
    return stored


async def _receive(request: Request) -> bytes:
    """Return the body, or raise a RequestError if it is too large, whatever its announced length, or too slow."""
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
