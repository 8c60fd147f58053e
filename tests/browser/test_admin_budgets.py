"""The page of budgets in a real Chromium."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import httpx
from playwright.sync_api import Page, Route, expect

from jobstore.ids import uuid7
from jobstore.quotas import Quota, QuotaKind
from tests.api.site import Site
from tests.api.test_jobs import submit
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.browser.test_admin_keys import sign_in
from tests.contract.keying import make_key


def give(site: Site, team: str, most: str, kind: QuotaKind = QuotaKind.SPEND, period: str = "1M") -> None:
    """Give a team a quota."""
    currency = "USD" if kind is QuotaKind.SPEND else ""
    quota = Quota(
        id=uuid7(), owner_kind="team", owner=team, kind=kind, most=Decimal(most), currency=currency, period=period
    )
    site.call(site.services.store.create_quota(quota))


def hold(site: Site, team: str) -> None:
    """Hand in a job of a team, which holds 0.01 USD."""
    secret = site.call(make_key(site.services.store, f"a key of {team}", team=team))
    site.services.keys.forget()
    with httpx.Client(base_url=site.url, headers={"authorization": f"Bearer {secret}"}) as http:
        submit(http)


def test_a_budget_is_made_changed_and_deleted(site: Site, page: Page, shots: Path) -> None:
    """Money, to the digit; what is under way is held, and what is nearly used is marked."""
    hold(site, "ads")
    sign_in(site, page, "/admin/budgets")
    expect(page.locator("#budgets")).to_contain_text("No budget yet")
    page.get_by_role("link", name="New budget").click()
    page.locator("[name=team]").fill("ads")
    expect(page.locator("[name=customer]")).to_be_hidden()
    page.locator("[name=limit]").fill("0.011")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    assert_accessible(page)
    shoot(page, shots, "new")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("#said")).to_contain_text("Made: 0.011 USD a month for the team ads")
    row = page.get_by_role("row", name="team ads")
    expect(row).to_contain_text("a month, Europe/Berlin")
    expect(row.locator("meter")).to_have_attribute("value", "0")
    hold(site, "ads")
    expect(row).to_contain_text("nearly used")  # by itself
    expect(row.get_by_role("cell").nth(2)).to_have_text("0.01 USD")
    assert_accessible(page)
    shoot(page, shots, "near")
    row.get_by_role("button", name="Change spend").click()
    page.get_by_label("Limit in USD").fill("20.5")
    page.get_by_role("button", name="Set it").click()
    expect(page.locator("#said")).to_contain_text("Now 20.5 USD a month for the team ads")
    expect(row).to_contain_text("20.49 USD")
    row.get_by_role("button", name="Delete spend").click()
    shoot(page, shots, "delete")
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#budgets")).to_contain_text("No budget yet")


def test_budgets_are_found_by_their_owner(site: Site, page: Page, shots: Path) -> None:
    """Of a kind, by a part of the name, or those nearly used."""
    give(site, "ads", "100")
    give(site, "ads", "0", period="1d")
    give(site, "games", "60", QuotaKind.REQUESTS, "1m")
    give(site, "games", "5", QuotaKind.CONCURRENCY, "total")
    sign_in(site, page, "/admin/budgets")
    rows = page.locator("#budgets tbody tr")
    expect(rows).to_have_count(4)
    shoot(page, shots, "all")
    page.get_by_label("Owner's name, or a key's id").fill("GAM")
    expect(rows).to_have_count(2)
    page.get_by_label("Which").select_option("near")
    expect(page.locator("#budgets")).to_contain_text("No budget is like that")
    page.get_by_label("Owner's name, or a key's id").fill("")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("used up")
    page.locator("[name=of]").select_option("customer")
    expect(page.locator("#budgets")).to_contain_text("No budget is like that")


def test_a_refresh_takes_no_answer_away_from_a_filter(site: Site, page: Page) -> None:
    """The list is put in anew while the filter's answer is under way; that comes into the new one."""
    give(site, "ads", "100")
    give(site, "games", "60")
    sign_in(site, page, "/admin/budgets")
    rows = page.locator("#budgets tbody tr")
    expect(rows).to_have_count(2)
    held: list[Route] = []
    page.route("**/admin/budgets?*owner=gam*", lambda route: held.append(route))
    with page.expect_request("**/admin/budgets?*owner=gam*"):
        page.get_by_label("Owner's name, or a key's id").fill("gam")
    page.evaluate("document.querySelector('#budgets').dataset.mark = 'before'")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('live:beat'))")
    expect(page.locator("#budgets:not([data-mark])")).to_have_count(1)
    held[0].continue_()
    expect(rows).to_have_count(1)


def test_budgets_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """The list and the form; fields that a kind does not have are not there."""
    give(site, "ads", "100")
    sign_in(site, phone, "/admin/budgets")
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "list")
    phone.goto(f"{site.url}/admin/budgets/new?customer=acme")
    expect(phone.locator("[name=customer]")).to_have_value("acme")
    phone.locator("[name=kind]").select_option("concurrency")
    expect(phone.locator("[name=period]")).to_be_hidden()
    assert_fits(phone)
    shoot(phone, shots, "new")
