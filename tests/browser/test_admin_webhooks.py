"""The pages of webhooks in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import msgspec
from playwright.sync_api import Page, expect

from jobstore.webhooks.model import Endpoint
from tests.api.site import Site
from tests.browser.looking import assert_accessible, assert_fits, shoot
from tests.contract.hooking import DELIVERED, FAILED, LONG_S

BODY = '{"type":"webhook.test","data":{"endpoint_id":"x"}}'


def settle(site: Site, *, delivered: bool) -> None:
    """Try what is due, as a courier would."""
    tried = msgspec.structs.replace(DELIVERED if delivered else FAILED, payload=BODY)
    for due in site.call(site.services.store.claim_deliveries(100, 60)):
        site.call(site.services.store.settle_delivery(due, tried, LONG_S))


def sole(site: Site) -> Endpoint:
    """The only endpoint."""
    [endpoint] = site.call(site.services.store.endpoints(all_keys=True))
    return endpoint


def test_a_webhook_from_its_making_to_its_end(site: Site, page: Page, shots: Path) -> None:
    """Made, with its secret shown once; rotated, turned off and on, deleted."""
    page.goto(f"{site.url}/admin/webhooks")
    expect(page.get_by_role("heading", name="No webhook yet")).to_be_visible()
    shoot(page, shots, "none")
    page.get_by_role("link", name="New webhook").click()
    page.get_by_label("Address").fill("https://hooks.example/safelight?token=secret")
    page.get_by_label("job.started").check()
    page.get_by_label("Description").fill("for the shop")
    assert_accessible(page)
    shoot(page, shots, "new")
    page.get_by_role("button", name="Make it").click()
    secret = page.locator("#secret")
    expect(secret).to_have_text(site_secret := secret.text_content() or "")
    assert site_secret.startswith("whsec_")
    assert_accessible(page)
    shoot(page, shots, "secret")
    page.get_by_role("link", name="It is kept").click()
    expect(page.get_by_role("heading", name="https://hooks.example/safelight?…")).to_be_visible()
    expect(page.get_by_text("whsec_")).to_have_count(0)
    page.get_by_role("button", name="Rotate the secret…").click()
    assert_accessible(page)
    page.get_by_role("button", name="Rotate it").click()
    expect(page.get_by_role("heading", name="Secret rotated")).to_be_visible()
    assert secret.text_content() != site_secret
    page.get_by_role("link", name="It is kept").click()
    page.get_by_role("button", name="Disable…").click()
    page.get_by_role("button", name="Disable it").click()
    expect(page.locator("#said")).to_contain_text("Disabled")
    expect(page.locator("#webhook")).to_contain_text("on request")
    assert_accessible(page)
    shoot(page, shots, "disabled")
    page.get_by_role("button", name="Enable").click()
    expect(page.locator("#webhook")).to_contain_text("enabled")
    page.get_by_label("Description").fill("for the other shop")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#webhook")).to_contain_text("for the other shop")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("heading", name="No webhook yet")).to_be_visible()


def test_deliveries_are_looked_at_and_sent_anew(site: Site, page: Page, shots: Path) -> None:
    """One by one with what was in it, and all that failed after a question."""
    page.goto(f"{site.url}/admin/webhooks/new")
    page.get_by_label("Address").fill("https://hooks.example/safelight")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("#secret")).to_be_visible()
    endpoint = sole(site)
    site.call(site.services.store.test_endpoint(endpoint.id))
    settle(site, delivered=True)
    for _ in range(2):
        site.call(site.services.store.test_endpoint(endpoint.id))
    settle(site, delivered=False)
    page.goto(f"{site.url}/admin/webhooks")
    row = page.get_by_role("row", name="https://hooks.example/safelight")
    expect(row).to_contain_text("failing")
    expect(row.get_by_role("cell").nth(3)).to_have_text("2")
    assert_accessible(page)
    shoot(page, shots, "webhooks")
    page.get_by_role("button", name="Send a test to").click()
    expect(page.locator("#said")).to_contain_text("A test is on its way")
    settle(site, delivered=False)
    expect(page.get_by_label("The body as it was sent")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("The body as it was sent")).to_contain_text('"endpoint_id": "x"')
    assert_accessible(page)
    shoot(page, shots, "delivery")
    page.get_by_role("button", name="Deliver it anew").click()
    expect(page.locator("#delivery")).to_contain_text("pending")
    page.goto(f"{site.url}/admin/webhooks/deliveries")
    page.get_by_label("State").select_option("failed")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("table", name="Deliveries").get_by_role("row")).to_have_count(3)
    assert_accessible(page)
    shoot(page, shots, "deliveries")
    page.get_by_role("button", name="Redeliver 2…").click()
    assert_accessible(page)
    shoot(page, shots, "question")
    page.get_by_role("button", name="Redeliver them").click()
    expect(page.locator("#said")).to_contain_text("2 are tried anew")


def test_webhooks_fit_a_phone(site: Site, phone: Page, shots: Path) -> None:
    """Each of the pages."""
    phone.goto(f"{site.url}/admin/webhooks/new")
    phone.get_by_label("Address").fill(f"https://hooks.example/{'long/' * 40}")
    assert_fits(phone)
    phone.get_by_role("button", name="Make it").click()
    expect(phone.locator("#secret")).to_be_visible()
    assert_fits(phone)
    endpoint = sole(site)
    delivery = site.call(site.services.store.test_endpoint(endpoint.id))
    settle(site, delivered=False)
    pages = ("webhooks", f"webhooks/{endpoint.id}", "webhooks/deliveries", f"webhooks/deliveries/{delivery.id}")
    for number, path in enumerate(pages):
        phone.goto(f"{site.url}/admin/{path}")
        assert_fits(phone)
        assert_accessible(phone)
        shoot(phone, shots, f"phone-{number}")
