"""The pages of webhooks: who may change them, what is shown of them, and what never is."""

from __future__ import annotations

import re
from html import unescape
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from api.webhook_views import shown_address
from jobstore.live import WEBHOOKS_BELL
from jobstore.webhooks.model import DeliveryFilter, DeliveryState, Endpoint
from tests.api.admin.conftest import token
from tests.api.site import Site
from tests.contract.hooking import DELIVERED, FAILED, LONG_S, add

PATH = "/admin/webhooks"
URL = "https://hooks.example/very-secret?token=very-secret"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


def make(client: httpx.Client, **fields: object) -> httpx.Response:
    """Send the form for a new one."""
    form = {"url": URL, "events": ["job.failed", "job.dead"], **fields}
    return client.post(PATH, data={"csrf": token(client, f"{PATH}/new"), **form})


def act(client: httpx.Client, path: str, **fields: object) -> httpx.Response:
    """Send a form of the page of webhooks."""
    return client.post(path, data={"csrf": token(client, f"{PATH}/new"), **fields})


def endpoints(site: Site) -> tuple[Endpoint, ...]:
    """All there are."""
    return site.call(site.services.store.endpoints(all_keys=True))


def actions(site: Site) -> list[str]:
    """What the audit log tells of webhooks, the newest first."""
    entries = site.call(site.services.store.list_audit()).entries
    return [entry.action for entry in entries if entry.action.startswith("webhook")]


def failed_test(site: Site, endpoint: Endpoint) -> UUID:
    """A test that the endpoint failed to take for good."""
    delivery = site.call(site.services.store.test_endpoint(endpoint.id))
    for due in site.call(site.services.store.claim_deliveries(100, 60)):
        tried = msgspec.structs.replace(FAILED, error="<b>no</b>", payload='{"type":"<i>"}')
        site.call(site.services.store.settle_delivery(due, tried, LONG_S))
    return delivery.id


def test_a_secret_is_shown_once(site: Site, signed_in: httpx.Client, secrets: dict[str, str]) -> None:
    """When the webhook is made and when it is rotated, and on no page after; each is in the audit log."""
    ann = next(key for key in site.call(site.services.store.list_keys()) if key.name == "ann")
    answer = make(signed_in, key=str(ann.id), description="<b>mine</b>")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    [made] = endpoints(site)
    assert (made.key_id, made.url, made.events) == (ann.id, URL, ("job.failed", "job.dead"))
    rotated = act(signed_in, f"{PATH}/{made.id}/rotate")
    assert len({*SECRET.findall(answer.text), *SECRET.findall(rotated.text)}) == 2
    assert actions(site) == ["webhook.rotated", "webhook.created"]
    for path in (PATH, f"{PATH}/{made.id}"):
        text = signed_in.get(path).text
        assert not SECRET.search(text)
        assert "<b>mine" not in text
        assert "ann" in text


def test_it_is_changed_turned_off_and_on_and_deleted(site: Site, signed_in: httpx.Client) -> None:
    """By an admin; the log names them."""
    make(signed_in)
    [made] = endpoints(site)
    own = f"{PATH}/{made.id}"
    changed = act(signed_in, own, url="https://other.example/b", events=["job.started"], description="x")
    assert (changed.status_code, changed.headers["location"]) == (303, own)
    [now] = endpoints(site)
    assert (now.url, now.events, now.description) == ("https://other.example/b", ("job.started",), "x")
    act(signed_in, f"{own}/disable")
    assert endpoints(site)[0].disabled_at is not None
    assert "disabled" in signed_in.get(PATH).text
    act(signed_in, f"{own}/enable")
    assert endpoints(site)[0].disabled_at is None
    tested = act(signed_in, f"{own}/test")
    assert "webhook.test" in signed_in.get(tested.headers["location"]).text
    assert WEBHOOKS_BELL in site.bell.rung
    act(signed_in, f"{own}/delete")
    assert endpoints(site) == ()
    changes = [action for action in actions(site) if action != "webhook.tested"]
    assert changes == ["webhook.deleted", *["webhook.changed"] * 3, "webhook.created"]
    assert actions(site).count("webhook.tested") == 1
    assert {entry.actor for entry in site.call(site.services.store.list_audit()).entries[:4]} == {"ops"}


def test_who_may_only_look_sees_no_secret_part_of_an_address(site: Site, observer: httpx.Client) -> None:
    """Everybody's webhooks and deliveries, without path and query of their addresses, buttons or forms."""
    endpoint = site.call(add(site.services.store, uuid4(), url=URL))
    delivery = failed_test(site, endpoint)
    for path in (PATH, f"{PATH}/{endpoint.id}", f"{PATH}/new", f"{PATH}/deliveries", f"{PATH}/deliveries/{delivery}"):
        answer = observer.get(path)
        assert answer.status_code == 200, path
        assert "very-secret" not in answer.text
        assert 'method="post" action="/admin/webhooks' not in answer.text
        assert "<b>no</b>" not in answer.text
    assert "https://hooks.example/…" in observer.get(PATH).text


def test_without_the_token_nothing_changes(site: Site, signed_in: httpx.Client) -> None:
    """Whatever it is."""
    endpoint = site.call(add(site.services.store))
    delivery = failed_test(site, endpoint)
    own = f"{PATH}/{endpoint.id}"
    paths = [PATH, own, *(f"{own}/{act}" for act in ("enable", "disable", "rotate", "test", "delete"))]
    for path in (*paths, f"{PATH}/deliveries/redeliver", f"{PATH}/deliveries/{delivery}/redeliver"):
        assert signed_in.post(path, data={"csrf": "0" * 64}).status_code == 403
    assert actions(site) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"url": ""}, "url is missing"), ({"url": "https://10.0.0.1/"}, "not called"), ({"url": "x" * 2049}, "2048"),
        ({"events": []}, "choose at least one"), ({"events": ["webhook.test"]}, "events"),
        ({"description": "x" * 501}, "description"), ({"key": "x"}, "key"), ({"key": str(uuid4())}, "key"),
    ],
)  # fmt: skip
def test_what_a_webhook_cannot_be(site: Site, signed_in: httpx.Client, fields: dict[str, object], word: str) -> None:
    """The page says what is wrong, and nothing is made."""
    answer = make(signed_in, **fields)
    assert answer.status_code == 400
    assert word in unescape(answer.text).lower()
    assert endpoints(site) == ()


def test_failed_deliveries_are_sent_anew_as_many_as_were_asked_about(site: Site, signed_in: httpx.Client) -> None:
    """One by one, or all of a filter; more by now are asked about again."""
    first, other = site.call(add(site.services.store)), site.call(add(site.services.store))
    one = failed_test(site, first)
    for endpoint in (first, first, other):
        failed_test(site, endpoint)
    page = signed_in.get(f"{PATH}/deliveries?webhook_id={first.id}&state=failed&type=webhook.test&job_id=").text
    assert 'name="expected" value="3"' in page
    many = f"{PATH}/deliveries/redeliver"
    assert act(signed_in, many, webhook_id=str(first.id), expected="2").status_code == 409
    for wrong in ("", "0", "1001", "many"):
        assert act(signed_in, many, webhook_id=str(first.id), expected=wrong).status_code == 400
    assert act(signed_in, f"{PATH}/deliveries/{one}/redeliver").status_code == 303
    assert act(signed_in, many, webhook_id=str(first.id), expected="2").status_code == 303
    left = site.call(site.services.store.deliveries(DeliveryFilter(all_keys=True, state=DeliveryState.FAILED)))
    assert [delivery.endpoint_id for delivery in left.deliveries] == [other.id]
    assert actions(site) == ["webhooks.redelivered"] * 2, "the one, and the many"


def test_failed_deliveries_are_sent_anew_over_http(site: Site, secrets: dict[str, str]) -> None:
    """By the same filter, with the same 409, for admins; each time it is in the audit log."""
    endpoint = site.call(add(site.services.store))
    for _ in range(2):
        failed_test(site, endpoint)
    with httpx.Client(base_url=site.url, headers={"authorization": f"Bearer {secrets['admin']}"}, timeout=20) as http:

        def ask(**fields: object) -> httpx.Response:
            return http.post("/v1/webhooks/deliveries/redeliver", json=fields)

        told = {"object": "webhooks.redelivered", "dry_run": True, "count": 2, "more": False}
        assert ask(dry_run=True, webhook_id=str(endpoint.id)).json() == told
        assert ask(dry_run=True, type="job.dead").json()["count"] == 0
        assert ask(expected=1).json()["error"]["code"] == "count_changed"
        for field, value in (("type", "job.lost"), ("job_id", "x"), ("expected", 1001), ("state", "failed")):
            answer = ask(**{field: value})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
        assert ask(expected=2, type="webhook.test").json() == {**told, "dry_run": False}
        assert ask().json()["count"] == 0, "they wait for their turn now"
        plain = http.post(
            "/v1/webhooks/deliveries/redeliver", json={}, headers={"authorization": f"Bearer {secrets['plain']}"}
        )
        assert plain.status_code == 403
    assert actions(site) == ["webhooks.redelivered"]


def test_a_body_is_shown_as_it_was_sent(site: Site, signed_in: httpx.Client) -> None:
    """Escaped, and once there is one."""
    endpoint = site.call(add(site.services.store))
    delivery = site.call(site.services.store.test_endpoint(endpoint.id))
    assert "at the first try" in signed_in.get(f"{PATH}/deliveries/{delivery.id}").text
    [due] = site.call(site.services.store.claim_deliveries(1, 60))
    tried = msgspec.structs.replace(DELIVERED, payload='{"type":"<i>"}')
    site.call(site.services.store.settle_delivery(due, tried, LONG_S))
    text = signed_in.get(f"{PATH}/deliveries/{delivery.id}").text
    assert "&#34;type&#34;: &#34;&lt;i&gt;&#34;" in text


@pytest.mark.parametrize(
    "query", ["state=x", "type=x", "job_id=x", "webhook_id=x", "cursor=%20", "cursor=nothing", f"cursor={'a' * 501}"]
)
def test_what_deliveries_cannot_be_asked_for(signed_in: httpx.Client, query: str) -> None:
    """A page says so."""
    assert signed_in.get(f"{PATH}/deliveries?{query}").status_code == 400


def test_what_is_not_there_is_a_page(signed_in: httpx.Client) -> None:
    """Of ids that are none, too."""
    for identity in ("x", uuid4()):
        assert signed_in.get(f"{PATH}/{identity}").status_code == 404
        assert signed_in.get(f"{PATH}/deliveries/{identity}").status_code == 404
        assert act(signed_in, f"{PATH}/{identity}/delete").status_code == 404


@pytest.mark.parametrize(
    ("url", "shown", "looking"),
    [
        ("https://a.example/b", "https://a.example/b", "https://a.example/…"),
        ("https://a.example:8443/b?c=d#e", "https://a.example:8443/b?…", "https://a.example:8443/…"),
        ("https://user:word@a.example/", "https://a.example/", "https://a.example/"),
        ("https://a.example/?c=d", "https://a.example/?…", "https://a.example/…"),
        ("https://a.example", "https://a.example", "https://a.example"),
    ],
)
def test_addresses_are_shown_without_what_may_be_secret(url: str, shown: str, looking: str) -> None:
    """Queries, and names with passwords; to who may only look paths neither."""
    assert shown_address(url, with_path=True) == shown
    assert shown_address(url, with_path=False) == looking
