"""Who may ask: a token, a known Host, no other site, reading only. One middleware in front of every route."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?", re.I)
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

    def __init__(
        self, app: ASGIApp, token: str, hosts: tuple[str, ...], port: int, renewed: Callable[[str], None] | None = None
    ) -> None:
        self.app, self.code, self.hosts = app, token, {h.lower() for h in hosts}
        self.cookie = f"traindx_{port}"  # browsers share cookies between the ports of a host
        self.renewed = renewed  # told the next key when one was used; without it the key is the user's own, and stays
        self.session = new_token() if renewed else token  # what the cookie carries

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
        known = _HOST.fullmatch(host)
        if known is None or known[1].lower() not in self.hosts or len(headers.getlist("host")) != 1:
            return PlainTextResponse("unknown host", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("reading only", 405, {"allow": "GET, HEAD"})
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return PlainTextResponse("other origins are not served", 403)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return PlainTextResponse("other sites are not served", 403)
        query = scope.get("query_string", b"").decode("latin-1")
        if scope["path"] == "/" and query.startswith("token="):
            return self._enter(query.removeprefix("token="), headers)
        if not self._known(headers):
            return PlainTextResponse("open the address that `traindx serve` printed; it carries the key", 401)
        return None

    def _enter(self, given: str, headers: Headers) -> Response:
        """Trade the key in the address for a cookie, once: who finds the address later, in a history or a log, has nothing."""
        response = RedirectResponse("/", 303)
        if hmac.compare_digest(given.encode(), self.code.encode()):
            response.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")
            if self.renewed is not None:
                self.code = new_token()
                self.renewed(self.code)
        elif not self._known(headers):
            return PlainTextResponse("that key is not ours or was used; `traindx serve` prints a new one after each use", 401)
        return response

    def _known(self, headers: Headers) -> bool:
        bearer = headers.get("authorization", "")
        given = (
            bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else _cookie(headers.get("cookie", ""), self.cookie)
        )
        return hmac.compare_digest(given.encode(), self.session.encode())

    async def _answer(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        await response(scope, receive, _with_headers(send))


def _cookie(raw: str, name: str) -> str:
    try:
        found = SimpleCookie(raw).get(name)
    except Exception:  # a cookie header that cannot be parsed carries no key
        return ""
    return found.value if found else ""


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {k.lower() for k, _ in message["headers"]}
            extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in have]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sending
