"""Keys that may be used from some networks alone: over HTTP, in streams and on the admin pages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from jobstore.keys import KeyChange, Scope
from tests.api.admin.conftest import token
from tests.api.site import LIMIT_S, Site
from tests.api.test_auth import bearer
from tests.api.test_problems import assert_problem
from tests.contract.keying import TESTER, make_key

INSIDE, OUTSIDE = {"x-forwarded-for": "203.0.113.7"}, {"x-forwarded-for": "198.51.100.1"}


@pytest.fixture
def secrets(site: Site) -> dict[str, str]:
    """An admin's key, and two that count from a network."""
    made = {"admin": site.call(make_key(site.services.store, "admin", admin=True))}
    for name, scopes in (("ann", (Scope.SUBMIT, Scope.READ)), ("ops", (Scope.ADMIN,))):
        fields: dict[str, Any] = {"scopes": scopes, "networks": ("203.0.113.0/24", "2001:db8::/32")}
        made[name] = site.call(make_key(site.services.store, name, **fields))
    site.services.keys.forget()
    return made


def test_a_key_counts_from_its_networks_alone(http: httpx.Client, secrets: dict[str, str]) -> None:
    """By the address that a trusted proxy tells; elsewhere the answer is that to a key that was never made."""
    own = bearer(secrets["ann"])
    for where in (INSIDE, {"x-forwarded-for": "198.51.100.1, 203.0.113.7"}, {"x-forwarded-for": "2001:db8::1"}):
        assert http.get("/v1/models", headers={**own, **where}).status_code == 200
    stranger = http.get("/v1/models", headers={**bearer("sl_never"), **OUTSIDE})
    for where in (OUTSIDE, {}, {"x-forwarded-for": "203.0.113.7, 198.51.100.1"}, {"x-forwarded-for": "unknown"}):
        refused = http.get("/v1/models", headers={**own, **where})
        assert_problem(refused, 401)
        told, known = refused.json(), stranger.json()
        assert {**told, "request_id": ""} == {**known, "request_id": ""}
        assert set(refused.headers) == set(stranger.headers)
    assert http.get("/v1/models", headers={**bearer(secrets["admin"]), **OUTSIDE}).status_code == 200


def test_networks_are_made_changed_and_taken_away(http: httpx.Client, secrets: dict[str, str]) -> None:
    """In one form; null is anywhere; what is no network is named."""
    admin = bearer(secrets["admin"])
    made = http.post("/v1/keys", headers=admin, json={"name": "n", "networks": ["192.0.2.7", "10.0.0.0/8"]}).json()
    assert made["networks"] == ["10.0.0.0/8", "192.0.2.7/32"]
    path = f"/v1/keys/{made['id']}"
    assert http.patch(path, headers=admin, json={"networks": ["::/0"]}).json()["networks"] == ["::/0"]
    assert http.get(path, headers=admin).json()["networks"] == ["::/0"]
    assert http.patch(path, headers=admin, json={"networks": None}).json()["networks"] is None
    log = http.get("/v1/audit", headers=admin, params={"target": made["id"]}).json()["data"]
    assert log[0]["details"] == {"networks": {"from": ["::/0"], "to": None}}
    for wrong in ([], ["10.0.0.1/8"], ["x"], [""], ["10.0.0.0/8"] * 33, "10.0.0.0/8", ["1" * 60]):
        refused = http.patch(path, headers=admin, json={"networks": wrong})
        assert (refused.status_code, refused.json()["field"]) == (400, "networks")


def test_a_stream_ends_when_its_address_counts_no_more(site: Site, http: httpx.Client, secrets: dict[str, str]) -> None:
    """At the next heartbeat."""
    object.__setattr__(site.services, "heartbeat_s", 0.05)
    headers = {**bearer(secrets["ann"]), **INSIDE}
    job = http.post("/v1/jobs", json={"prompt": "x"}, headers=headers).json()
    (key,) = (key for key in site.call(site.services.store.list_keys()) if key.name == "ann")
    with http.stream("GET", f"/v1/jobs/{job['id']}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert ": heartbeat" in lines
        site.call(site.services.store.change_key(key.id, KeyChange(networks=("192.0.2.0/24",)), TESTER))
        site.services.keys.forget()
        assert set(lines) <= {": heartbeat", ""}


def test_admin_pages_hold_to_them(site: Site, secrets: dict[str, str]) -> None:
    """Signing in, and every page after that."""
    with httpx.Client(base_url=site.url, timeout=LIMIT_S, headers=INSIDE) as client:
        form = {"key": secrets["ops"], "csrf": token(client, "/admin/sign-in")}
        assert client.post("/admin/sign-in", data=form, headers=OUTSIDE).status_code == 401
        assert client.post("/admin/sign-in", data=form).status_code == 303
        assert client.get("/admin/keys").status_code == 200
        assert client.get("/admin/keys", headers={**OUTSIDE, "accept": "application/json"}).status_code != 200
        page = {"csrf": token(client, "/admin/keys/new"), "name": "web", "scopes": ["read"], "weight": "1"}
        assert client.post("/admin/keys", data={**page, "networks": "10.0.0.0/8, 192.0.2.7"}).status_code == 200
        wrong = client.post("/admin/keys", data={**page, "networks": "10.0.0.1/8"})
        assert wrong.status_code == 400 and "an address within 10.0.0.0/8" in wrong.text
        (key,) = (key for key in site.call(site.services.store.list_keys()) if key.name == "web")
        assert key.networks == ("10.0.0.0/8", "192.0.2.7/32")
        assert "10.0.0.0/8, 192.0.2.7/32" in client.get(f"/admin/keys/{key.id}").text
        edit = f"/admin/keys/{key.id}/change"
        assert 'value="10.0.0.0/8 192.0.2.7/32"' in client.get(edit).text
        anywhere = {**page, "csrf": token(client, edit), "networks": ""}
        assert client.post(edit, data=anywhere).status_code == 303
        site.services.keys.forget()
        assert site.call(site.services.store.get_key(key.id)).networks is None
