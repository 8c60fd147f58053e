"""The playground's form: what it adapts to, what it says is wrong, and where its settings come from."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from playwright.sync_api import FilePayload, Page, expect

from jobstore.job import PictureFormat
from jobstore.pictures import encode
from tests.api.site import Driver, Site
from tests.browser.darkroom import cards, newest, open_playground, render
from tests.browser.looking import assert_accessible, shoot

WORDS = """a red circle,
left of "something": blue é
Negative prompt: blur, noise
Steps: 11, CFG scale: 2.5, Adapters: ink=0.5, Seed: 9007199254740991, Size: 64x64, Model: scenes, Version: 1"""
BY = "\N{MULTIPLICATION SIGN}"


def last_request(site: Site) -> dict[str, Any]:
    """The newest job's request, as the API tells it."""
    with httpx.Client(base_url=site.url) as http:
        return dict(http.get("/v1/jobs?limit=1").json()["data"][0]["request"])


def picture(kind: PictureFormat, words: str | None) -> FilePayload:
    """A picture file with these words in it."""
    data = encode(Image.new("RGB", (8, 8), "red"), kind, words)
    return {"name": f"mine.{kind.value}", "mimeType": kind.media_type, "buffer": data}


def test_the_form_adapts_to_the_model(site: Site, page: Page) -> None:
    """Sizes, usual steps and guidance, adapters, a negative prompt where the model takes one; the price of it all."""
    open_playground(page, site)
    expect(page.locator("#size option")).to_have_text([f"128 {BY} 128 square", f"64 {BY} 64 square"])
    expect(page.locator("#price")).to_have_text("0.01 USD")
    page.fill("#n", "3")
    expect(page.locator("#price")).to_have_text("0.03 USD")
    expect(page.get_by_label("watercolor", exact=True)).to_be_visible()
    page.locator("#further summary").click()
    expect(page.locator("#steps")).to_have_attribute("placeholder", "8")
    expect(page.locator("#negative_prompt")).to_be_hidden()
    page.select_option("#model", "wide")
    expect(page.locator("#negative_prompt")).to_be_visible()
    expect(page.locator("#adapters-field")).to_be_hidden()
    expect(page.locator("#guidance")).to_have_attribute("placeholder", "5")
    expect(page.locator("#size option").first).to_have_text(f"1024 {BY} 1024 square")
    expect(page.locator("#size")).to_have_value("1024x1024")
    expect(page.locator("#size-hint")).to_have_text("Multiples of 8, from 256 to 2048")
    page.select_option("#size", "own")
    page.fill("#size-own", f"512 {BY} 768")
    page.fill("#negative_prompt", "blur")
    render(page, "a boat")
    asked = last_request(site)
    assert (asked["model"], asked["size"], asked["n"], asked["negative_prompt"]) == ("wide", "512x768", 3, "blur")
    assert (asked["steps"], asked["guidance"]) == (30, 5.0)


def test_every_setting_is_sent(site: Site, page: Page) -> None:
    """And the dice is rolled where a seed is wanted that can be had again."""
    open_playground(page, site)
    page.get_by_label("ink", exact=True).check()
    page.get_by_label("Weight of ink").fill("0.5")
    page.locator("#further summary").click()
    page.fill("#steps", "12")
    page.fill("#guidance", "1.5")
    page.select_option("#size", "64x64")
    page.select_option("#format", "webp")
    page.fill("#prompt", "a boat")
    page.get_by_role("button", name="Roll a seed").click()
    seed = page.locator("#seed").input_value()
    assert page.locator("#seed").evaluate("field => field.scrollWidth <= field.clientWidth"), "the seed is cut off"
    page.click("#submit")
    expect(cards(page)).to_have_count(1)
    asked = last_request(site)
    told = {name: asked[name] for name in ("steps", "guidance", "size", "format", "adapters", "seed", "previews")}
    assert told == {
        "steps": 12, "guidance": 1.5, "size": "64x64", "format": "webp", "adapters": {"ink": 0.5}, "seed": int(seed),
        "previews": 2,
    }  # fmt: skip
    page.get_by_role("button", name="Another seed each time").click()
    expect(page.locator("#seed")).to_have_value("")
    page.reload()
    expect(page.locator("#steps")).to_be_visible()
    expect(page.get_by_label("ink", exact=True)).to_be_checked()
    expect(page.get_by_label("Weight of ink")).to_have_value("0.5")
    expect(page.locator("#size")).to_have_value("64x64")


WRONG = {
    "prompt": (" ", "must not be empty"),
    "seed": ("-7", "0 to"),
    "n": ("40", "Pictures must be at most 10"),
    "steps": ("5000", "Steps must be at most 100"),
    "guidance": ("101", "Guidance must be at most 100"),
}


def test_an_error_stands_beside_its_field(site: Site, quiet_pages: Callable[[], Page], shots: Path) -> None:
    """In the server's words; the field has the focus, and is right again once it is changed."""
    for number, (field, (value, words)) in enumerate(WRONG.items(), start=1):
        page = quiet_pages()
        open_playground(page, site)
        page.locator("#further summary").click()
        page.fill("#prompt", "a boat")
        page.fill(f"#{field}", value)
        page.click("#submit")
        expect(page.locator(f"#{field}-error")).to_contain_text(words)
        expect(page.locator(f"#{field}")).to_be_focused()
        expect(page.locator(f"#{field}")).to_have_attribute("aria-invalid", "true")
        shoot(page, shots, f"wrong-{field}")
        assert_accessible(page)
        page.fill(f"#{field}", "1")
        expect(page.locator(f"#{field}-error")).to_be_hidden()
        page.click("#submit")
        expect(cards(page)).to_have_count(number)
        page.context.close()


def test_a_moment_in_an_error_is_told_as_clocks_here_do(site: Site, quiet_page: Page) -> None:
    """Not as machines write it."""
    open_playground(quiet_page, site)
    answer = json.dumps({"detail": "there is room again at 2026-12-01T15:30:00Z"})
    quiet_page.route("**/v1/jobs", lambda route: route.fulfill(status=402, body=answer))
    quiet_page.fill("#prompt", "a boat")
    quiet_page.click("#submit")
    expect(quiet_page.locator("#form-error")).to_have_text(
        re.compile(r"There is room again at Dec \d, 2026, \d+:\d\d.[AP]M\.")
    )


def test_a_price_that_cannot_be_told_says_why(site: Site, quiet_page: Page) -> None:
    """And what the server refused stays in sight after a reload."""
    open_playground(quiet_page, site)
    quiet_page.locator("#further summary").click()
    quiet_page.fill("#steps", "900")
    expect(quiet_page.locator("#price")).to_contain_text("No price: steps must be at most")
    quiet_page.reload()
    expect(quiet_page.locator("#steps")).to_have_value("900")
    expect(quiet_page.locator("#steps")).to_be_visible()
    expect(quiet_page.locator("#price")).to_contain_text("No price: steps must be at most")


def test_the_settings_of_a_card_are_used_again(site: Site, page: Page) -> None:
    """As they are, with another seed, and with four."""
    worker = Driver(site)
    open_playground(page, site)
    render(page, "a green boat", seed="4")
    worker.render()
    page.fill("#prompt", "something else")
    page.select_option("#size", "64x64")
    newest(page).get_by_role("button", name="Use these settings").click()
    expect(page.locator("#prompt")).to_have_value("a green boat")
    expect(page.locator("#prompt")).to_be_focused()
    expect(page.locator("#seed")).to_have_value("4")
    expect(page.locator("#size")).to_have_value("128x128")
    newest(page).get_by_role("button", name="Vary the seed").click()
    expect(cards(page)).to_have_count(2)
    asked = last_request(site)
    assert asked["prompt"] == "a green boat"
    assert asked["seed"] != 4
    newest(page).get_by_role("button", name="Same prompt, 4 seeds: 0.04 USD").click()
    expect(cards(page)).to_have_count(6)
    with httpx.Client(base_url=site.url) as http:
        seeds = {job["request"]["seed"] for job in http.get("/v1/jobs").json()["data"]}
    assert len(seeds) == 6


@pytest.mark.parametrize("kind", list(PictureFormat))
def test_a_picture_brings_its_settings(site: Site, page: Page, kind: PictureFormat) -> None:
    """Dropped onto the page or picked, whichever file it is."""
    open_playground(page, site)
    page.set_input_files("#pick", picture(kind, WORDS))
    _expect_settings(page)
    page.fill("#prompt", "x")
    drop(page, picture(kind, WORDS))
    _expect_settings(page)
    expect(page.locator("#veil")).to_be_hidden()
    page.click("#submit")
    expect(cards(page)).to_have_count(1)
    asked = last_request(site)
    assert (asked["seed"], asked["steps"], asked["adapters"]) == (9007199254740991, 11, {"ink": 0.5})


def _expect_settings(page: Page) -> None:
    expect(page.locator("#said")).to_contain_text("are in the form")
    expect(page.locator("#prompt")).to_have_value('a red circle,\nleft of "something": blue é')
    expect(page.locator("#steps")).to_have_value("11")
    expect(page.locator("#guidance")).to_have_value("2.5")
    expect(page.locator("#seed")).to_have_value("9007199254740991")
    expect(page.locator("#size")).to_have_value("64x64")
    expect(page.get_by_label("ink", exact=True)).to_be_checked()
    expect(page.get_by_label("Weight of ink")).to_have_value("0.5")


def drop(page: Page, file: FilePayload, place: str = "body") -> None:
    """Drag the file over the page and let it go there."""
    content = {
        "name": file["name"],
        "type": file["mimeType"],
        "data": b64encode(file["buffer"]).decode(),
        "place": place,
    }
    page.evaluate(
        """({name, type, data, place}) => {
            const carried = new DataTransfer();
            carried.items.add(new File([Uint8Array.from(atob(data), (one) => one.charCodeAt(0))], name, {type}));
            for (const event of ["dragenter", "dragover", "drop"])
                document.querySelector(place).dispatchEvent(
                    new DragEvent(event, {dataTransfer: carried, bubbles: true}));
        }""",
        content,
    )


FOREIGN: list[tuple[FilePayload, str]] = [
    (picture(PictureFormat.PNG, None), "mine.png carries no settings"),
    (picture(PictureFormat.JPEG, None), "mine.jpeg carries no settings"),
    (picture(PictureFormat.WEBP, "just a caption"), "mine.webp carries no settings"),
    (
        {"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n\xff\xff"},
        "a.png carries no settings",
    ),
    ({"name": "broken.jpg", "mimeType": "image/jpeg", "buffer": b"\xff\xd8\xff\xe1\0\x10Exif\0\0MM"}, "broken.jpg"),
    ({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}, "notes.txt is no PNG, JPEG or WebP"),
]


def test_a_foreign_picture_gets_a_plain_message(site: Site, page: Page) -> None:
    """And the form stays as it was."""
    open_playground(page, site)
    page.fill("#prompt", "mine")
    for file, words in FOREIGN:
        page.set_input_files("#pick", file)
        expect(page.locator("#trouble")).to_contain_text(words)
        expect(page.locator("#prompt")).to_have_value("mine")


def test_what_this_server_lacks_is_named(site: Site, page: Page) -> None:
    """A picture of another server's model, size and adapter."""
    open_playground(page, site)
    words = "a boat\nSteps: 4, Adapters: oil=1, Seed: 1, Size: 40x40, Model: other, Version: safelight 1"
    page.set_input_files("#pick", picture(PictureFormat.PNG, words))
    expect(page.locator("#said")).to_contain_text("without the model other and the adapter oil and the size 40x40")
    expect(page.locator("#model")).to_have_value("scenes")


def test_a_request_is_copied_as_curl_and_python(site: Site, page: Page) -> None:
    """What is copied makes the same picture."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_playground(page, site)
    render(page, "it's a boat", seed="3")
    newest(page).locator("summary").click()
    newest(page).get_by_role("button", name="curl").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    curl = str(page.evaluate("navigator.clipboard.readText()"))
    assert curl.startswith(f"curl -s {site.url}/v1/jobs")
    body = re.search(r"-d '(.*)'$", curl, re.DOTALL)
    assert body is not None
    sent = json.loads(body[1].replace("'\\''", "'"))
    assert (sent["prompt"], sent["seed"]) == ("it's a boat", "3")
    newest(page).get_by_role("button", name="Python").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    program = str(page.evaluate("navigator.clipboard.readText()"))
    compile(program, "copied", "exec")
    assert '"prompt": "it\'s a boat"' in program
