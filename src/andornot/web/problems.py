"""What can go wrong with a request, as the JSON that the page and programs get. No path of the disk is ever in it."""

import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from ..data import BrokenImageError
from ..gallery import GalleryError
from ..gallery.errors import DamagedError, QueryError
from ..logic import FormulaError
from ..model import ModelError
from .problem_page import problem_page
from .schemas import Failure, FailureDetail

log: Final = logging.getLogger("andornot.web")

_DAMAGED: Final = "the gallery is damaged: andornot index --repair mends it, and the server's log says what is wrong"
_NOT_READY: Final = "the gallery or the disk cannot be used at the moment: try again; the server's log says more"
_FAULT: Final = "a fault of the server, whose log says more"
_NO_PAGE: Final = "there is nothing at this address"
_MEANING: Final = {
    400: "a parameter or a formula that is wrong",
    401: "the token is missing or wrong",
    403: "a request from another site, or for another host",
    404: "there is no such thing",
    408: "it did not arrive in time",
    413: "too large",
    415: "not a picture",
    500: "the gallery is damaged",
    503: "busy, or the gallery cannot be read: try again",
    504: "the search takes too long",
}
_HEADERS: Final = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},  # or what is too large would still be received, to its end
    503: {"Retry-After": "1"},
}


class RequestError(Exception):
    """A request that cannot be answered: the status, and a line that says what is wrong and what would be right."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class BusyError(RequestError):
    """Too much is waiting already."""

    def __init__(self) -> None:
        super().__init__(503, "too many requests are waiting: try again in a second")


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How these statuses are answered, for the OpenAPI schema."""
    return {status: {"model": Failure, "description": _MEANING[status]} for status in statuses}


def answer(status: int, message: str, **more: Any) -> JSONResponse:
    """The answer to a request that went wrong."""
    return JSONResponse({"error": {"message": message, **more}}, status, _HEADERS.get(status))


def failure_of(error: FormulaError) -> Failure:
    """What is told of a mistake in a formula."""
    told = FailureDetail(message=error.message, position=error.position, length=error.length, nearest=[*error.nearest])
    return Failure(error=told)


def answer_for(scope: Scope, status: int, message: str) -> Response:
    """The same, as a page for who opened an address in a browser."""
    is_for_people = not scope["path"].startswith("/api/") and "text/html" in Headers(scope=scope).get("accept", "")
    if not is_for_people:
        return answer(status, message)
    page = problem_page(status, message)
    page.headers.update(_HEADERS.get(status, {}))
    return page


def general(error: Exception) -> RequestError:
    """What is told of an error that is not the asker's mistake: the error itself may name files."""
    match error:
        case DamagedError():
            return RequestError(500, _DAMAGED)
        case GalleryError() | ModelError() | OSError():
            return RequestError(503, _NOT_READY)
    return RequestError(500, _FAULT)


def install(app: FastAPI) -> None:
    """Makes the app answer every error in our shape."""

    @app.exception_handler(RequestError)
    async def refused(_: Request, error: RequestError) -> JSONResponse:
        return answer(error.status, error.message)

    @app.exception_handler(FormulaError)
    async def wrong_formula(_: Request, error: FormulaError) -> JSONResponse:
        return JSONResponse(failure_of(error).model_dump(), 400)

    @app.exception_handler(BrokenImageError)
    async def broken_picture(_: Request, error: BrokenImageError) -> JSONResponse:
        return answer(404, f"the picture cannot be read: {error.reason}")

    @app.exception_handler(QueryError)
    async def not_to_be_answered(_: Request, error: QueryError) -> JSONResponse:
        return answer(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def wrong_parameter(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return answer(400, f"{first['loc'][-1]}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def refused_by_starlette(request: Request, error: HTTPException) -> Response:
        message = _NO_PAGE if error.status_code == 404 else str(error.detail)
        response = answer_for(request.scope, error.status_code, message)
        response.headers.update(error.headers or {})
        return response

    async def trouble(_: Request, error: Exception) -> JSONResponse:
        log.error("%s", error)
        told = general(error)
        return answer(told.status, told.message)

    for kind in (GalleryError, ModelError, OSError):
        app.add_exception_handler(kind, trouble)
    app.add_exception_handler(Exception, trouble)  # whose traceback uvicorn logs
