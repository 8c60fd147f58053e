"""What tests of the playground do again and again."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.api.site import Site


def open_playground(page: Page, site: Site, query: str = "") -> None:
    """The page, once it knows the models."""
    page.goto(f"{site.url}/{query}")
    expect(page.locator("#model option")).to_have_count(2)


def cards(page: Page) -> Locator:
    """The cards of all jobs."""
    return page.locator("#gallery > .job")


def newest(page: Page) -> Locator:
    """The first card."""
    return cards(page).first


def render(page: Page, prompt: str, seed: str = "") -> None:
    """Submit, and wait for its card."""
    before = cards(page).count()
    page.fill("#prompt", prompt)
    page.fill("#seed", seed)
    page.click("#submit")
    expect(cards(page)).to_have_count(before + 1)


def width_of(picture: Locator) -> int:
    """How many pixels wide the picture's file is."""
    return int(picture.evaluate("image => image.decode().then(() => image.naturalWidth)"))
