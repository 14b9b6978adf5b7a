"""The page for who opens an address that cannot be shown. It loads nothing: who lacks the token gets no file."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

_TITLES: Final = {
    401: "This page needs its token",
    403: "This address is not served",
    404: "There is nothing here",
}
_HINTS: Final = {401: "The address that andornot serve printed ends in ?token=…. Open it once as a whole."}


def problem_page(status: int, message: str) -> HTMLResponse:
    """What went wrong as a page, which allows its own style and nothing else."""
    environment, style = _templates()
    page = environment.get_template("problem.html").render(
        title=_TITLES.get(status, "This did not work"),
        message=message[:1].upper() + message[1:],
        hint=_HINTS.get(status, ""),
        style=Markup(style),
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, status, {"Content-Security-Policy": policy})


@cache
def _templates() -> tuple[Environment, str]:
    environment = Environment(loader=PackageLoader(__package__), autoescape=True)
    assert environment.loader is not None, "it was given"
    return environment, environment.loader.get_source(environment, "problem.css")[0]
