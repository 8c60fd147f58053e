"""The documentation page, in a real Chromium."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.api.site import Site


def test_the_documentation_lists_every_endpoint(site: Site, page: Page) -> None:
    """Drawn without anything from elsewhere."""
    page.goto(f"{site.url}/docs")
    page.get_by_text("POST /v1/jobs", exact=True).click()
    expect(page.locator("details[open]").get_by_text("The request can't be taken")).to_be_visible()
    expect(page.locator("#operations > details code")).not_to_have_count(0)
