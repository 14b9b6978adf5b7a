"""The app: the API, the page's files, and the guard before them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ..gallery import Gallery
from ..version import __version__
from . import browsing_routes, problems, search_routes, suggesting_routes, upload_routes
from .reference import reference_page
from .security import Guard
from .services import Services

_HERE: Final = Path(__file__).parent
_STATIC: Final = _HERE / "static"
# Addresses of the page: it shows by itself what they stand for.
_PAGES: Final = ("/", "/features", "/feature/{number}", "/compare", "/help")
_ABOUT: Final = "Search a gallery of pictures with formulas such as 12 & ~cat.jpg."


def make_app(
    gallery: Gallery, *, host: str = "127.0.0.1", token: str | None = None, tells_paths: bool = False
) -> ASGIApp:
    """The app that serves a gallery under the name of `host`, to who has the token, if there is one.

    `tells_paths`: whether who asks may know where the files of pictures are.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.services = Services(gallery, tells_paths=tells_paths)
        async with app.state.services.running():
            yield

    app = _Api(
        title="andornot", description=_ABOUT, version=__version__, lifespan=lifespan, openapi_url=None, docs_url=None
    )
    api = APIRouter(prefix="/api", responses=problems.failures(400, 401, 403, 500, 503, 504))
    for part in (browsing_routes, search_routes, suggesting_routes, upload_routes):
        api.include_router(part.router)
    app.include_router(api)
    _add_documentation(app)
    for page in _PAGES:
        app.add_api_route(page, _page, include_in_schema=False)
    app.mount("/static", _Static(directory=_STATIC))
    problems.install(app)
    return Guard(_with_head(app), host, token)


def _with_head(app: ASGIApp) -> ASGIApp:
    """Asked for the head of an answer, it is asked for all of it, and the server keeps the rest: FastAPI says 405."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return answering


class _Api(FastAPI):
    """An app whose schema does not promise what it never answers."""

    def openapi(self) -> dict[str, Any]:
        """The schema, without FastAPI's own shape of validation errors: ours are 400."""
        if not self.openapi_schema:
            schema = super().openapi()
            for methods in schema["paths"].values():
                for operation in methods.values():
                    operation["responses"].pop("422", None)
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
        return self.openapi_schema or schema


class _Static(StaticFiles):
    """Files whose names stay the same when they change: browsers keep them, and ask each time whether they may."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """A file, or the answer that it is the same still."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _page() -> FileResponse:
    return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def _add_documentation(app: FastAPI) -> None:
    async def schema() -> JSONResponse:
        return JSONResponse(app.openapi())

    async def page() -> HTMLResponse:
        return HTMLResponse(reference_page(app.openapi()))

    async def style() -> FileResponse:
        return FileResponse(_HERE / "reference.css")

    for path, route in (("/api/openapi.json", schema), ("/api/docs", page), ("/api/docs.css", style)):
        app.add_api_route(path, route, include_in_schema=False)
