"""Errors of requests: JSON with a code for programs, or an HTML page for people. They never contain paths."""

import logging
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any, Final, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from ..data import BrokenImageError
from ..gallery import GalleryError
from ..gallery.errors import DamagedError, QueryError
from ..logic import FormulaError, FormulaErrorCode
from ..model import ModelError
from .formula_schemas import ErrorAnswer, ErrorDetail

log: Final = logging.getLogger("andornot.web")

# Error codes of requests. Programs should check these, or those of formulas; messages may change.
RequestErrorCode = Literal[
    "broken-image",  # the file of an image cannot be read
    "busy",
    "cross-site",  # a browser sends this for another site
    "damaged-gallery",
    "file-changing",  # the file of an image is being written
    "file-missing",  # the file of an image is missing
    "incomplete-upload",
    "internal-error",
    "invalid-definition",
    "invalid-filter",
    "invalid-parameter",
    "invalid-token",
    "not-allowed",
    "not-an-image",
    "not-found",
    "query-too-long",
    "refused",  # by the web framework, for instance a method that is not allowed
    "stopping",  # the server is shutting down
    "timeout",
    "too-large",
    "too-many-parameters",
    "unavailable",  # the gallery or the disk cannot be used at the moment
    "unsupported-query",  # this gallery or score cannot answer the query
    "wrong-host",
]

_MESSAGES: Final[dict[str, str]] = {
    "damaged-gallery": "the gallery is damaged: run andornot index --repair; see the server's log for details",
    "unavailable": "the gallery or the disk cannot be used at the moment: try again, or see the server's log",
    "internal-error": "internal error: see the server's log",
}
_DESCRIPTIONS: Final = {
    400: "a parameter or a formula is wrong",
    401: "the token is missing or wrong",
    403: "a request from another site, or for another host",
    404: "not found",
    408: "the upload was too slow",
    413: "too large",
    414: "the query is too long",
    415: "not an image",
    500: "the gallery is damaged, or an internal error",
    503: "busy, or the gallery cannot be read: try again",
    504: "the search takes too long",
}
_HEADERS: Final = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},  # otherwise the rest of the upload would still be received
    503: {"Retry-After": "1"},
}
_TITLES: Final = {401: "Token required", 403: "Wrong address", 404: "Page not found"}
_HINTS: Final = {401: "Open the whole address that andornot serve printed, with ?token=… at its end."}


class RequestError(Exception):
    """Raised for a request that cannot be answered."""

    def __init__(self, status: int, code: RequestErrorCode | FormulaErrorCode, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class BusyError(RequestError):
    """Raised when too many requests are waiting."""

    def __init__(self) -> None:
        super().__init__(503, "busy", "too many requests are waiting: try again in a second")


class StoppingError(RequestError):
    """Raised when the server is shutting down."""

    def __init__(self) -> None:
        super().__init__(503, "stopping", "the server is shutting down")


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of these statuses."""
    return {status: {"model": ErrorAnswer, "description": _DESCRIPTIONS[status]} for status in statuses}


def error_response(error: RequestError) -> JSONResponse:
    """Return the JSON response for an error."""
    return _json(error.status, ErrorDetail(code=error.code, message=error.message))


def formula_error_detail(error: FormulaError) -> ErrorDetail:
    """Return the API's description of an error in a formula."""
    return ErrorDetail(
        code=error.code, message=error.message, span=list(error.span), suggestions=list(error.suggestions)
    )


def error_response_for(scope: Scope, error: RequestError) -> Response:
    """Return an HTML page if the address was opened in a browser, else the JSON response."""
    wants_page = not scope["path"].startswith("/api/") and "text/html" in Headers(scope=scope).get("accept", "")
    return _error_page(error) if wants_page else error_response(error)


def server_error(error: Exception) -> RequestError:
    """Return the public error for an internal one, whose message may contain paths."""
    match error:
        case DamagedError():
            return RequestError(500, "damaged-gallery", _MESSAGES["damaged-gallery"])
        case GalleryError() | ModelError() | OSError():
            return RequestError(503, "unavailable", _MESSAGES["unavailable"])
    return RequestError(500, "internal-error", _MESSAGES["internal-error"])


def install_error_handlers(app: FastAPI) -> None:
    """Make the app return all errors in this format."""

    @app.exception_handler(RequestError)
    async def request_error(_: Request, error: RequestError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(FormulaError)
    async def formula_error(_: Request, error: FormulaError) -> JSONResponse:
        return _json(400, formula_error_detail(error))

    @app.exception_handler(BrokenImageError)
    async def broken_image(_: Request, error: BrokenImageError) -> JSONResponse:
        return error_response(RequestError(404, "broken-image", f"the image cannot be read: {error.reason}"))

    @app.exception_handler(QueryError)
    async def query_error(_: Request, error: QueryError) -> JSONResponse:
        return error_response(RequestError(400, "unsupported-query", str(error)))

    @app.exception_handler(RequestValidationError)
    async def invalid_parameter(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return error_response(RequestError(400, "invalid-parameter", f"{first['loc'][-1]}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def http_exception(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            refusal = RequestError(404, "not-found", "there is nothing at this address")
        else:
            refusal = RequestError(error.status_code, "refused", str(error.detail))
        response = error_response_for(request.scope, refusal)
        response.headers.update(error.headers or {})
        return response

    async def other_error(_: Request, error: Exception) -> JSONResponse:
        log.error("%s", error)
        return error_response(server_error(error))

    for kind in (GalleryError, ModelError, OSError):
        app.add_exception_handler(kind, other_error)
    app.add_exception_handler(Exception, other_error)  # uvicorn logs the traceback


def _json(status: int, detail: ErrorDetail) -> JSONResponse:
    content = ErrorAnswer(error=detail).model_dump(exclude_none=True)
    return JSONResponse(content, status, _HEADERS.get(status))


def _error_page(error: RequestError) -> HTMLResponse:
    """Return an error as a self-contained page, because no file is served without the token."""
    environment, style = _templates()
    page = environment.get_template("error.html").render(
        title=_TITLES.get(error.status, "Something went wrong"),
        message=error.message[:1].upper() + error.message[1:],
        hint=_HINTS.get(error.status, ""),
        style=Markup(style),
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, **_HEADERS.get(error.status, {})}
    return HTMLResponse(page, error.status, headers)


@cache
def _templates() -> tuple[Environment, str]:
    loader = PackageLoader(__package__)
    environment = Environment(loader=loader, autoescape=True)
    return environment, loader.get_source(environment, "error.css")[0]
