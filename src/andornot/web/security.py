"""Who may ask: the host that was meant, requests of the page itself, and the token where one is needed."""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import answer, answer_for

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HARMLESS: Final = ("GET", "HEAD")


def is_loopback(host: str) -> bool:
    """Whether only this machine itself can reach that address."""
    return host in _LOOPBACK


class Guard:
    """Stands before the app: refuses what may not ask, and adds to every answer what browsers must know."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app, self._token = app, token
        self._hosts = {*_LOOPBACK, host.lower()}
        # From elsewhere the machine has names and addresses. An address cannot be another site's name for it.
        self._any_address = not is_loopback(host)
        if self._any_address:
            own = socket.gethostname().lower()
            self._hosts |= {own, f"{own}.local"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                own = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        answering = self._refusal(scope) or self._app
        try:
            await answering(scope, receive, send_guarded)
        except asyncio.CancelledError:  # the server is told to stop, and this would take too long
            if not has_begun:
                await answer(503, "the server stops")(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_own_host(headers.get("host", "")):
            return answer_for(scope, 403, "this server is not called so: use the address that andornot serve printed")
        if not _is_own_site(scope["method"], headers):
            return answer_for(scope, 403, "requests from other sites are refused")
        if self._token is None:
            return None
        return self._without_token(scope, headers, self._token)

    def _is_own_host(self, header: str) -> bool:
        """Whether the browser meant this server: another site's name may lead here too (DNS rebinding)."""
        name = _host_name(header)
        return name in self._hosts or (self._any_address and _is_address(name))

    def _without_token(self, scope: Scope, headers: Mapping[str, str], token: str) -> Response | None:
        """None for who has the token; a page that was opened with it in the address gets it as a cookie."""
        cookie = f"andornot-{scope['server'][1]}"
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _is_one_of(token, (bearer, cookie_parser(headers.get("cookie", "")).get(cookie, ""))):
            return None
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = (value for key, value in parameters if key == "token")
        if scope["method"] in _HARMLESS and _is_one_of(token, given):
            rest = urlencode([(key, value) for key, value in parameters if key != "token"])
            # A path of two slashes would be another host's.
            path = "/" + scope["path"].lstrip("/\\")
            response = RedirectResponse(f"{path}?{rest}" if rest else path, 303, {"Cache-Control": "no-store"})
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
            return response
        return answer_for(scope, 401, "the token is missing or wrong: use the address that andornot serve printed")


def _is_own_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser sends this for the page itself; programs send none of these headers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in _HARMLESS and headers.get("sec-fetch-mode") == "navigate":
        return True  # a link from elsewhere
    if site is not None and site not in ("same-origin", "none"):
        return False
    return method in _HARMLESS or origin is None or origin.partition("://")[2] == headers.get("host")


def _host_name(header: str) -> str:
    """The name in a Host header, without port and brackets."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_one_of(token: str, given: Iterable[str]) -> bool:
    return any(hmac.compare_digest(token.encode(), value.encode()) for value in given)
