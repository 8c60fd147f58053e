"""The first of the admin pages in a real Chromium, and what all of them share."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from jobstore.keys import Scope
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.browser.looking import LIMIT_MS, assert_accessible, assert_fits, shoot
from tests.contract.keying import TESTER, make_key

DRAWN_AT_ONCE = """(limit) => new Promise((told) => {
    setTimeout(() => told(false), limit);
    document.addEventListener("htmx:afterSwap", ({target}) => {
        if (target.id === "hour") told(Boolean(Chart.getChart(target.querySelector("canvas"))));
    });
})"""
"""Whether the chart stands as soon as a refresh has put its canvas there."""


def test_it_tells_how_everything_stands(site: Site, page: Page, shots: Path) -> None:
    """What ended is in the chart, and what is wrong stands above all else with advice and a link."""
    with httpx.Client(base_url=site.url) as http:
        worker = Driver(site)
        submit(http)
        worker.finish(worker.claim())
        submit(http, prompt="another", model="wide")
        page.goto(f"{site.url}/admin")
        expect(page.locator("#now")).to_contain_text(re.compile(r"Ended in the last hour\s+1"))
        expect(page.locator("canvas")).to_have_attribute("aria-label", re.compile("1 succeeded, 0 failed"))
        problem = page.locator("#problems li").first
        expect(problem).to_be_visible()
        expect(problem.get_by_role("link")).to_have_attribute("href", re.compile("^/admin/"))
        assert_accessible(page)
        shoot(page, shots, "overview")
        assert page.evaluate(DRAWN_AT_ONCE, LIMIT_MS), "a refresh leaves the chart blank until it has settled"
        submit(http, prompt="a third", model="wide")
        expect(page.locator("#now")).to_contain_text(re.compile(r"Waiting\s+2"))


def test_it_fits_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """An empty server's, which says what to do first."""
    phone.goto(f"{site.url}/admin")
    expect(phone.locator("#hour")).to_contain_text("safelight submit")
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "phone")


def test_one_signs_in_by_keyboard_and_out_again(site: Site, page: Page, shots: Path) -> None:
    """The form has the focus; afterwards one is where one wanted to go. An observer's page has no buttons to change."""
    httpx.get(f"{site.url}/livez").raise_for_status()
    secret = site.call(make_key(site.services.store, "night watch", scopes=(Scope.OBSERVE,)))
    site.services.keys.forget()
    page.goto(f"{site.url}/admin/lanes")
    expect(page).to_have_title("Sign in · Safelight")
    assert_accessible(page)
    assert_fits(page)
    shoot(page, shots, "sign-in")
    page.keyboard.type(secret)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/admin/lanes")
    expect(page.get_by_text("read-only")).to_be_visible()
    expect(page.get_by_role("button", name="Pause default")).to_have_count(0)
    shoot(page, shots, "read-only")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#said")).to_contain_text("You are signed out")
    expect(page.get_by_label("API key")).to_be_focused()


def test_a_session_that_ends_leads_to_the_sign_in(site: Site, page: Page) -> None:
    """By itself: the stream says so."""
    httpx.get(f"{site.url}/livez").raise_for_status()
    store = site.services.store
    secret = site.call(make_key(store, "night watch", scopes=(Scope.OBSERVE,)))
    site.services.keys.forget()
    page.goto(f"{site.url}/admin")
    page.get_by_label("API key").fill(secret)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    (key,) = site.call(store.list_keys())
    site.call(store.revoke_key(key.id, TESTER))
    expect(page).to_have_title("Sign in · Safelight")


def test_colours_are_chosen_and_remembered(site: Site, page: Page) -> None:
    """As the system has them, light, dark; by keyboard, too, past the link that skips the navigation."""
    page.emulate_media(color_scheme="light")
    page.goto(f"{site.url}/admin")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("button", name="Colours").press("Enter")
    page.get_by_role("button", name="Colours: light").press("Enter")
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 20, 19)"
