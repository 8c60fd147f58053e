"""Keys over HTTP: what each scope lets through, which models, and looking after keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import msgspec
import pytest
from litestar.routes import HTTPRoute

from api.auth import needs_key
from jobstore.job import JobError
from jobstore.keys import Scope
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from safelight.config import KeySettings
from tests.api.site import SETTINGS, Driver, Site, with_server
from tests.api.test_problems import assert_problem
from tests.contract.keying import make_key

PEPPER = "a pepper of forty characters, for a test"
PUBLIC = msgspec.structs.replace(with_server(SETTINGS, host="0.0.0.0"), keys=KeySettings(pepper=PEPPER))
FIELDS: dict[str, dict[str, Any]] = {
    "admin": {"scopes": (Scope.ADMIN,)},
    "ann": {},
    "reader": {"scopes": (Scope.READ,)},
    "sender": {"scopes": (Scope.SUBMIT,)},
    "narrow": {"models": ("wide",)},
}
ADMINS = ("/v1/lanes", "/v1/keys", "/v1/audit", "/v1/jobs/redrive")
MISSING = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
async def secrets(store: PostgresStore) -> dict[str, str]:
    """Keys of all kinds, made before the API starts, without its pepper."""
    return {name: await make_key(store, name, **fields) for name, fields in FIELDS.items()}


@pytest.fixture
def site(database: str, outputs: Outputs, secrets: dict[str, str]) -> Iterator[Site]:
    """The API as it would be on a public address."""
    with Site(database, outputs, PUBLIC).serve() as site:
        yield site


@pytest.fixture
def as_key(http: httpx.Client, secrets: dict[str, str]) -> Any:
    """Sends a request with the key of that name (or with a secret)."""

    def send(name: str, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {secrets.get(name, name)}"}
        return http.request(method, path, headers=headers, **arguments)

    return send


def assert_code(response: httpx.Response, status: int, code: str, field: str | None = None) -> str:
    """A problem of that code; its detail."""
    assert_problem(response, status, field)
    assert response.json()["error"]["code"] == code, response.text
    return str(response.json()["detail"])


def test_every_route_names_its_scope(site: Site) -> None:
    """One that named none would be for admins alone; here is what is theirs, and what wants no key at all."""
    handlers = [
        (method, route.path, handler)
        for route in site.app.routes
        if isinstance(route, HTTPRoute) and route.path.startswith("/v1/")
        for handler in route.route_handlers
        for method in handler.http_methods
        if method != "OPTIONS"
    ]
    open_to_all = {path for _, path, handler in handlers if handler.resolve_before_request() is not needs_key}
    assert open_to_all <= {"/v1/linked-images/{job_id:str}/{index:str}"}  # the link is signed
    any_key = {path for _, path, handler in handlers if handler.opt.get("scope", Scope.ADMIN) is None}
    assert any_key == {"/v1/me"}
    for method, path, handler in handlers:
        if path not in open_to_all | any_key:
            scope = Scope(handler.opt["scope"])
            looks = scope is Scope.OBSERVE and method == "GET"
            assert scope is Scope.ADMIN or looks or not path.startswith(ADMINS), path
            assert scope is not Scope.SUBMIT or method != "GET", path


def test_a_key_does_what_its_scopes_say(site: Site, as_key: Any) -> None:
    """403 names the scope that is needed, whatever the body; an admin does everything."""
    job = as_key("ann", "POST", "/v1/jobs", json={"prompt": "x"}).json()
    path = f"/v1/jobs/{job['id']}"
    reads = [("GET", "/v1/models"), ("GET", "/v1/jobs"), ("GET", path), ("GET", path + "/images/0")]
    submits = [("POST", "/v1/jobs"), ("POST", path + "/cancel"), ("POST", path + "/retry")]
    looks = [("GET", path) for path in ("/v1/lanes", "/v1/keys", f"/v1/keys/{MISSING}", "/v1/audit")]
    admins = [
        *(("POST", f"/v1/{path}") for path in ("keys", f"keys/{MISSING}/rotate", f"keys/{MISSING}/revoke")),
        *(("POST", f"/v1/{path}") for path in ("jobs/redrive", "lanes/default/pause", "lanes/default/resume")),
        ("PATCH", f"/v1/keys/{MISSING}"),
    ]
    groups = {"read": reads, "submit": submits, "observe": looks, "admin": admins}
    for name, scopes in (
        ("reader", "read"),
        ("sender", "submit"),
        ("ann", "submit read"),
        ("admin", "submit read observe admin"),
    ):
        for scope, requests in groups.items():
            for method, where in requests:
                response = as_key(name, method, where, content=b"{")
                if scope in scopes.split():
                    assert response.status_code not in (401, 403), (name, where)
                else:
                    assert scope in assert_code(response, 403, "forbidden")
    assert_code(as_key("sender", "GET", path + "/events"), 403, "forbidden")


def test_a_key_uses_its_models_alone(site: Site, as_key: Any) -> None:
    """Under whatever name; it isn't told of others, and nothing is enqueued."""
    assert [model["id"] for model in as_key("narrow", "GET", "/v1/models").json()["data"]] == ["wide"]
    assert len(as_key("ann", "GET", "/v1/models").json()["data"]) == len(SETTINGS.models)
    for body in ({}, {"model": "scenes"}, {"model": "shapes"}, {"model": "shapes", "size": "1x1"}):
        response = as_key("narrow", "POST", "/v1/jobs", json={"prompt": "x", **body})
        assert "wide" in assert_code(response, 403, "model_not_allowed", "model")
    unknown = as_key("narrow", "POST", "/v1/jobs", json={"prompt": "x", "model": "y"})
    assert "scenes" not in assert_code(unknown, 404, "model_not_found", "model")
    assert as_key("admin", "GET", "/v1/jobs").json()["data"] == []
    fine = as_key("narrow", "POST", "/v1/jobs", json={"prompt": "x", "model": "wide", "size": "256x256"})
    assert fine.status_code == 202


def test_a_model_that_was_taken_away_is_not_rendered_again(site: Site, as_key: Any) -> None:
    """By retrying a job of it."""
    job = as_key("ann", "POST", "/v1/jobs", json={"prompt": "x"}).json()
    ann = next(key for key in as_key("admin", "GET", "/v1/keys").json()["data"] if key["name"] == "ann")
    assert as_key("admin", "PATCH", f"/v1/keys/{ann['id']}", json={"models": ["wide"]}).status_code == 200
    response = as_key("ann", "POST", f"/v1/jobs/{job['id']}/retry")
    assert_code(response, 403, "model_not_allowed", "model")


def test_a_key_is_made_and_works_at_once(as_key: Any) -> None:
    """Its secret is told once, and kept by nobody who could tell it again."""
    body = {"name": " new ", "team": "red", "customer": "acme", "models": ["shapes", "wide"], "weight": 2.5,
            "scopes": ["read"], "expires_at": "2030-01-31T12:00:00+02:00"}  # fmt: skip
    response = as_key("admin", "POST", "/v1/keys", json=body)
    made = response.json()
    assert (response.status_code, response.headers["cache-control"]) == (201, "no-store")
    assert made["secret"].startswith(made["hint"].removesuffix("…"))
    assert as_key(made["secret"], "GET", "/v1/models").status_code == 200
    told = as_key("admin", "GET", response.headers["location"]).json()
    assert told == {name: value for name, value in made.items() if name != "secret"}
    expected = {"name": "new", "team": "red", "customer": "acme", "models": ["scenes", "wide"], "weight": 2.5,
                "scopes": ["read"], "expires_at": "2030-01-31T10:00:00Z", "state": "in_force", "peppered": True,
                "object": "api_key", "revoked_at": None, "previous_until": None}  # fmt: skip
    assert {name: told[name] for name in expected} == expected
    assert "digest" not in told and "secret_hash" not in told


def test_what_a_key_can_not_be_is_named(as_key: Any) -> None:
    """And nothing is made or changed."""
    made = as_key("admin", "POST", "/v1/keys", json={"name": "x"}).json()
    before = as_key("admin", "GET", "/v1/keys").json()
    wrong: list[tuple[str, Any]] = [
        ("name", ""), ("name", " "), ("name", "x" * 101), ("name", "a\nb"), ("name", None), ("scopes", []),
        ("scopes", ["all"]), ("scopes", None), ("models", []), ("models", ["gone"]), ("models", "wide"),
        ("models", [f"m{n}" for n in range(101)]), ("team", ""), ("team", "-x"), ("team", "x" * 65), ("team", "a\n"),
        ("customer", "a b"), ("weight", 0), ("weight", 1e9), ("weight", "1"), ("expires_at", "2020-01-01T00:00:00Z"),
        ("expires_at", "2030-01-31"), ("expires_at", "9999-12-31T23:59:59-23:59"), ("secret", "sl_mine"),
        ("id", MISSING),
    ]  # fmt: skip
    for field, value in wrong:
        assert_code(
            as_key("admin", "POST", "/v1/keys", json={"name": "y", field: value}), 400, "invalid_request", field
        )
        path = f"/v1/keys/{made['id']}"
        assert_code(as_key("admin", "PATCH", path, json={field: value}), 400, "invalid_request", field)
    assert_code(as_key("admin", "POST", "/v1/keys", json={}), 400, "invalid_request", "name")
    for grace in (-1, 1e9, "1"):
        path = f"/v1/keys/{made['id']}/rotate"
        assert_code(as_key("admin", "POST", path, json={"grace_s": grace}), 400, "invalid_request", "grace_s")
    assert as_key("admin", "GET", "/v1/keys").json() == before


def test_a_key_is_rotated_with_grace(as_key: Any, secrets: dict[str, str]) -> None:
    """Both secrets count while it lasts, and the new one is under the pepper."""
    (ann,) = (key for key in as_key("admin", "GET", "/v1/keys").json()["data"] if key["name"] == "ann")
    assert not ann["peppered"]
    job = as_key("ann", "POST", "/v1/jobs", json={"prompt": "x"}).json()
    response = as_key("admin", "POST", f"/v1/keys/{ann['id']}/rotate", json={"grace_s": 3600})
    rotated = response.json()
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    assert rotated["peppered"] and rotated["previous_until"]
    for secret in ("ann", rotated["secret"]):
        assert as_key(secret, "GET", f"/v1/jobs/{job['id']}").status_code == 200
    last = as_key("admin", "POST", f"/v1/keys/{ann['id']}/rotate", json={}).json()
    assert last["previous_until"] is None
    for secret in ("ann", rotated["secret"]):
        assert_code(as_key(secret, "GET", "/v1/jobs"), 401, "invalid_api_key")
    assert as_key(last["secret"], "GET", f"/v1/jobs/{job['id']}").status_code == 200


def test_a_key_is_changed_and_revoked(as_key: Any) -> None:
    """At once on this server; every way not to have a key that counts looks the same."""
    made = as_key("admin", "POST", "/v1/keys", json={"name": "x", "team": "red"}).json()
    path = f"/v1/keys/{made['id']}"
    changed = as_key("admin", "PATCH", path, json={"scopes": ["submit"], "team": None, "name": "y"}).json()
    assert (changed["scopes"], changed["team"], changed["name"]) == (["submit"], None, "y")
    assert_code(as_key(made["secret"], "GET", "/v1/models"), 403, "forbidden")
    assert as_key("admin", "POST", path + "/revoke").json()["state"] == "revoked"
    assert as_key("admin", "POST", path + "/revoke").status_code == 200
    revoked, wrong = (as_key(secret, "GET", "/v1/models") for secret in (made["secret"], "sl_wrong"))
    for response in (revoked, wrong):
        assert_code(response, 401, "invalid_api_key")
    assert revoked.json()["detail"] == wrong.json()["detail"]
    for response in (
        as_key("admin", "PATCH", path, json={"name": "z"}),
        as_key("admin", "POST", path + "/rotate", json={}),
    ):
        assert "revoked" in assert_code(response, 409, "key_not_in_force")


def test_a_stream_ends_when_its_key_may_not_read_any_more(site: Site, http: httpx.Client, as_key: Any) -> None:
    """At the next heartbeat."""
    object.__setattr__(site.services, "heartbeat_s", 0.05)
    made = as_key("admin", "POST", "/v1/keys", json={"name": "x"}).json()
    headers = {"x-api-key": made["secret"]}
    job = http.post("/v1/jobs", json={"prompt": "x"}, headers=headers).json()
    with http.stream("GET", f"/v1/jobs/{job['id']}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert ": heartbeat" in lines
        as_key("admin", "PATCH", f"/v1/keys/{made['id']}", json={"scopes": ["submit"]})
        assert set(lines) <= {": heartbeat", ""}


def test_there_is_no_such_key(as_key: Any) -> None:
    """Whatever stands for the id."""
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "", {}), ("PATCH", "", {"json": {"name": "x"}}), ("POST", "/rotate", {"json": {}}),
        ("POST", "/revoke", {}),
    ]  # fmt: skip
    for name in (MISSING, uuid4().hex, "x", "%00"):
        for method, rest, body in requests:
            assert_code(as_key("admin", method, f"/v1/keys/{name}{rest}", **body), 404, "key_not_found")


def test_the_last_admin_goes_with_force_alone(as_key: Any) -> None:
    """Revoked or changed; the words say what to do."""
    (admin,) = (key for key in as_key("admin", "GET", "/v1/keys").json()["data"] if "admin" in key["scopes"])
    path = f"/v1/keys/{admin['id']}"
    for response in (
        as_key("admin", "POST", path + "/revoke"),
        as_key("admin", "PATCH", path, json={"scopes": ["read"]}),
    ):
        assert "force=true" in assert_code(response, 409, "last_admin_key")
    assert as_key("admin", "POST", path + "/revoke?force=true").json()["state"] == "revoked"
    assert_code(as_key("admin", "GET", "/v1/keys"), 401, "invalid_api_key")


def test_the_first_key_of_an_open_server_is_an_admins(database: str, outputs: Outputs) -> None:
    """Else nobody could make another one over HTTP."""
    with Site(database, outputs).serve() as site, httpx.Client(base_url=site.url, timeout=20) as http:
        refused = http.post("/v1/keys", json={"name": "ann"})
        assert "admin" in assert_code(refused, 409, "no_admin_key")
        assert http.get("/v1/keys").json()["data"] == []
        made = http.post("/v1/keys", json={"name": "ops", "scopes": ["admin"]}).json()
        assert made["scopes"] == ["submit", "read", "observe", "admin"]
        assert_code(http.get("/v1/keys"), 401, "invalid_api_key")
        headers = {"x-api-key": made["secret"]}
        assert http.post("/v1/keys", json={"name": "ann"}, headers=headers).status_code == 201
        (entry, first) = http.get("/v1/audit", headers=headers).json()["data"]
        assert (first["actor"], first["key_id"], entry["actor"]) == ("without a key", None, "ops")


def test_keys_are_listed_in_pages(as_key: Any) -> None:
    """Oldest first, by team and customer, without a secret."""
    made = [as_key("admin", "POST", "/v1/keys", json={"name": f"k{n}", "team": "red"}).json()["id"] for n in range(3)]
    first = as_key("admin", "GET", "/v1/keys?team=red&limit=2").json()
    second = as_key("admin", "GET", f"/v1/keys?team=red&limit=2&cursor={first['next_cursor']}").json()
    assert [key["id"] for key in (*first["data"], *second["data"])] == made
    assert second["next_cursor"] is None
    assert as_key("admin", "GET", "/v1/keys?customer=acme").json()["data"] == []
    as_key("admin", "POST", f"/v1/keys/{made[1]}/revoke")
    found = {
        query: as_key("admin", "GET", f"/v1/keys?{query}").json()["data"] for query in ("text=K2", "state=revoked")
    }
    assert {query: [key["id"] for key in keys] for query, keys in found.items()} == {
        "text=K2": [made[2]],
        "state=revoked": [made[1]],
    }
    assert "secret" not in as_key("admin", "GET", "/v1/keys").text
    for query in ("limit=0", "limit=201", "cursor=x", "team=-", "state=x"):
        assert_problem(as_key("admin", "GET", f"/v1/keys?{query}"), 400, query.partition("=")[0])


def test_an_admins_acts_on_others_jobs_are_in_the_audit_log(site: Site, as_key: Any) -> None:
    """A cancel and a retry of one job, once each; what a key does with its own is not."""
    worker = Driver(site)

    def failed(name: str, seed: int) -> str:
        job = as_key(name, "POST", "/v1/jobs", json={"prompt": "x", "seed": seed}).json()
        error = JobError(code="render_failed", message="it broke")
        site.call(site.services.store.fail(worker.claim().token, error))
        return str(job["id"])

    own, admins, anns = failed("ann", 1), failed("admin", 2), failed("ann", 3)
    for who, job in (("ann", own), ("admin", admins), ("admin", anns)):
        for act, status in (("retry", 200), ("retry", 409), ("cancel", 200), ("cancel", 200)):
            assert as_key(who, "POST", f"/v1/jobs/{job}/{act}").status_code == status
    log = as_key("admin", "GET", "/v1/audit").json()["data"]
    told = [(entry["action"], entry["actor"], entry["target"]) for entry in log if entry["action"].startswith("jobs.")]
    assert told == [("jobs.canceled", "admin", anns), ("jobs.redriven", "admin", anns)]


def test_the_audit_log_tells_who_did_what(as_key: Any, secrets: dict[str, str]) -> None:
    """Newest first, with the key that acted; no secret, no digest, no hint."""
    made = as_key("admin", "POST", "/v1/keys", json={"name": "x"}).json()
    path = f"/v1/keys/{made['id']}"
    as_key("admin", "PATCH", path, json={"weight": 2})
    rotated = as_key("admin", "POST", path + "/rotate", json={"grace_s": 60}).json()
    as_key("admin", "POST", path + "/revoke")
    as_key("admin", "POST", "/v1/lanes/default/pause", json={"reason": "new weights"})
    as_key("admin", "POST", "/v1/lanes/default/resume")
    as_key("admin", "POST", "/v1/jobs/redrive", json={"states": ["dead"]})  # none is: that is no change
    page = as_key("admin", "GET", "/v1/audit?limit=4").json()
    rest = as_key("admin", "GET", f"/v1/audit?cursor={page['next_cursor']}").json()
    entries = [*page["data"], *rest["data"]][:6]
    assert [entry["action"] for entry in entries] == [
        "lane.resumed", "lane.paused", "key.revoked", "key.rotated", "key.changed", "key.created",
    ]  # fmt: skip
    assert {entry["actor"] for entry in entries} == {"admin"}
    assert entries[4]["details"] == {"weight": {"from": 1.0, "to": 2.0}}
    assert entries[1]["target"] == "default"
    about = as_key("admin", "GET", f"/v1/audit?target={made['id']}&action=key.revoked").json()["data"]
    assert about == [entries[2]]
    ours = as_key("admin", "GET", f"/v1/audit?actor=ADM&after={quote(entries[1]['at'])}").json()["data"]
    assert ours == entries[:2]
    assert as_key("admin", "GET", f"/v1/audit?before={quote(entries[5]['at'])}&actor=admin").json()["data"] == []
    assert as_key("admin", "GET", "/v1/audit?actor=nobody").json()["data"] == []
    told = page | rest
    for secret in (made["secret"], rotated["secret"], secrets["admin"]):
        assert secret[:7] not in str(told)
    for query in ("limit=0", "cursor=x", "action=X", "target=a b", "x=y", "after=noon", "before=1"):
        assert_problem(as_key("admin", "GET", f"/v1/audit?{query}"), 400, query.partition("=")[0])
