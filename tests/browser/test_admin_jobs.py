"""The pages of jobs in a real Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from jobstore.job import JobError
from jobstore.ledger import Spent
from jobstore.protocol import Lease
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.browser.looking import assert_accessible, assert_fits, assert_tables_fit, shoot
from tests.browser.test_admin_workers import start_worker

PROMPTS = (
    "a red circle",
    "a yellow square on a blue table, seen from above, late in the afternoon",
    "a fox",
)


def fail(site: Site, lease: Lease) -> None:
    """End the attempt by an error that no retry mends."""
    error = JobError(code="invalid_request", message="the size <b>is</b> not a multiple of 16")
    site.call(site.services.store.fail(lease.token, error, spent=Spent(device="cpu")))


def fill(site: Site) -> None:
    """A few jobs of every kind: three with pictures, two that failed, one that runs, five that wait."""
    worker = Driver(site)
    with httpx.Client(base_url=site.url) as http:
        for number, prompt in enumerate(PROMPTS):
            submit(http, prompt=prompt, seed=40 * number, dimensions={"team": "red", "experiment": f"e{number}"})
            worker.render()
        for prompt in ("too tall", "too wide"):
            submit(http, prompt=prompt, dimensions={"team": "blue"})
            fail(site, worker.claim())
        submit(http, prompt="under way")
        lease = worker.claim()
        worker.step(lease.job.id, 3, attempt=lease.job.attempts)
        for number in range(5):
            submit(http, prompt=f"it waits, {number}", dimensions={"team": "blue"})


def test_jobs_are_found_by_what_is_typed_and_ticked(site: Site, page: Page, shots: Path) -> None:
    """The list follows, the address tells the filter alone, and a new job comes by itself."""
    fill(site)
    page.goto(f"{site.url}/admin/jobs")
    rows = page.locator("#jobs tbody tr")
    expect(rows).to_have_count(11)
    expect(rows.first).to_contain_text("it waits, 4")
    expect(page.locator("#jobs img")).to_have_count(3)
    assert_tables_fit(page)
    assert_accessible(page)
    shoot(page, shots, "all")
    page.get_by_label("failed").check()
    expect(rows).to_have_count(2)
    expect(page).to_have_url(f"{site.url}/admin/jobs?state=failed")
    page.get_by_label("Prompt, or a whole id").press_sequentially("TOO T")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(f"{site.url}/admin/jobs?state=failed&text=TOO+T")
    expect(page.locator("#jobs p").first).to_contain_text(re.compile(r"1\s+job"))
    page.get_by_role("link", name="Clear").click()
    page.get_by_text("More: dimensions").click()
    page.get_by_label("Dimension", exact=True).fill("team:blue")
    page.get_by_label("Dimension", exact=True).press("Enter")
    expect(rows).to_have_count(7)
    shoot(page, shots, "dimension")
    with httpx.Client(base_url=site.url) as http:
        submit(http, prompt="the newest", dimensions={"team": "blue"})
    expect(rows.first).to_contain_text("the newest")
    page.get_by_label("Prompt, or a whole id").fill("nothing of the kind")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()


def test_a_picture_of_the_list_is_small(site: Site, page: Page) -> None:
    """It is drawn, and within 96 pixels whatever the picture's size."""
    worker = Driver(site)
    with httpx.Client(base_url=site.url) as http:
        submit(http)
        worker.render()
    page.goto(f"{site.url}/admin/jobs")
    assert page.locator("#jobs img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 96


def test_many_are_canceled_once_that_is_confirmed(site: Site, page: Page, shots: Path) -> None:
    """The dialog tells how many and of what; leaving it changes nothing."""
    fill(site)
    page.goto(f"{site.url}/admin/jobs?state=queued&dimension=team:blue")
    page.get_by_role("link", name="Cancel these").click()
    dialog = page.get_by_role("dialog", name="Cancel 5 jobs?")
    expect(dialog).to_contain_text("blue")
    assert_accessible(page)
    shoot(page, shots, "dialog")
    dialog.get_by_role("link", name="Leave them").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#jobs tbody tr")).to_have_count(5)
    page.get_by_role("link", name="Cancel these").click()
    dialog.get_by_role("button", name="Cancel 5 jobs").click()
    expect(page.locator("#said")).to_contain_text("5 jobs canceled")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()
    page.goto(f"{site.url}/admin/jobs?state=failed")
    page.get_by_role("link", name="Redrive these").click()
    page.get_by_role("button", name="Redrive 2 jobs").click()
    expect(page.locator("#said")).to_contain_text("2 jobs queued anew")
    page.goto(f"{site.url}/admin/jobs?state=queued")
    expect(page.locator("#jobs tbody tr")).to_have_count(2)


def test_a_job_tells_everything_and_is_retried(site: Site, page: Page, shots: Path) -> None:
    """Why it failed in plain words, its attempts, its events; then it waits again, and is canceled."""
    fill(site)
    page.goto(f"{site.url}/admin/jobs?text=too+tall")
    page.locator("#jobs tbody th a").click()
    expect(page.get_by_text("Submit it anew with others")).to_be_visible()
    expect(page.get_by_text("the size <b>is</b> not a multiple of 16").first).to_be_visible()
    expect(page.get_by_role("table", name="Attempts")).to_contain_text("invalid_request")
    assert_accessible(page)
    shoot(page, shots, "failed")
    page.get_by_role("button", name="Retry this job").click()
    page.get_by_role("button", name="Retry it").click()
    expect(page.locator("#said")).to_contain_text("queued anew")
    expect(page.get_by_text("place 6 in default")).to_be_visible()
    expect(page.locator(".timeline")).to_contain_text("redriven")
    page.get_by_role("button", name="Cancel this job").click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#said")).to_contain_text("canceled")
    expect(page.locator("#job .badge").first).to_have_text("canceled")


def test_a_job_is_followed_to_its_pictures(site: Site, page: Page, shots: Path) -> None:
    """Waiting, steps, then the pictures, which load for who has no key but a session."""
    worker = Driver(site)
    with httpx.Client(base_url=site.url) as http:
        job = submit(http, prompt="a red circle", seed=200, n=2, dimensions={"team": "red"})
    start_worker(site, "gpu-1")
    page.goto(f"{site.url}/admin/jobs/{job['id']}")
    expect(page.get_by_text("place 1 in default")).to_be_visible()
    lease = worker.claim()
    worker.step(lease.job.id, 3, attempt=lease.job.attempts)
    expect(page.get_by_text("Step 3 of 8")).to_be_visible()
    shoot(page, shots, "running")
    worker.finish(lease)
    pictures = page.locator(".pictures img")
    expect(pictures).to_have_count(2)
    assert pictures.first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 128
    expect(page.get_by_role("table", name="Attempts")).to_contain_text("succeeded")
    assert_accessible(page)
    shoot(page, shots, "succeeded")


def test_jobs_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """The list, the dialog and one job."""
    fill(site)
    phone.goto(f"{site.url}/admin/jobs?state=queued")
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "list")
    phone.get_by_role("link", name="Cancel these").click()
    expect(phone.get_by_role("dialog")).to_be_visible()
    assert_fits(phone)
    shoot(phone, shots, "dialog")
    phone.get_by_role("link", name="Leave them").click()
    phone.goto(f"{site.url}/admin/jobs?text=fox")
    phone.locator("#jobs tbody th a").click()
    expect(phone.locator(".pictures img")).to_be_visible()
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "one")
