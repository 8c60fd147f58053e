"""The playground's main path, clicked through in a real Chromium: from a prompt to pictures, and on from there."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, Route, expect

from jobstore.protocol import Pace
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.browser.darkroom import cards, newest, open_playground, render, width_of
from tests.browser.looking import assert_accessible, assert_fits, shoot


def test_a_prompt_becomes_a_picture_and_a_repeat_a_hit(site: Site, page: Page, shots: Path) -> None:
    """Place in line, steps, previews, the picture; the second time it says that nothing was rendered."""
    worker = Driver(site)
    open_playground(page, site)
    render(page, "a green star", seed="11")
    card = newest(page)
    expect(card.locator(".standing")).to_have_text("Next in line")
    expect(page.locator("#under-way")).to_have_text("1 under way")
    lease = worker.claim()
    expect(card.locator(".standing")).to_have_text("Warming up…")
    for step in (2, 4):
        worker.step(lease.job.id, step)
        worker.preview(lease.job.id, step)
        expect(card.locator(".standing")).to_have_text(re.compile(f"^Step {step} of 8"))
    preview = card.locator("img.preview")
    expect(preview).to_have_attribute("alt", "preview of picture 1: a green star")
    assert width_of(preview) == 32
    shoot(page, shots, "developing")
    worker.finish(lease)
    picture = card.get_by_alt_text("a green star (seed 11)", exact=True)
    expect(picture).to_have_class("developed")
    assert width_of(picture) == 128
    expect(card.locator(".facts")).to_have_text("seed 11 · 0.01 USD")
    expect(page.locator("#under-way")).to_be_empty()
    render(page, "a green star", seed="11")
    expect(cards(page)).to_have_count(2)
    expect(newest(page).locator(".facts")).to_contain_text("free, from the cache")
    expect(page.locator("#said")).to_contain_text("Found in the cache")


def test_many_jobs_at_once_go_over_one_connection(site: Site, page: Page, shots: Path) -> None:
    """The form is free at once, by the keyboard too; each job has a card; one stream tells of all."""
    worker, streams = Driver(site), []
    page.on("request", lambda request: streams.append(request) if "/events" in request.url else None)
    page.on("requestfinished", lambda request: streams.remove(request) if request in streams else None)
    page.on("requestfailed", lambda request: streams.remove(request) if request in streams else None)
    open_playground(page, site)
    for number in range(8):
        page.fill("#prompt", f"shape {number}")
        page.press("#prompt", "Control+Enter")
    expect(cards(page)).to_have_count(8)
    expect(page.locator("#under-way")).to_have_text("8 under way")
    leases = [worker.claim() for _ in range(8)]
    for lease in leases:
        worker.step(lease.job.id, 3)
    expect(page.get_by_text("Step 3 of 8")).to_have_count(8)
    assert len(streams) == 1
    for lease in leases:
        worker.finish(lease)
    expect(page.locator("img.developed")).to_have_count(8)
    shoot(page, shots, "many")


def test_who_comes_back_finds_everything(site: Site, page: Page) -> None:
    """What is under way goes on where it stands, and the form is as it was left."""
    worker = Driver(site)
    open_playground(page, site)
    render(page, "a blue ring", seed="5")
    render(page, "a red cross", seed="6")
    worker.render()
    expect(page.locator("img.developed")).to_have_count(1)
    lease = worker.claim()
    page.goto("about:blank")
    worker.step(lease.job.id, 5)
    open_playground(page, site)
    expect(cards(page)).to_have_count(2)
    expect(newest(page).locator(".standing")).to_have_text(re.compile("^Step 5 of 8"))
    expect(page.locator("#prompt")).to_have_value("a red cross")
    expect(page.locator("#seed")).to_have_value("6")
    worker.finish(lease)
    expect(page.locator("img.developed")).to_have_count(2)


def test_a_stream_that_breaks_off_is_taken_up_again(site: Site, page: Page) -> None:
    """The page goes on by itself, and shows no trouble when it does."""
    worker = Driver(site)
    open_playground(page, site)
    broken = iter([True])

    def pass_on(route: Route) -> None:
        if next(broken, False):
            route.fulfill(status=200, content_type="text/event-stream", body="")
        else:
            route.continue_()

    page.route("**/v1/jobs/events*", pass_on)
    render(page, "a heart")
    lease = worker.claim()
    expect(newest(page).locator(".standing")).to_have_text("Warming up…")
    worker.step(lease.job.id, 7)
    expect(newest(page).locator(".standing")).to_have_text(re.compile("^Step 7 of 8"))
    expect(page.locator("#trouble")).to_be_hidden()


def test_a_job_is_canceled(site: Site, page: Page) -> None:
    """Before it runs at once; one that runs, at its next step. One that joined says that it costs nothing."""
    worker = Driver(site)
    open_playground(page, site)
    render(page, "a star", seed="1")
    lease = worker.claim()
    expect(newest(page).locator(".standing")).to_have_text("Warming up…")
    newest(page).get_by_role("button", name="Cancel").click()
    expect(newest(page).locator(".standing")).to_have_text("Canceling…")
    assert site.call(site.services.store.get(lease.job.id)).cancel_requested
    render(page, "a moon", seed="1")
    expect(cards(page)).to_have_count(2)
    render(page, "a moon", seed="1")
    expect(cards(page)).to_have_count(3)
    expect(newest(page).locator(".facts")).to_contain_text("free, shares another render")
    newest(page).get_by_role("button", name="Cancel").click()
    expect(newest(page).locator(".standing")).to_have_text("Canceled")


def test_a_waiting_job_tells_its_place_and_its_time(site: Site, page: Page) -> None:
    """And that its lane is paused."""
    store, worker = site.services.store, Driver(site)
    with httpx.Client(base_url=site.url) as http:
        submit(http)
        worker.claim()
        pace = Pace(model="scenes", width=128, height=128, device="cpu", step_s=2.0)
        site.call(store.beat(worker._worker, [pace]))
        submit(http)
        open_playground(page, site)
        render(page, "a star")
        expect(newest(page).locator(".standing")).to_have_text(re.compile(r"^Number 2 in line, starts in about \d+ s$"))
        http.post("/v1/lanes/default/pause", json={})
        expect(newest(page).locator(".standing")).to_have_text("Number 2 in line; the queue is paused")


def test_older_pictures_come_page_by_page(site: Site, page: Page) -> None:
    """By the list's cursor, when the end of the page comes near."""
    worker = Driver(site)
    with httpx.Client(base_url=site.url) as http:
        for seed in range(30):
            submit(http, seed=seed)
            worker.render()
    open_playground(page, site)
    expect(cards(page)).to_have_count(24)
    page.locator("#more").scroll_into_view_if_needed()
    expect(cards(page)).to_have_count(30)
    expect(page.locator("#more")).to_be_hidden()
    assert page.locator("img[src]").count() <= 30


def test_an_empty_tray_says_what_to_do(site: Site, page: Page, phone: Page, shots: Path) -> None:
    """With ideas to begin from; it is fit for everybody, at a desk and on a phone."""
    for kind, one in (("desk", page), ("phone", phone)):
        open_playground(one, site)
        expect(one.locator("#empty")).to_contain_text("press Render")
        assert_fits(one)
        assert_accessible(one)
        shoot(one, shots, f"empty-{kind}")
    page.get_by_role("button", name="a large purple heart").click()
    expect(page.locator("#prompt")).to_have_value("a large purple heart")


def test_the_page_is_fit_for_everybody(site: Site, page: Page, phone: Page, shots: Path) -> None:
    """With cards in every state, details open, at a desk and on a phone, in both colour schemes."""
    worker = Driver(site)
    open_playground(page, site)
    for number in range(3):
        render(page, f"a rather long prompt that needs more than one line on a card, and even more than two: {number}")
        expect(cards(page)).to_have_count(number + 1)
    worker.render()
    lease = worker.claim()
    worker.step(lease.job.id, 3)
    expect(page.get_by_text("Step 3 of 8")).to_be_visible()
    page.locator(".job details summary").last.click()
    for kind, one in (("desk", page), ("phone", phone)):
        if one is phone:
            open_playground(phone, site)
            expect(cards(phone)).to_have_count(3)
        cards(one).last.scroll_into_view_if_needed()
        expect(one.locator("img.developed")).to_be_attached()
        assert_fits(one)
        assert_accessible(one)
        shoot(one, shots, f"cards-{kind}")
    icons = newest(page).locator(".tools .bare")
    assert len(set(icons.evaluate_all("icons => icons.map((icon) => icon.offsetTop)"))) == 1, "an icon stands alone"
    page.locator("#veil").evaluate("veil => veil.classList.add('shown')")
    shoot(page, shots, "dragging")
    words, bench = page.locator("#veil p").bounding_box(), page.locator(".bench").bounding_box()
    assert words is not None
    assert bench is not None
    assert words["x"] >= bench["x"] + bench["width"], "the form covers what the veil says"
