"""The playground and the documentation, clicked through in a real Chromium."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, Page, expect

from jobstore.protocol import Pace
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.contract.keying import make_key


def test_a_prompt_becomes_a_picture_and_a_repeat_a_hit(site: Site, page: Page) -> None:
    """Submit, live steps, the picture; the second time it says that nothing was rendered."""
    worker = Driver(site)
    page.goto(site.url)
    expect(page.locator("#model option")).to_have_count(2)
    expect(page.locator("#size")).to_have_value("128x128")
    page.fill("#prompt", "a green star")
    page.fill("#seed", "11")
    page.click("#submit")
    expect(page.locator("#state")).to_have_text("queued")
    expect(page.locator("#steps")).to_have_text("1 in line")
    lease = worker.claim()
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("#steps")).to_have_text("loading…")
    for step in (3, 6):
        worker.step(lease.job.id, step)
        expect(page.locator("#steps")).to_have_text(f"step {step} of 8")
    picture = page.locator("#pictures img")
    for step in (2, 4):
        worker.preview(lease.job.id, step)
        expect(page.locator("#pictures figcaption")).to_have_text(f"preview, step {step} of 8")
    expect(picture).to_have_attribute("alt", "preview of picture 1")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 32
    assert lease.job.request.previews == 2
    worker.finish(lease)
    expect(page.locator("#state")).to_have_text("succeeded")
    expect(picture).to_have_attribute("alt", "a green star (seed 11)")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 128
    page.click("#submit")
    expect(page.locator("#note")).to_contain_text("found in the cache")
    expect(picture).to_have_count(1)
    expect(page.locator("#link")).to_have_attribute("href", f"/v1/jobs/{_newest(site)}")


def test_an_identical_request_says_that_it_joined_and_can_be_canceled(site: Site, page: Page) -> None:
    """The button ends the job, and its stream."""
    page.goto(site.url)
    expect(page.locator("#model option")).to_have_count(2)
    page.fill("#seed", "1")
    page.click("#submit")
    expect(page.locator("#note")).to_contain_text("seed 1")
    page.click("#submit")
    expect(page.locator("#note")).to_contain_text("joined")
    page.click("#cancel")
    expect(page.locator("#state")).to_have_text("canceled")
    expect(page.locator("#cancel")).to_be_hidden()


def test_a_waiting_job_tells_its_place_and_its_time(site: Site, page: Page) -> None:
    """And that its lane is paused."""
    store, worker = site.services.store, Driver(site)
    with httpx.Client(base_url=site.url) as http:
        submit(http)
        worker.claim()
        pace = Pace(model="scenes", width=128, height=128, device="cpu", step_s=2.0)
        site.call(store.beat(worker._worker, [pace]))
        submit(http)
        page.goto(site.url)
        expect(page.locator("#model option")).to_have_count(2)
        page.click("#submit")
        expect(page.locator("#steps")).to_have_text(re.compile(r"^2 in line, about \d+ s$"))
        http.post("/v1/lanes/default/pause", json={})
        page.click("#submit")
        expect(page.locator("#steps")).to_have_text("3 in line, the lane is paused")


def test_a_key_brings_the_models(site: Site, browser: Browser) -> None:
    """The page says where a key goes, says when it is wrong, and fills its form once it is right."""
    page = browser.new_page()  # of its own: the browser itself complains of every 401
    page.goto(site.url)
    expect(page.locator("#model option")).to_have_count(2)
    secret = site.call(make_key(site.services.store, "ann"))
    site.services.keys.forget()
    page.reload()
    expect(page.locator("#key-hint")).to_have_text("enter an API key here")
    page.fill("#key", "sl_wrong")
    page.press("#key", "Tab")
    expect(page.locator("#key-hint")).to_contain_text("not valid")
    page.fill("#key", secret)
    page.press("#key", "Tab")
    expect(page.locator("#size")).to_have_value("128x128")
    expect(page.locator("#model option")).to_have_count(2)
    expect(page.locator("#key-hint")).to_be_empty()
    page.close()


def test_the_documentation_lists_every_endpoint(site: Site, page: Page) -> None:
    """Drawn without anything from elsewhere."""
    page.goto(f"{site.url}/docs")
    page.get_by_text("POST /v1/jobs", exact=True).click()
    expect(page.locator("details[open]").get_by_text("The request can't be taken")).to_be_visible()
    expect(page.locator("#operations > details code")).not_to_have_count(0)


def _newest(site: Site) -> str:
    from jobstore.protocol import JobFilter

    return str(site.call(site.services.store.list_jobs(JobFilter(limit=1))).jobs[0].id)
