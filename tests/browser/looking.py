"""Opening pages, and what is looked at on each: no complaint, nothing from elsewhere, fit for everybody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize

LIMIT_MS = 20_000
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}


@contextmanager
def opened(browser: Browser, origin: str, viewport: ViewportSize, shot: Path | None = None) -> Iterator[Page]:
    """A fresh page with cookies of its own. Fails where it complained or asked for what isn't of ``origin``.

    ``shot`` is where a picture goes of how it looked when a test failed. Nothing moves: that would keep a core busy.
    """
    complaints: list[str] = []
    context = browser.new_context(viewport=viewport, reduced_motion="reduce")
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    context.on("request", lambda request: None if _own(request.url, origin) else complaints.append(request.url))
    try:
        yield page
    except BaseException:
        if shot is not None:
            page.screenshot(path=shot, full_page=True)
        raise
    finally:
        context.close()
    assert not complaints, complaints


def _own(url: str, origin: str) -> bool:
    return url.startswith((f"{origin}/", "data:", "blob:", "about:"))


def assert_accessible(page: Page) -> None:
    """What axe finds wrong with the page as it stands: nothing; in the dark only the colours are looked at again."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")  # axe takes colours halfway for others
    results = Axe().run(page, options=_RULES)
    assert results.violations_count == 0, f"light: {results.generate_report()}"
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    results = AxeResults(page.evaluate("options => axe.run(document, options)", _COLOURS))  # axe is in the page by now
    assert results.violations_count == 0, f"dark: {results.generate_report()}"


def assert_fits(page: Page) -> None:
    """The page needs no scrolling sideways."""
    wide, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= room, f"the page is {wide} pixels wide, the window {room}"


def assert_tables_fit(page: Page) -> None:
    """No table is cut off at its box's edge."""
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth)"
        ".map((box) => `${box.ariaLabel}: ${box.scrollWidth} in ${box.clientWidth}`)"
    )
    assert not cut, cut


def shoot(page: Page, shots: Path, name: str) -> None:
    """Keep pictures of the whole page, in light and dark, for a person to look at: only with SAFELIGHT_SHOTS=1."""
    if os.environ.get("SAFELIGHT_SHOTS") != "1":
        return
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.screenshot(path=shots / f"{name}-{scheme}.png", full_page=True)
