"""The ASGI app: the API, its documentation, the page's files, and access control."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ..gallery import Gallery
from ..version import __version__
from . import gallery_routes, search_routes
from .errors import error_responses, install_error_handlers
from .security import Guard
from .services import Services

_HERE: Final = Path(__file__).parent
_STATIC: Final = _HERE / "static"
# Paths of the page; its JavaScript shows the view for each.
_PAGES: Final = ("/", "/duplicates", "/features", "/feature/{number}", "/compare", "/help")
_DESCRIPTION: Final = "Search a gallery of images with formulas such as 12 & ~cat.jpg."


def make_app(
    gallery: Gallery, *, host: str = "127.0.0.1", token: str | None = None, show_paths: bool = False
) -> ASGIApp:
    """Create the app that serves a gallery on `host`.

    `token` is required in every request, unless it is None. `show_paths`: return the paths of image files.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.services = Services(gallery, show_paths=show_paths)
        async with app.state.services.running():
            yield

    app = _App(
        title="andornot",
        description=_DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
    )
    api = APIRouter(prefix="/api", responses=error_responses(400, 401, 403, 414, 500, 503, 504))
    for module in (gallery_routes, search_routes):
        api.include_router(module.router)
    app.include_router(api)
    _add_api_reference(app)
    for page in _PAGES:
        app.add_api_route(page, _page, include_in_schema=False)
    app.mount("/static", _StaticFiles(directory=_STATIC))
    install_error_handlers(app)
    return Guard(_allow_head(app), host, token)


def _allow_head(app: ASGIApp) -> ASGIApp:
    """Handle HEAD requests as GET, which FastAPI does not; uvicorn leaves out the body."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return handle


class _App(FastAPI):
    """A FastAPI app whose schema leaves out responses that it never sends."""

    def openapi(self) -> dict[str, Any]:
        """Return the schema without FastAPI's validation errors of status 422; this API uses 400."""
        if not self.openapi_schema:
            schema = super().openapi()
            for methods in schema["paths"].values():
                for operation in methods.values():
                    operation["responses"].pop("422", None)
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
        return self.openapi_schema or schema


class _StaticFiles(StaticFiles):
    """Static files that browsers revalidate each time: their names do not change with their content."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or 304."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _page() -> FileResponse:
    return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def _add_api_reference(app: FastAPI) -> None:
    async def schema() -> JSONResponse:
        return JSONResponse(app.openapi())

    async def page() -> HTMLResponse:
        return HTMLResponse(_reference_page(app.openapi()))

    async def style() -> FileResponse:
        return FileResponse(_HERE / "reference.css")

    for path, route in (("/api/openapi.json", schema), ("/api/docs", page), ("/api/docs.css", style)):
        app.add_api_route(path, route, include_in_schema=False)


def _reference_page(schema: dict[str, Any]) -> str:
    """Render the API reference as plain HTML that loads nothing from other hosts."""
    environment = Environment(loader=PackageLoader(__package__), autoescape=True)
    environment.filters |= {"type": _type_name, "quoted": repr}
    return environment.get_template("reference.html").render(schema)


def _type_name(schema: dict[str, Any]) -> str:
    """Return a short name for the type of a plain value."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return f'"{schema["const"]}"'
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    max_length = [f"up to {schema['maxLength']} characters"] if "maxLength" in schema else []
    return " ".join([schema.get("format") or schema.get("type", "object"), *limits, *max_length])
