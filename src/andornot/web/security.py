"""Access control: the Host header, cross-site requests, and the token if one is required."""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import RequestError, StoppingError, error_response, error_response_for

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
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
# Enough for the longest formula and folder at 12 bytes per character (URL-encoded).
MAX_QUERY_BYTES: Final = 48_000
MAX_PARAMETERS: Final = 130
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SAFE_METHODS: Final = ("GET", "HEAD")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    return host in _LOOPBACK


class Guard:
    """Middleware that rejects unauthorized requests and adds security headers to every response."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app, self._token = app, token
        self._hosts = {*_LOOPBACK, host.lower()}
        # Other machines reach this one by various names and addresses. A numeric address is safe: DNS rebinding needs a
        # name.
        self._any_address = not is_loopback(host)
        if self._any_address:
            own = socket.gethostname().lower()
            self._hosts |= {own, f"{own}.local"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_started = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                own = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        handler: ASGIApp = self._app
        if refusal := self._refusal(scope):
            handler = error_response_for(scope, refusal)
        elif self._token is not None:
            handler = self._check_token(scope, self._token) or self._app
        # Only the guard needs cookies. FastAPI always parses them, and Python 3.11 takes seconds to unquote a long one.
        inner = {**scope, "headers": [header for header in scope["headers"] if header[0] != b"cookie"]}
        try:
            await handler(inner, receive, send_guarded)
        except asyncio.CancelledError:  # the server is shutting down
            if not has_started:
                await error_response(StoppingError())(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> RequestError | None:
        # Checked first, because parsing is quadratic in the number of parameters and blocks all other requests.
        query = scope["query_string"]
        if len(query) > MAX_QUERY_BYTES:
            message = f"the query has {len(query):,} bytes: send at most {MAX_QUERY_BYTES:,}"
            return RequestError(414, "query-too-long", message)
        if (count := query.count(b"&") + 1) > MAX_PARAMETERS:
            message = f"the query has {count:,} parameters: send at most {MAX_PARAMETERS}"
            return RequestError(400, "too-many-parameters", message)
        headers = Headers(scope=scope)
        if not self._is_own_host(headers.get("host", "")):
            return RequestError(403, "wrong-host", "wrong host name: use the address that andornot serve printed")
        if not _is_own_site(scope["method"], headers):
            return RequestError(403, "cross-site", "requests from other sites are refused")
        return None

    def _is_own_host(self, header: str) -> bool:
        """Return whether the Host header names this server, to prevent DNS rebinding."""
        name = _host_name(header)
        return name in self._hosts or (self._any_address and _is_address(name))

    def _check_token(self, scope: Scope, token: str) -> Response | None:
        """Return None for a request with the token; if a page was opened with it in the URL, set it as a cookie."""
        headers = Headers(scope=scope)
        cookie = f"andornot-{scope['server'][1]}"
        if _is_one_of(token, (_bearer(headers), *_cookies(headers, cookie))):
            return None
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = (value for key, value in parameters if key == "token")
        if scope["method"] in _SAFE_METHODS and _is_one_of(token, given):
            rest = urlencode([(key, value) for key, value in parameters if key != "token"])
            # A path that starts with two slashes would redirect to another host.
            path = "/" + scope["path"].lstrip("/\\")
            response = RedirectResponse(f"{path}?{rest}" if rest else path, 303, {"Cache-Control": "no-store"})
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
            return response
        message = "the token is missing or wrong: use the address that andornot serve printed"
        return error_response_for(scope, RequestError(401, "invalid-token", message))


def _is_own_site(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request is same-origin, or not from a browser, which would send these headers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate":
        return True  # a link from another site
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()


def _bearer(headers: Mapping[str, str]) -> str:
    """Return the token of an `Authorization: Bearer` header, in any case; empty if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookies(headers: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the raw values of a cookie; a token needs no unquoting."""
    for cookie in headers.get("cookie", "").split(";"):
        key, _, value = cookie.partition("=")
        if key.strip() == name:
            yield value.strip()


def _host_name(header: str) -> str:
    """Return the name in a Host header, without port and brackets."""
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
