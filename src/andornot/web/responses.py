"""HTTP responses: models as JSON, images with their ETags."""

import json
from typing import Any, Final, NamedTuple

from fastapi.responses import Response
from pydantic import BaseModel

from .errors import error_responses

_FOREVER: Final = "private, max-age=31536000, immutable"
_REVALIDATE: Final = "private, no-cache"


class EncodedImage(NamedTuple):
    """The bytes of an image file and their media type."""

    content: bytes
    media_type: str = "image/jpeg"


def json_response(answer: BaseModel) -> Response:
    """Return a model as JSON."""
    try:
        content = answer.model_dump_json(by_alias=True)
    except ValueError:  # pydantic stops at 255 levels; formulas, whose models have no aliases, may be nested deeper
        content = json.dumps(answer, default=dict, ensure_ascii=False, separators=(",", ":"))
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def image_responses(*types: str) -> dict[int | str, dict[str, Any]]:
    """Return how images of these media types are described in the OpenAPI schema."""
    content = {name: {"schema": {"type": "string", "format": "binary"}} for name in types}
    return {
        200: {"description": "the image", "content": content},
        304: {"description": "not modified"},
        **error_responses(404),
    }


def image_response(image: EncodedImage, tag: str, is_immutable: bool) -> Response:
    """Return an image; `is_immutable` if a changed image would have another address."""
    return Response(image.content, media_type=image.media_type, headers=_cache_headers(tag, is_immutable))


def not_modified(tag: str, is_immutable: bool) -> Response:
    """Return a 304 response."""
    return Response(status_code=304, headers=_cache_headers(tag, is_immutable))


def matches(tag: str, if_none_match: str) -> bool:
    """Return whether an ETag is listed in an `If-None-Match` header."""
    return tag in (one.strip().removeprefix("W/") for one in if_none_match.split(","))


def _cache_headers(tag: str, is_immutable: bool) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": _FOREVER if is_immutable else _REVALIDATE}
