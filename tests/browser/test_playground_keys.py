"""The playground where keys are needed: entering and forgetting one, seeing one's own, and links that are sent."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.browser.darkroom import cards, newest, open_playground, render
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.contract.keying import make_key


@pytest.fixture
def secrets(site: Site) -> dict[str, str]:
    """The keys of two people; from now on one is needed."""
    made = {name: site.call(make_key(site.services.store, name)) for name in ("ann", "bob")}
    site.services.keys.forget()
    return made


def enter(page: Page, secret: str) -> None:
    """Type a key and use it."""
    page.fill("#key", secret)
    page.click("text=Use it")


def job_of(site: Site, secret: str, prompt: str = "a private boat") -> str:
    """A rendered job of this key."""
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=site.url, headers=headers) as http:
        job = submit(http, prompt=prompt, seed=1)
    Driver(site).render()
    return str(job["id"])


def test_a_key_brings_models_and_pictures(site: Site, quiet_page: Page, secrets: dict[str, str], shots: Path) -> None:
    """The page says where a key goes, says when it is wrong, and shows what the right one made."""
    page = quiet_page
    job_of(site, secrets["ann"])
    page.goto(site.url)
    expect(page.locator("#key-hint")).to_contain_text("wants an API key")
    expect(page.locator("#key")).to_be_focused()
    shoot(page, shots, "wanted")
    assert_accessible(page)
    enter(page, "sl_wrong")
    expect(page.locator("#key-hint")).to_contain_text("not valid")
    expect(page.locator("#key-hint")).to_contain_class("error")
    expect(page.locator("#submit")).to_be_disabled()
    enter(page, secrets["ann"])
    expect(page.locator("#model option")).to_have_count(2)
    expect(page.locator("#submit")).to_be_enabled()
    expect(page.locator("#key-panel")).to_be_hidden()
    expect(page.locator("#key-button")).to_have_text("ann")
    expect(page.get_by_alt_text("a private boat (seed 1)", exact=True)).to_have_class("developed")
    render(page, "another boat")
    page.reload()
    expect(cards(page)).to_have_count(2)


def test_each_key_sees_its_own(site: Site, quiet_page: Page, secrets: dict[str, str]) -> None:
    """And nothing of another's is left on the page when keys are changed."""
    page = quiet_page
    job_of(site, secrets["ann"], "of ann")
    job_of(site, secrets["bob"], "of bob")
    page.goto(site.url)
    expect(page.locator("#key")).to_be_focused()
    for name, other in (("ann", "bob"), ("bob", "ann")):
        enter(page, secrets[name])
        expect(newest(page)).to_contain_text(f"of {name}")
        expect(cards(page)).to_have_count(1)
        expect(page.locator("#key-panel")).to_be_hidden()
        page.click("#key-button")
        expect(page.get_by_text(f"of {other}", exact=True)).to_have_count(0)


def test_a_key_is_kept_for_the_session_and_forgotten(site: Site, quiet_page: Page, secrets: dict[str, str]) -> None:
    """Beyond it where that was wanted, and nowhere any more once it is forgotten."""
    page = quiet_page
    page.goto(site.url)
    enter(page, secrets["ann"])
    expect(page.locator("#key-button")).to_have_text("ann")
    kept = "[...Object.values(sessionStorage), '|', ...Object.values(localStorage)].join(' ')"
    session, lasting = str(page.evaluate(kept)).split("|")
    assert secrets["ann"] in session
    assert secrets["ann"] not in lasting
    page.click("#key-button")
    page.get_by_label("Remember it on this device").check()
    enter(page, secrets["ann"])
    expect(page.locator("#key-panel")).to_be_hidden()
    assert secrets["ann"] in str(page.evaluate(kept)).split("|")[1]
    page.click("#key-button")
    page.get_by_role("button", name="Forget it").click()
    expect(page.locator("#key-hint")).to_contain_text("wants an API key")
    expect(cards(page)).to_have_count(0)
    assert secrets["ann"] not in str(page.evaluate(kept))


def test_a_link_leads_to_its_job(site: Site, page: Page) -> None:
    """However old the job is; copied from its card."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    worker = Driver(site)
    with httpx.Client(base_url=site.url) as http:
        oldest = submit(http, prompt="the oldest", seed=0)
        worker.render()
        for seed in range(26):
            submit(http, seed=seed)
    open_playground(page, site, f"?job={oldest['id']}")
    card = page.locator(".job.shared")
    expect(card).to_contain_text("the oldest")
    expect(card).to_be_focused()
    expect(card).to_be_in_viewport()
    card.get_by_role("button", name="Copy a link").click()
    expect(page.locator("#said")).to_contain_text("The link is copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{site.url}/?job={oldest['id']}"


def test_a_link_says_which_key_it_wants(site: Site, quiet_page: Page, secrets: dict[str, str], shots: Path) -> None:
    """Without a key, with another's, and with the right one."""
    page = quiet_page
    job_id = job_of(site, secrets["ann"])
    page.goto(f"{site.url}/?job={job_id}")
    expect(page.locator("#shared")).to_contain_text("Enter the key that made it")
    enter(page, secrets["bob"])
    expect(page.locator("#shared")).to_contain_text("another key made it, or it was deleted")
    shoot(page, shots, "foreign")
    page.click("#key-button")
    enter(page, secrets["ann"])
    expect(page.locator(".job.shared")).to_contain_text("a private boat")
    expect(page.locator("#shared")).to_be_hidden()


def test_a_picture_is_looked_at_large(site: Site, page: Page, phone: Page, shots: Path) -> None:
    """By the keyboard alone: open, go to the neighbours, close; the focus returns. Downloads have a telling name."""
    worker = Driver(site)
    open_playground(page, site)
    for seed in ("1", "2"):
        render(page, "A red boat, at sea!", seed=seed)
        worker.render()
    expect(page.locator("img.developed")).to_have_count(2)
    opener = newest(page).locator("button.frame")
    opener.focus()
    page.keyboard.press("Enter")
    large = page.locator("#lightbox-picture")
    expect(large).to_have_attribute("alt", "A red boat, at sea! (seed 2)")
    page.keyboard.press("ArrowRight")
    expect(large).to_have_attribute("alt", "A red boat, at sea! (seed 1)")
    expect(page.locator("#lightbox-facts")).to_contain_text("2 of 2")
    assert_accessible(page)
    shoot(page, shots, "lightbox")
    with page.expect_download() as download:
        page.locator("#lightbox-download").click()
    assert download.value.suggested_filename == "a-red-boat-at-sea-1.png"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    expect(page.locator("#lightbox")).to_be_hidden()
    expect(opener).to_be_focused()
    open_playground(phone, site)
    phone.locator("button.frame").first.click()
    expect(phone.locator("#lightbox-close")).to_be_in_viewport()
    assert_fits(phone)
    shoot(phone, shots, "lightbox-phone")


def test_the_colours_are_chosen(site: Site, page: Page) -> None:
    """And stay chosen."""
    page.emulate_media(color_scheme="light")
    open_playground(page, site)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(background) == dark
