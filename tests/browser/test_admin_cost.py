"""The page of costs in a real Chromium."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.api.site import Driver, Site
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.contract.making import new_job


@pytest.fixture
def rendered(site: Site) -> None:
    """Jobs of more teams than have a colour of their own, one of them in another currency."""
    httpx.get(f"{site.url}/livez").raise_for_status()  # the store is open once it answers
    for number in range(11):
        currency = "EUR" if number == 10 else "USD"
        job = new_job(team=f"team {number}", currency=currency, price=Decimal(number + 1) / 8, model=f"m{number % 2}")
        site.call(site.services.store.submit(job))
        Driver(site).render()


@pytest.mark.usefixtures("rendered")
def test_costs_are_grouped_filtered_and_kept_as_a_file(site: Site, page: Page, shots: Path) -> None:
    """By two groups; the file holds what the table shows; the chart says in words what it shows."""
    page.goto(f"{site.url}/admin/cost")
    page.get_by_label("Group by").select_option("team")
    page.get_by_label("and by").select_option("model")
    page.get_by_role("button", name="Show").click()
    rows = page.get_by_role("table", name="Costs in USD").get_by_role("row")
    expect(rows).to_have_count(12)
    expect(rows.last).to_contain_text("6.875 USD")
    expect(page.get_by_role("table", name="Costs in EUR").get_by_role("row").last).to_contain_text("1.375 EUR")
    chart = page.get_by_role("img", name="Charged by day").last
    expect(chart).to_be_visible()
    expect(chart).to_have_accessible_name(page.locator("canvas").nth(1).get_attribute("aria-label") or "")
    page.get_by_text("The chart's numbers").last.click()
    expect(page.get_by_role("table", name="Charged by day, USD")).to_contain_text("rest")
    assert_accessible(page)
    shoot(page, shots, "grouped")
    with page.expect_download() as download:
        page.get_by_role("link", name="Costs as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("team,model,currency")
    page.get_by_text("Only some jobs, or a dimension").click()
    page.get_by_role("textbox", name="Team").fill("team 3")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("table", name="Costs in USD").get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("table", name="Completion times").get_by_role("row")).to_have_count(3)
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_role("table", name="Costs in EUR")).to_be_visible()


def test_days_are_those_of_the_browsers_time_zone(site: Site, page: Page, shots: Path) -> None:
    """Without being asked, and kept for the next page; where nothing was settled, the page says so."""
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": "Pacific/Auckland"})
    page.goto(f"{site.url}/admin/cost")
    expect(page.get_by_label("Days as in")).to_have_value("Pacific/Auckland")
    expect(page.get_by_role("heading", name="Nothing was settled on these days")).to_be_visible()
    assert_accessible(page)
    shoot(page, shots, "empty")


@pytest.mark.usefixtures("rendered")
def test_costs_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """Tables scroll in boxes of their own."""
    phone.goto(f"{site.url}/admin/cost?by=team")
    expect(phone.get_by_role("table", name="Costs in USD")).to_be_visible()
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "phone")
