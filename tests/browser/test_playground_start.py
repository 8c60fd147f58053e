"""The playground where a render begins with a picture: picked or dropped, sent, taken away again."""

from __future__ import annotations

from pathlib import Path

import httpx
from msgspec.structs import replace
from PIL import Image
from playwright.sync_api import FilePayload, Page, expect

from jobstore.job import Job, PictureFormat
from jobstore.outputs import Outputs
from jobstore.pictures import encode
from safelight.config import ModelSettings
from tests.api.site import SETTINGS, Driver, Site
from tests.browser.darkroom import cards, newest, open_playground, render
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.browser.test_playground_settings import drop

MINE: FilePayload = {
    "name": "mine.png",
    "mimeType": "image/png",
    "buffer": encode(Image.new("RGB", (200, 100), "red"), PictureFormat.PNG),
}


def last_job(site: Site) -> Job:
    """The newest one, as the store has it."""
    with httpx.Client(base_url=site.url) as http:
        told = http.get("/v1/jobs?limit=1").json()["data"][0]
    return site.call(site.services.store.get(told["id"]))


def test_a_render_begins_with_a_picture(site: Site, page: Page, shots: Path) -> None:
    """With all settings of the form; its card is as any other's, and the next render begins with nothing again."""
    worker = Driver(site)
    open_playground(page, site)
    page.set_input_files("#image", MINE)
    expect(page.get_by_alt_text("The render begins with mine.png")).to_be_visible()
    page.get_by_label("Strength").fill("0.5")
    page.get_by_label("ink", exact=True).check()
    page.locator("#further summary").click()
    page.select_option("#format", "webp")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate("scrollTo(0, 0)")
    expect(page.get_by_role("button", name="Render", exact=True)).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    shoot(page, shots, "chosen")
    render(page, "a green star", seed="9007199254740991")
    expect(newest(page).locator(".standing")).to_have_text("Next in line")
    asked = last_job(site).request
    assert asked.image is not None
    assert (asked.strength, asked.seed, asked.previews, asked.format) == (0.5, 2**53 - 1, 2, PictureFormat.WEBP)
    worker.render()
    expect(newest(page).locator("img.developed")).to_have_count(1)
    newest(page).locator("summary").click()
    expect(newest(page).locator("dl")).to_contain_text("Strength0.5")
    expect(newest(page).get_by_role("button", name="Vary the seed")).to_have_count(0)
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("#image")).to_be_focused()
    expect(page.locator("#start-chosen")).to_be_hidden()
    render(page, "a green star", seed="2")
    assert last_job(site).request.image is None


def test_a_picture_that_is_dropped_there_is_begun_with(site: Site, phone: Page) -> None:
    """Its settings are left alone. On a phone, too."""
    open_playground(phone, site)
    phone.fill("#prompt", "mine")
    drop(phone, MINE, "#start-field")
    expect(phone.get_by_alt_text("The render begins with mine.png")).to_be_visible()
    expect(phone.locator("#veil")).to_be_hidden()
    expect(phone.locator("#trouble")).to_be_hidden()
    expect(phone.locator("#prompt")).to_have_value("mine")
    assert_fits(phone)
    phone.click("#submit")
    expect(cards(phone)).to_have_count(1)
    assert last_job(site).request.strength == 0.8


def test_what_is_wrong_with_it_stands_beside_it(site: Site, quiet_page: Page) -> None:
    """A file that is no picture, and a share of none; both are right again once they are changed."""
    page = quiet_page
    open_playground(page, site)
    page.set_input_files("#image", {"name": "a.png", "mimeType": "image/png", "buffer": b"hello"})
    page.fill("#prompt", "a boat")
    page.click("#submit")
    expect(page.locator("#image-error")).to_contain_text("The picture")
    expect(page.locator("#image")).to_be_focused()
    page.set_input_files("#image", MINE)
    expect(page.locator("#image-error")).to_be_hidden()
    page.get_by_label("Strength").fill("0")
    page.click("#submit")
    expect(page.locator("#strength-error")).to_contain_text("Strength must be")
    page.get_by_label("Strength").fill("1")
    expect(page.locator("#strength-error")).to_be_hidden()
    page.click("#submit")
    expect(cards(page)).to_have_count(1)


def test_a_model_that_takes_none_is_offered_none(database: str, outputs: Outputs, quiet_page: Page) -> None:
    """The form says nothing of it, and sends none that was chosen for another model."""
    models = {**SETTINGS.models, "wide": ModelSettings(model="/models/wide", family="auto", revision="r1", lane="big")}
    with Site(database, outputs, replace(SETTINGS, models=models)).serve() as site:
        page = quiet_page
        open_playground(page, site)
        page.set_input_files("#image", MINE)
        expect(page.locator("#start-chosen")).to_be_visible()
        page.select_option("#model", "wide")
        expect(page.locator("#start-field")).to_be_hidden()
        render(page, "a boat")
        assert last_job(site).request.image is None
