"""Webhooks over HTTP: a job's own, endpoints of keys, and their deliveries."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from api.minutes import MinuteLimit
from jobstore.live import WEBHOOKS_BELL
from jobstore.webhooks.model import Due, Tried
from jobstore.webhooks.signing import headers_of, make_secret
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.api.test_queue_limits import new_keys

URL = "https://hooks.example/a?token=1"
ENDINGS = ["job.succeeded", "job.failed", "job.canceled", "job.dead"]


def make(http: httpx.Client, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """An endpoint that must be made."""
    response = http.post("/v1/webhooks", json={"url": URL, **fields}, headers=headers or {})
    assert response.status_code == 201, response.text
    assert response.headers["cache-control"] == "no-store"
    return dict(response.json())


def due(site: Site) -> list[Due]:
    """What a courier would take now."""
    return list(site.call(site.services.store.claim_deliveries(100, 60)))


def settle(site: Site, one: Due, **fields: Any) -> None:
    """What a courier would write."""
    site.call(site.services.store.settle_delivery(one, Tried(**fields), 1e9))


def deliveries(http: httpx.Client, **where: str) -> list[dict[str, Any]]:
    """A page of them."""
    response = http.get("/v1/webhooks/deliveries", params=where)
    assert response.status_code == 200, response.text
    return list(response.json()["data"])


@pytest.mark.parametrize(
    ("webhook", "events", "signed"),
    [
        (URL, ENDINGS, False),
        ({"url": URL}, ENDINGS, False),
        ({"url": URL, "events": ["job.started", "job.started"], "secret": make_secret()}, ["job.started"], True),
    ],
)
def test_a_submit_names_whom_to_tell(
    site: Site, http: httpx.Client, worker: Driver, webhook: Any, events: list[str], signed: bool
) -> None:
    """The job tells of it, but not of its secret; a bell rings for those who deliver."""
    job = submit(http, webhook=webhook)
    assert job["webhook"] == {"url": URL, "events": events, "signed": signed}
    assert http.get(f"/v1/jobs/{job['id']}").json()["webhook"] == job["webhook"]
    assert sorted(site.bell.rung) == sorted(["default", WEBHOOKS_BELL])
    worker.render()
    [one] = due(site)
    assert (one.url, one.type) == (URL, "job.started" if signed else "job.succeeded")
    assert bool(one.secrets) is signed
    assert "whsec" not in http.get("/v1/jobs").text


def test_a_submit_whose_webhook_is_no_name_is_told(http: httpx.Client) -> None:
    """By its field; nothing is submitted."""
    for webhook in ("https://xn--localhost/", {"url": "https://xn--a.example/"}):
        assert_problem(http.post("/v1/jobs", json={"prompt": "x", "webhook": webhook}), 400, "webhook")
    assert http.get("/v1/jobs").json()["data"] == []


def test_jobs_without_a_webhook_say_so(site: Site, http: httpx.Client) -> None:
    """And ring no bell for it."""
    assert submit(http)["webhook"] is None
    assert site.bell.rung == ["default"]


def test_a_webhook_is_part_of_what_a_repeat_asks_for(http: httpx.Client) -> None:
    """Under the same key, another address is another request."""
    headers = {"Idempotency-Key": "k"}
    body = {"prompt": "x", "webhook": URL}
    first = http.post("/v1/jobs", json=body, headers=headers).json()
    assert http.post("/v1/jobs", json=body, headers=headers).json()["id"] == first["id"]
    assert_problem(http.post("/v1/jobs", json={"prompt": "x"}, headers=headers), 422, "Idempotency-Key")


def test_an_endpoint_hears_of_its_keys_jobs(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Its secret is shown once, and signs; a test and a redelivery ring a bell."""
    made = make(http, description="mine")
    secret = made.pop("secret")
    assert http.get(f"/v1/webhooks/{made['id']}").json() == made
    assert http.get("/v1/webhooks").json()["data"] == [made]
    assert (made["object"], made["events"], made["disabled"], made["reason"]) == ("webhook", ENDINGS, False, "")
    tested = http.post(f"/v1/webhooks/{made['id']}/test")
    assert (tested.status_code, tested.json()["type"]) == (202, "webhook.test")
    assert site.bell.rung == [WEBHOOKS_BELL]
    [test] = due(site)
    assert (str(test.id), test.secrets) == (tested.json()["id"], (secret,))
    settle(site, test, delivered=True, status=200, payload="{}")
    job = submit(http)
    worker.render()
    [one] = due(site)
    headers = headers_of(str(one.id), int(time.time()), b"{}", one.secrets)
    Webhook(secret).verify(b"{}", headers)
    settle(site, one, delivered=False, status=500, error="answered 500", payload="{}")
    [failed] = deliveries(http, state="failed", job_id=job["id"], webhook_id=made["id"])
    assert (failed["status"], failed["error"], failed["attempts"]) == (500, "answered 500", 1)
    assert (failed["object"], failed["webhook_id"], failed["next_at"]) == ("delivery", made["id"], None)
    again = http.post(f"/v1/webhooks/deliveries/{failed['id']}/redeliver")
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    assert [str(found.id) for found in due(site)] == [failed["id"]]
    assert "whsec" not in http.get("/v1/webhooks").text + http.get("/v1/webhooks/deliveries").text


def test_an_endpoint_is_changed_rotated_and_deleted(site: Site, http: httpx.Client) -> None:
    """What is left out stays."""
    made = make(http, events=["job.dead"])
    path = f"/v1/webhooks/{made['id']}"
    changed = http.patch(path, json={"events": ["job.failed"], "disabled": True}).json()
    assert (changed["events"], changed["disabled"], changed["reason"]) == (["job.failed"], True, "on request")
    assert changed["url"] == URL
    changed = http.patch(path, json={"url": "https://other.example/", "disabled": False, "description": "x"}).json()
    assert (changed["url"], changed["disabled"]) == ("https://other.example/", False)
    rotated = http.post(path + "/rotate").json()
    assert rotated["previous_until"] is not None
    assert rotated["secret"] not in (made["secret"], None)
    http.post(path + "/test")
    assert due(site)[0].secrets == (rotated["secret"], made["secret"])
    assert http.delete(path).status_code == 204
    assert_problem(http.get(path), 404)
    assert deliveries(http)[0]["state"] == "failed"
    actions = [entry.action for entry in site.call(site.services.store.list_audit()).entries]
    assert actions[::-1] == ["webhook.created", *["webhook.changed"] * 2, "webhook.rotated", "webhook.deleted"]
    assert "whsec" not in str(site.call(site.services.store.list_audit()))


def test_what_an_endpoint_cannot_be(http: httpx.Client) -> None:
    """The field is named, and nothing is made."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("url", {"url": "https://10.0.0.1/"}), ("url", {"url": "ftp://a.example"}), ("url", {"url": ""}),
        ("url", {"url": 5}), ("url", {"url": "https://xn--localhost/"}),
        ("events", {"url": URL, "events": ["webhook.test"]}), ("events", {"url": URL, "events": []}),
        ("description", {"url": URL, "description": "x" * 501}), ("description", {"url": URL, "description": "\0"}),
        ("secret", {"url": URL, "secret": make_secret()}), ("url", {}),
    ]  # fmt: skip
    for field, body in wrong:
        assert_problem(http.post("/v1/webhooks", json=body), 400, field)
    made = make(http)
    for field, body in wrong[:-1]:
        assert_problem(http.patch(f"/v1/webhooks/{made['id']}", json=body), 400, field)
    for _ in range(9):
        make(http)
    response = http.post("/v1/webhooks", json={"url": URL})
    assert_problem(response, 409)
    assert response.json()["error"]["code"] == "too_many_webhooks"


def test_a_key_sees_its_own(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Missing and foreign ones are the same 404; an admin sees all."""
    ann, bob, admin = new_keys(site, "ann", "bob", "admin")
    made = make(http, ann)
    paths = [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/test")]
    for method, rest in paths:
        for webhook_id in (made["id"], str(uuid4()), "x", "%00"):
            body: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
            response = http.request(method, f"/v1/webhooks/{webhook_id}{rest}", headers=bob, **body)
            assert_problem(response, 404)
            assert response.json()["error"]["code"] == "webhook_not_found"
    http.post("/v1/jobs", json={"prompt": "x"}, headers=ann)
    http.post("/v1/jobs", json={"prompt": "y"}, headers=bob)
    for _ in range(2):
        worker.render()
    counts = {}
    for name, headers in (("ann", ann), ("bob", bob), ("admin", admin)):
        listed = http.get("/v1/webhooks", headers=headers).json()["data"]
        told = http.get("/v1/webhooks/deliveries", headers=headers).json()["data"]
        counts[name] = (len(listed), len(told))
    assert counts == {"ann": (1, 1), "bob": (0, 0), "admin": (1, 1)}
    [told] = http.get("/v1/webhooks/deliveries", headers=ann).json()["data"]
    for delivery_id in (told["id"], str(uuid4()), "x"):
        response = http.post(f"/v1/webhooks/deliveries/{delivery_id}/redeliver", headers=bob)
        assert_problem(response, 404)
        assert response.json()["error"]["code"] == "delivery_not_found"
    assert http.post(f"/v1/webhooks/deliveries/{told['id']}/redeliver", headers=admin).status_code == 202
    assert_problem(http.get("/v1/webhooks"), 401)


def test_a_disabled_endpoint_gets_no_redelivery(http: httpx.Client) -> None:
    """The answer says what to do."""
    made = make(http)
    delivery = http.post(f"/v1/webhooks/{made['id']}/test").json()
    http.patch(f"/v1/webhooks/{made['id']}", json={"disabled": True})
    response = http.post(f"/v1/webhooks/deliveries/{delivery['id']}/redeliver")
    assert_problem(response, 409)
    assert response.json()["error"]["code"] == "webhook_disabled"
    assert "enable it" in response.json()["detail"]
    assert http.get("/v1/webhooks/deliveries").json()["data"][0]["state"] == "failed"


def test_tests_and_redeliveries_are_bounded_by_key(site: Site, http: httpx.Client) -> None:
    """Together; another key has its own share, and the next minute a new one."""
    now = [90.0]
    limit = MinuteLimit(2, lambda: now[0])
    object.__setattr__(site.services, "messages", limit)
    ann, bob = new_keys(site, "ann", "bob")
    first, second = make(http, ann), make(http, bob)
    delivery = http.post(f"/v1/webhooks/{first['id']}/test", headers=ann).json()
    again = f"/v1/webhooks/deliveries/{delivery['id']}/redeliver"
    assert http.post(again, headers=ann).status_code == 202
    for path in (again, f"/v1/webhooks/{first['id']}/test"):
        response = http.post(path, headers=ann)
        assert_problem(response, 429)
        assert (response.json()["error"]["code"], response.headers["retry-after"]) == ("rate_limited", "30")
    assert http.post(f"/v1/webhooks/{second['id']}/test", headers=bob).status_code == 202
    now[0] = 120.0
    assert http.post(again, headers=ann).status_code == 202


def test_deliveries_come_in_pages(http: httpx.Client) -> None:
    """And wrong questions are named."""
    made = make(http)
    for _ in range(3):
        http.post(f"/v1/webhooks/{made['id']}/test")
    first = http.get("/v1/webhooks/deliveries?limit=2").json()
    rest = http.get(f"/v1/webhooks/deliveries?limit=2&cursor={first['next_cursor']}").json()
    assert (len(first["data"]), len(rest["data"]), rest["next_cursor"]) == (2, 1, None)
    for field, query in (("state", "state=sent"), ("job_id", "job_id=1"), ("cursor", "cursor=x"), ("sate", "sate=x")):
        assert_problem(http.get(f"/v1/webhooks/deliveries?{query}"), 400, field)
