"""The pages of API keys in a real Chromium."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from jobstore.ids import uuid7
from jobstore.keys import hash_secret
from jobstore.quotas import OwnerKind, Quota, QuotaKind
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.contract.keying import make_key

NAME = "ads <script>alert(1)</script>"


def status_with(site: Site, secret: str) -> int:
    """What the API answers to a secret."""
    return httpx.get(f"{site.url}/v1/me", headers={"authorization": f"Bearer {secret}"}).status_code


def shown_secret(page: Page) -> str:
    """The secret on the page."""
    expect(page.locator("#secret")).to_be_visible()
    return page.locator("#secret").inner_text()


def make_the_first(site: Site, page: Page, shots: Path) -> None:
    """Make an admin key on an open server, and sign in with it."""
    page.goto(f"{site.url}/admin/keys")
    expect(page.locator("main")).to_contain_text("No key yet")
    shoot(page, shots, "empty")
    page.get_by_role("link", name="Make an admin key").click()
    page.get_by_label("Name").fill("ops")
    expect(page.get_by_role("checkbox", name="admin:")).to_be_checked()
    page.get_by_role("button", name="Make it").click()
    secret = shown_secret(page)
    expect(page.locator("[data-pause]")).to_contain_text("Sign in again")  # and what is shown once stays
    assert shown_secret(page) == secret
    page.get_by_role("link", name="It is kept").click()
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="ops")).to_be_visible()
    page.get_by_role("button", name="Revoke…").click()
    expect(page.get_by_role("dialog")).to_contain_text("This is the last admin key in force")
    shoot(page, shots, "revoke-the-last")
    page.get_by_role("button", name="Leave it").click()


def test_a_key_is_made_used_rotated_and_revoked(site: Site, page: Page, shots: Path) -> None:
    """Its secret is shown once: not in the address, not after a reload or on the way back."""
    make_the_first(site, page, shots)
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Team").fill("ads")
    page.get_by_role("checkbox", name="wide").check()
    page.get_by_label("Expires (UTC)").fill(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%dT%H:%M:%S}")
    assert_accessible(page)
    shoot(page, shots, "new")
    page.get_by_role("button", name="Make it").click()
    first = shown_secret(page)
    assert_accessible(page)
    shoot(page, shots, "secret")
    assert first not in page.url
    assert status_with(site, first) == 200
    page.get_by_role("link", name="It is kept").click()
    expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    page.go_back()
    expect(page.locator("main")).not_to_contain_text(first)
    page.go_forward()
    page.get_by_role("link", name="Change", exact=True).click()
    page.get_by_label("Weight").fill("2.5")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#said")).to_contain_text("Changed")
    expect(page.locator("dl.facts")).to_contain_text("2.5")
    page.get_by_role("button", name="Rotate the secret…").click()
    page.get_by_label("The old secret counts beside it for").select_option("1 hour")
    assert_accessible(page)
    page.get_by_role("button", name="Rotate it").click()
    expect(page.locator("main")).to_contain_text("The secret before counts too")
    second = shown_secret(page)
    assert (status_with(site, first), status_with(site, second)) == (200, 200)
    page.reload()
    expect(page.locator("#secret")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("key.rotated")
    page.get_by_role("button", name="Revoke…").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.locator("#said")).to_contain_text("is revoked")
    assert (status_with(site, first), status_with(site, second)) == (401, 401)
    expect(page.get_by_role("button", name="Revoke…")).to_have_count(0)


def spend(site: Site) -> None:
    """Keys of all kinds; one of them with a budget, and a job that was charged."""
    store = site.services.store
    secret = site.call(make_key(store, "the web shop of a customer with a long name", team="ads", customer="acme"))
    site.call(make_key(store, "night watch", admin=True))
    late = datetime.now(UTC) - timedelta(days=1)
    site.call(make_key(store, "last year's", models=("wide", "scenes"), expires_at=late))
    match = site.call(store.find_key(hash_secret(secret)))
    assert match is not None
    budgets: tuple[tuple[OwnerKind, str, str], ...] = (("key", str(match.key.id), "0.011"), ("team", "ads", "10"))
    for kind, owner, most in budgets:
        quota = Quota(
            id=uuid7(), owner_kind=kind, owner=owner, kind=QuotaKind.SPEND, most=Decimal(most), currency="USD",
            period="1M", zone="Europe/Berlin",
        )  # fmt: skip
        site.call(store.create_quota(quota))
    site.services.keys.forget()
    with httpx.Client(base_url=site.url, headers={"authorization": f"Bearer {secret}"}) as http:
        submit(http)
    Driver(site).render()


def sign_in(site: Site, page: Page, path: str) -> None:
    """With a fresh admin key."""
    secret = site.call(make_key(site.services.store, "ops", admin=True))
    site.services.keys.forget()
    page.goto(f"{site.url}{path}")
    box = page.get_by_label("API key").bounding_box()
    assert box is not None and box["width"] > 200, "there is room for a key"
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Sections")).to_be_visible()


def test_the_list_tells_what_keys_spend_and_is_searched(site: Site, page: Page, shots: Path) -> None:
    """Against the budget of which the least is left; the address keeps what is asked."""
    spend(site)
    sign_in(site, page, "/admin/keys")
    row = page.get_by_role("row", name="the web shop")
    expect(row).to_contain_text("0.01 USD")
    expect(row).to_contain_text("nearly used")
    expect(row.locator("meter")).to_have_attribute("value", "90")
    assert_accessible(page)
    shoot(page, shots, "list")
    page.get_by_label("State").select_option("expired")
    expect(page.locator("#keys tbody tr")).to_have_count(1)
    expect(page.locator("#keys")).to_contain_text("last year's")
    page.get_by_label("State").select_option("any")
    page.get_by_label("Name, or hint").fill("WEB SHOP")
    expect(page.locator("#keys tbody tr")).to_have_count(1)
    expect(page).to_have_url(f"{site.url}/admin/keys?text=WEB%20SHOP&team=&state=")
    page.get_by_role("link", name="the web shop").click()
    expect(page.get_by_role("heading", name="Budgets")).to_be_visible()
    expect(page.get_by_role("table", name="What it came to this month, by model")).to_contain_text("scenes")
    assert_accessible(page)
    shoot(page, shots, "key")


def test_what_is_wrong_is_said_beside_the_field(site: Site, quiet_page: Page, shots: Path) -> None:
    """What was typed stays; put right, it goes through."""
    page = quiet_page
    sign_in(site, page, "/admin/keys/new")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Team").fill("no good")
    page.get_by_role("button", name="Make it").click()
    team = page.get_by_label("Team")
    expect(team).to_have_attribute("aria-invalid", "true")
    expect(team).to_be_focused()
    expect(page.locator("#wrong")).to_contain_text("Team must be 1 to 64 of A-Z")
    expect(page.get_by_label("Name")).to_have_value("ann")
    assert_accessible(page)
    shoot(page, shots, "wrong")
    team.fill("good")
    page.get_by_role("checkbox", name="submit:").uncheck()
    page.get_by_role("checkbox", name="read:").uncheck()
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("#wrong")).to_contain_text("Scopes must be one or more")
    page.get_by_role("checkbox", name="observe:").check()
    page.get_by_role("button", name="Make it").click()
    shown_secret(page)


def test_keys_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """List, form and a key's own page."""
    spend(site)
    sign_in(site, phone, "/admin/keys")
    assert_fits(phone)
    shoot(phone, shots, "list")
    phone.get_by_role("link", name="the web shop").click()
    expect(phone.get_by_role("heading", name="Budgets")).to_be_visible()
    assert_fits(phone)
    assert_accessible(phone)
    shoot(phone, shots, "key")
    phone.goto(f"{site.url}/admin/keys/new")
    assert_fits(phone)
    shoot(phone, shots, "new")
