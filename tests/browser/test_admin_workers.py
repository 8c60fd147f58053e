"""The pages of workers in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from jobstore.ids import uuid7
from jobstore.operating.workers import WorkerReport
from jobstore.protocol import Worker
from tests.api.site import Site
from tests.api.test_jobs import submit
from tests.browser.looking import assert_accessible, assert_fits, assert_tables_fit, shoot

_REPORT = WorkerReport(
    version="1.0", slots=4, held=1, memory_used=30_000_000_000, memory_total=48_000_000_000,
    models=("scenes",), occupancy=0.87,
)  # fmt: skip


def start_worker(site: Site, host: str, *, lease_s: float = 600.0, report: WorkerReport = _REPORT) -> Worker:
    """A worker that has beaten once."""
    worker = Worker(id=uuid7(), host=host, pid=4711, device="NVIDIA L4", lanes=("default",), lease_s=lease_s)
    site.call(site.services.store.beat(worker, (), report))
    return worker


def test_a_worker_is_drained_and_resumed(site: Site, page: Page, shots: Path) -> None:
    """The list tells how each stands; draining asks first, and the worker's own page says what came of it."""
    with httpx.Client(base_url=site.url) as http:
        submit(http, prompt="a red circle on a table")
    worker = start_worker(site, "gpu-1")
    start_worker(site, "gpu-2", lease_s=0.0)
    site.call(site.services.store.claim(worker, worker.lanes))
    page.goto(f"{site.url}/admin/workers")
    row = page.get_by_role("row", name="gpu-1")
    expect(row).to_contain_text("serving")
    expect(row).to_contain_text("27.9 GiB of 44.7 GiB")
    expect(row).to_contain_text("87 %")
    expect(page.get_by_role("row", name="gpu-2")).to_contain_text("silent")
    expect(page.get_by_text("been silent for longer than a lease")).to_be_visible()
    assert_tables_fit(page)
    assert_accessible(page)
    shoot(page, shots, "list")
    page.get_by_role("button", name="Drain gpu-1").click()
    assert_accessible(page)
    shoot(page, shots, "dialog")
    page.get_by_role("button", name="Drain it").click()
    expect(page.locator("#said")).to_contain_text("takes no more jobs")
    expect(page.get_by_text("It finishes the 1 that it holds")).to_be_visible()
    expect(page.get_by_role("table", name="Jobs under way")).to_contain_text("a red circle on a table")
    assert_accessible(page)
    shoot(page, shots, "one")
    page.get_by_role("button", name="Resume gpu-1").click()
    page.get_by_role("button", name="Resume it").click()
    expect(page.locator("#said")).to_contain_text("takes jobs again")
    page.get_by_role("link", name="All jobs that it has or had").click()
    expect(page.locator("#jobs tbody tr")).to_have_count(1)


def test_without_workers_it_says_how_to_start_one(site: Site, phone: Page, shots: Path) -> None:
    """On a phone, too."""
    phone.goto(f"{site.url}/admin/workers")
    expect(phone.get_by_text("safelight worker --lanes default")).to_be_visible()
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "empty")
    start_worker(site, "gpu-1")
    expect(phone.get_by_role("row", name="gpu-1")).to_be_visible()
    expect(phone.get_by_role("button", name="Drain gpu-1")).to_be_in_viewport(ratio=1)
    assert_fits(phone)
    shoot(phone, shots, "phone")
    phone.get_by_role("link", name="gpu-1", exact=True).click()
    expect(phone.get_by_role("heading", name="Worker on gpu-1")).to_be_visible()
    assert_fits(phone)
    shoot(phone, shots, "one-on-a-phone")
