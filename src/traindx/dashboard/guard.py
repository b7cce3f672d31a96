"""Who may ask: a token, a known Host, no other site, reading only. One middleware in front of every route."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "traindx_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def new_token() -> str:
    """A secret for one server's life."""
    return secrets.token_urlsafe(24)


class Guard:
    """Refuses every request that is not a read by the user who holds the token, from our own page."""

    def __init__(self, app: ASGIApp, token: str, hosts: tuple[str, ...]) -> None:
        self.app, self.token, self.hosts = app, token, hosts
        self.codes = {token}  # one-time codes: the one in the printed address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await self._answer(refusal, scope, receive, send)
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if _name(host) not in self.hosts:
            return PlainTextResponse("unknown host", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("reading only", 405, {"allow": "GET, HEAD"})
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return PlainTextResponse("other origins are not served", 403)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return PlainTextResponse("other sites are not served", 403)
        query = scope.get("query_string", b"").decode("latin-1")
        if scope["path"] == "/" and query.startswith("token="):
            return self._enter(query.removeprefix("token="))
        if not self._known(headers):
            return PlainTextResponse("open the address that `traindx serve` printed; it carries the key", 401)
        return None

    def _enter(self, given: str) -> Response:
        """Trade the key in the address for a cookie, so that it does not stay in the browser's history."""
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return PlainTextResponse("that key is not ours; look at what `traindx serve` printed", 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
        return response

    def _known(self, headers: Headers) -> bool:
        bearer = headers.get("authorization", "")
        given = bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else _cookie(headers.get("cookie", ""))
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _answer(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        await response(scope, receive, _with_headers(send))


def _cookie(raw: str) -> str:
    try:
        found = SimpleCookie(raw).get(COOKIE)
    except Exception:  # a cookie header that cannot be parsed carries no key
        return ""
    return found.value if found else ""


def _name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {k.lower() for k, _ in message["headers"]}
            extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in have]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sending
