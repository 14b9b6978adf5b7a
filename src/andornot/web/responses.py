"""How answers are sent: JSON of models, pictures with their ETags."""

from typing import Any, Final

from fastapi.responses import Response
from pydantic import BaseModel

from .problems import failures
from .thumbnails import Shown

_FOR_EVER: Final = "private, max-age=31536000, immutable"
_ASK_AGAIN: Final = "private, no-cache"


def as_json(answer: BaseModel) -> Response:
    """An answer as JSON."""
    content = answer.model_dump_json(by_alias=True)
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def pictures(*types: str) -> dict[int | str, dict[str, Any]]:
    """How pictures are answered, for the OpenAPI schema."""
    content = {name: {"schema": {"type": "string", "format": "binary"}} for name in types}
    return {
        200: {"description": "the picture", "content": content},
        304: {"description": "the picture that the asker has already"},
        **failures(404),
    }


def is_among(tag: str, given: str) -> bool:
    """Whether a tag is among those that the asker has, as `If-None-Match` lists them."""
    return tag in (one.strip().removeprefix("W/") for one in given.split(","))


def unchanged(tag: str, lasts: bool) -> Response:
    """Tells the asker to use what it has."""
    return Response(status_code=304, headers=_headers(tag, lasts))


def as_picture(shown: Shown, tag: str, lasts: bool) -> Response:
    """A picture; what `lasts`, because another one would have another address, may be kept for ever."""
    return Response(shown.content, media_type=shown.media_type, headers=_headers(tag, lasts))


def _headers(tag: str, lasts: bool) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": _FOR_EVER if lasts else _ASK_AGAIN}
