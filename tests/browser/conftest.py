"""A real Chromium without a network, and pages of it that take no complaint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import structs
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from bench.chromium import find_chromium
from jobstore.outputs import Outputs
from tests.api.site import SETTINGS, Site
from tests.browser.looking import LIMIT_MS, opened

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1280, height=900)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium; the tests fail, and say what to install, where there is none.

    It ends with this room: while Playwright is open its event loop is the thread's, and no asynchronous test can run.
    """
    path = find_chromium()
    if path is None:
        pytest.fail(
            "no Chromium found: install it (Debian: apt-get install chromium-headless-shell) or set SAFELIGHT_CHROMIUM"
        )
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """The API on a fresh database. It takes no job back from a test's worker while somebody looks at a page."""
    patient = structs.replace(SETTINGS, worker=structs.replace(SETTINGS.worker, lease_s=600.0))
    with Site(database, outputs, patient).serve() as site:
        yield site


@pytest.fixture
def page(browser: Browser, site: Site, shots: Path) -> Iterator[Page]:
    """A fresh page as at a desk; what its scripts complain about, and what it loads from elsewhere, fails the test."""
    with opened(browser, site.url, DESK, shots / "end.png") as page:
        yield page


@pytest.fixture
def phone(browser: Browser, site: Site, shots: Path) -> Iterator[Page]:
    """The same as on a phone, 390 pixels wide."""
    with opened(browser, site.url, PHONE, shots / "end-on-a-phone.png") as page:
        yield page


@pytest.fixture
def new_page(browser: Browser, site: Site) -> Iterator[Callable[[], Page]]:
    """Makes further fresh pages, each with cookies of its own."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(opened(browser, site.url, DESK))


@pytest.fixture
def quiet_pages(browser: Browser) -> Iterator[Callable[[], Page]]:
    """Makes fresh pages that may complain: the browser itself does so of every answer that is an error."""
    with ExitStack() as stack:

        def make() -> Page:
            context = browser.new_context(viewport=DESK)
            stack.callback(context.close)
            context.set_default_timeout(LIMIT_MS)
            return context.new_page()

        yield make


@pytest.fixture
def quiet_page(quiet_pages: Callable[[], Page]) -> Page:
    """One of them."""
    return quiet_pages()


@pytest.fixture
def shots(request: pytest.FixtureRequest) -> Path:
    """The folder for this test's screenshots, ``artifacts/browser/``: of failures, and all with SAFELIGHT_SHOTS=1."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{request.node.path.stem}-{request.node.name}")
    return request.config.rootpath / "artifacts" / "browser" / name
