"""The page of the audit log in a real Chromium."""

from __future__ import annotations

import csv
from pathlib import Path

from playwright.sync_api import Page, expect

from jobstore.audit import Actor, AuditNote
from tests.api.site import Site
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.browser.test_admin_keys import sign_in

FORMULA = '=HYPERLINK("http://evil.example")'


def write(site: Site, count: int = 55) -> None:
    """Entries of two hands; the newest is somebody's whose name a spreadsheet would run."""
    store = site.services.store
    for number in range(count):
        by = Actor(name="ann" if number % 2 else "night watch")
        site.call(store.audit(AuditNote(by=by, action="lane.paused", target="default", details={"number": number})))
    change = {"weight": {"from": 1.0, "to": 2.5}, "team": {"from": None, "to": "<b>ads</b>"}}
    site.call(store.audit(AuditNote(by=Actor(name=FORMULA), action="key.changed", target="x", details=change)))


def test_the_log_is_read_narrowed_and_downloaded(site: Site, page: Page, shots: Path) -> None:
    """Newest first, in pages; the download holds what the form finds, and nothing that a spreadsheet runs."""
    write(site)
    sign_in(site, page, "/admin/audit")
    rows = page.locator("#audit tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("key.created")  # the one that signed in
    rows.nth(1).locator("summary").click()
    expect(rows.nth(1)).to_contain_text("1.0 → 2.5")
    expect(rows.nth(1)).to_contain_text("none → <b>ads</b>")
    assert_accessible(page)
    shoot(page, shots, "log")
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(7)
    page.get_by_role("link", name="First page").click()
    page.get_by_label("Who").fill("NIGHT")
    page.get_by_label("Who").press("Enter")
    expect(rows).to_have_count(28)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    assert len(list(csv.reader(download.value.path().read_text().splitlines()))) == 29
    page.get_by_label("What", exact=True).fill("key.changed")
    page.get_by_label("What", exact=True).press("Enter")
    expect(page.locator("#audit")).to_contain_text("Nothing like that was done")
    page.get_by_label("Who").fill("hyperlink")
    page.get_by_label("Who").press("Enter")
    expect(rows).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    (_, line) = csv.reader(download.value.path().read_text().splitlines())
    assert line[2] == f"'{FORMULA}"


def test_the_log_fits_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """The table scrolls in its own box, the section is in sight, and the filter is folded until it is wanted."""
    write(site, 3)
    sign_in(site, phone, "/admin/audit")
    expect(phone.get_by_role("link", name="Audit", exact=True)).to_be_in_viewport(ratio=1)
    expect(phone.get_by_label("Who", exact=True)).to_be_hidden()
    phone.get_by_text("Filter", exact=True).click()
    expect(phone.get_by_label("Who", exact=True)).to_be_visible()
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "log")
