"""The documentation page, in a real Chromium."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.api.site import Site
from tests.browser.conftest import PHONE
from tests.browser.looking import assert_accessible, assert_fits


def test_the_documentation_lists_every_endpoint(site: Site, page: Page) -> None:
    """Drawn without anything from elsewhere."""
    page.goto(f"{site.url}/docs")
    page.get_by_text("POST /v1/jobs", exact=True).click()
    expect(page.locator("details[open]").get_by_text("The request can't be taken")).to_be_visible()
    expect(page.locator("#operations > details code")).not_to_have_count(0)
    page.locator("details[open]").get_by_role("link", name="JobSubmit").click()
    fields = page.locator("#schema-JobSubmit[open]")
    expect(fields.get_by_text("prompt", exact=True)).to_be_visible()
    assert_accessible(page)
    page.set_viewport_size(PHONE)
    assert_fits(page)
