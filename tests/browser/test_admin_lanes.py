"""The page of lanes in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.api.site import Site
from tests.api.test_jobs import submit
from tests.browser.looking import assert_accessible, assert_fits, shoot


def test_a_lane_is_paused_with_a_reason_and_resumed(site: Site, page: Page, shots: Path) -> None:
    """The dialog asks first; what was done is said, once, and the row shows it."""
    page.goto(f"{site.url}/admin/lanes")
    expect(page.get_by_role("heading", name="Lanes")).to_be_visible()
    page.get_by_role("button", name="Pause default").click()
    page.get_by_role("textbox", name="Reason, for whoever wonders").fill("new drivers <b>soon</b>")
    assert_accessible(page)
    shoot(page, shots, "dialog")
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator("#said")).to_contain_text("default is paused")
    row = page.get_by_role("row", name="default")
    expect(row).to_contain_text("new drivers <b>soon</b>")
    shoot(page, shots, "paused")
    page.get_by_role("button", name="Resume default").click()
    expect(page.locator("#said")).to_contain_text("default goes on")
    expect(row).to_contain_text("open")
    page.reload()
    expect(page.locator("#said")).to_be_empty()


def test_the_numbers_follow_by_themselves_until_paused(site: Site, page: Page) -> None:
    """A submit elsewhere is seen without a reload; a dialog that is open stays as it is."""
    page.goto(f"{site.url}/admin/lanes")
    waiting = page.get_by_role("row", name="default").get_by_role("cell").nth(2)
    expect(waiting).to_have_text("0")
    with httpx.Client(base_url=site.url) as http:
        submit(http)
        expect(waiting).to_have_text("1")
        page.get_by_role("button", name="Live").click()
        expect(page.locator("[data-pause]")).to_have_attribute("aria-pressed", "true")
        submit(http)
        page.get_by_role("button", name="Paused").click()
        expect(waiting).to_have_text("2")


def test_lanes_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """The table scrolls in its own box, and what can be done stays in sight."""
    phone.goto(f"{site.url}/admin/lanes")
    expect(phone.get_by_role("button", name="Pause default")).to_be_in_viewport(ratio=1)
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "phone")
