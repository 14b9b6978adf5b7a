"""The API for pictures that are not in the gallery: they can be named in formulas, as long as they are used."""

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from . import answers
from .live import Served
from .parameters import UploadName
from .problems import BusyError, RequestError, failures
from .sending import as_json, as_picture, pictures
from .services import Here
from .thumbnails import Shown
from .uploads import MAX_BYTES, Upload, Uploads

router: Final = APIRouter()

_SECONDS: Final = 120.0
# Who sends a little too much hears so; a connection that is cut off while sending would not tell why.
_LISTENED_TO: Final = 5 * MAX_BYTES
_TOO_LARGE: Final = f"the picture has more than {MAX_BYTES:,} bytes"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post("/uploads", response_model=answers.UploadAnswer, responses=failures(413, 415), openapi_extra=_BODY)
async def upload(here: Here, request: Request) -> Response:
    """Keeps a picture, whose bytes are the body, for the use in formulas."""
    if not request.headers.get("content-type", "").startswith("image/"):
        raise RequestError(415, "send the bytes of a picture, with a Content-Type such as image/jpeg")
    if here.receiving.locked():
        raise BusyError
    async with here.receiving:
        content = await _received(request)
        kept = await here.lane.run(_keep, content, here.live.current(), here.uploads)
    return as_json(answers.UploadAnswer(upload=kept.name, name=kept.name, width=kept.width, height=kept.height))


@router.get("/uploads/{upload}/thumbnail", response_class=Response, responses=pictures("image/jpeg"))
async def get_upload_thumbnail(here: Here, upload: UploadName) -> Response:
    """An uploaded picture as a JPEG with no side longer than 256 pixels."""
    return as_picture(Shown(here.uploads.get(upload).thumbnail), f'"{upload}"', "")


@router.delete("/uploads/{upload}", status_code=204, responses=failures(404))
async def remove_upload(here: Here, upload: UploadName) -> Response:
    """Forgets an uploaded picture."""
    await here.lane.run(here.uploads.remove, upload)
    return Response(status_code=204)


def _keep(content: bytes, served: Served, uploads: Uploads) -> Upload:
    kept = uploads.add(content)
    uploads.represent([kept.name], served)  # now, so that no search waits for it
    return kept


async def _received(request: Request) -> bytes:
    """The body, as long as it is not too large, whatever its announced length."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > _LISTENED_TO:
        raise RequestError(413, _TOO_LARGE)
    content, size = bytearray(), 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size <= MAX_BYTES:
                    content += part
                elif size > _LISTENED_TO:
                    break
    except TimeoutError:
        raise RequestError(400, f"the picture did not arrive within {_SECONDS:.0f} seconds") from None
    except ClientDisconnect:
        raise RequestError(400, "the picture did not arrive as a whole") from None
    if size > MAX_BYTES:
        raise RequestError(413, _TOO_LARGE)
    return bytes(content)
