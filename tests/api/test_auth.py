"""Keys: when they are wanted, how they are sent, what they may see."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from api.auth import require_keys
from jobstore.keys import Scope
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from safelight.config import ConfigError
from tests.api.site import LIMIT_S, SETTINGS, Site, with_server
from tests.api.test_problems import assert_problem
from tests.contract.keying import TESTER, make_key

PUBLIC = with_server(SETTINGS, host="0.0.0.0")


@pytest.fixture
async def secrets(store: PostgresStore) -> dict[str, str]:
    """Two plain keys and an admin's, made before the API starts."""
    return {name: await make_key(store, name, admin=name == "admin") for name in ("ann", "bob", "admin")}


@pytest.fixture
def site(database: str, outputs: Outputs, secrets: dict[str, str]) -> Iterator[Site]:
    """The API as it would be on a public address."""
    with Site(database, outputs, PUBLIC).serve() as site:
        yield site


def bearer(secret: str) -> dict[str, str]:
    """The usual header."""
    return {"Authorization": f"Bearer {secret}"}


def test_every_header_carries_a_key(http: httpx.Client, secrets: dict[str, str]) -> None:
    """Bearer in any case, and the three header names."""
    secret = secrets["ann"]
    for headers in (bearer(secret), {"authorization": f"bearer {secret}"}, {"x-api-key": secret}, {"api-key": secret},
                    {"x-bf-vk": secret}):  # fmt: skip
        assert http.get("/v1/models", headers=headers).status_code == 200


def test_without_a_key_that_counts_it_is_401(http: httpx.Client, secrets: dict[str, str]) -> None:
    """On every route of /v1, before a body is looked at, without a hint."""
    wrong: list[dict[str, str]] = [
        {},
        bearer("sl_wrong"),
        {"authorization": "Bearer"},
        {"x-api-key": "x" * 5000},
        {"x-api-key": "\xe9"},
    ]
    missing = "01890000-0000-7000-8000-000000000000"
    for headers in wrong:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        for method, path in (("GET", "/v1/models"), ("GET", "/v1/jobs"), ("POST", "/v1/jobs"),
                             ("GET", f"/v1/jobs/{missing}/events")):  # fmt: skip
            response = http.request(method, path, headers=raw)
            assert_problem(response, 401)
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json()["detail"].startswith("an API key is needed, or the one sent is not valid;")


def test_a_key_sees_its_own_jobs_and_an_admin_all(http: httpx.Client, secrets: dict[str, str]) -> None:
    """Foreign and missing jobs are one and the same 404, on every route."""
    job = http.post("/v1/jobs", json={"prompt": "x"}, headers=bearer(secrets["ann"])).json()
    path = f"/v1/jobs/{job['id']}"
    missing = "/v1/jobs/01890000-0000-7000-8000-000000000000"
    for method, rest in (
        ("GET", ""),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("GET", "/events"),
        ("GET", "/images/0"),
    ):
        foreign = http.request(method, path + rest, headers=bearer(secrets["bob"]))
        unknown = http.request(method, missing + rest, headers=bearer(secrets["bob"]))
        assert_problem(foreign, 404)
        assert foreign.json()["detail"] == unknown.json()["detail"]
    for name, count in (("ann", 1), ("bob", 0), ("admin", 1)):
        assert len(http.get("/v1/jobs", headers=bearer(secrets[name])).json()["data"]) == count
    assert http.get(path, headers=bearer(secrets["admin"])).json()["state"] == "queued"


def test_probes_are_open_and_metrics_are_for_who_may_look(
    site: Site, http: httpx.Client, secrets: dict[str, str]
) -> None:
    """On a public address; the playground is open, for it asks for a key itself."""
    for path in ("/livez", "/readyz", "/healthz", "/"):
        assert http.get(path).status_code == 200
    for path in ("/metrics", "/docs", "/openapi.json"):
        assert_problem(http.get(path), 401)
        assert_problem(http.get(path, headers=bearer(secrets["ann"])), 403)
        assert http.get(path, headers=bearer(secrets["admin"])).status_code == 200
    observer = bearer(site.call(make_key(site.services.store, "prometheus", scopes=(Scope.OBSERVE,))))
    assert http.get("/metrics", headers=observer).status_code == 200
    for path in ("/docs", "/openapi.json"):
        assert_problem(http.get(path, headers=observer), 403)


def test_a_revoked_key_is_refused(site: Site, http: httpx.Client, secrets: dict[str, str]) -> None:
    """After the few seconds that keys are remembered."""
    assert http.get("/v1/models", headers=bearer(secrets["ann"])).status_code == 200
    for key in site.call(site.services.store.list_keys()):
        site.call(site.services.store.revoke_key(key.id, TESTER, force=True))
    site.services.keys.forget()
    assert_problem(http.get("/v1/models", headers=bearer(secrets["ann"])), 401)


def test_loopback_is_open_until_there_is_a_key(database: str, outputs: Outputs) -> None:
    """No key at all: open. One made, even if revoked since: closed for good."""
    with Site(database, outputs).serve() as site, httpx.Client(base_url=site.url, timeout=LIMIT_S) as http:
        assert http.get("/v1/models").status_code == 200
        secret = site.call(make_key(site.services.store, "first"))
        site.services.keys.forget()
        assert_problem(http.get("/v1/models"), 401)
        assert http.get("/v1/models", headers=bearer(secret)).status_code == 200


async def test_a_public_address_wants_an_admin_key_before_it_serves(store: PostgresStore) -> None:
    """The message says what to do; any other key won't do."""
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", ""):
        with pytest.raises(ConfigError, match=r"safelight keys create .* --admin"):
            await require_keys(host, store)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "[::1]"):
        await require_keys(host, store)
    await make_key(store, "plain")
    with pytest.raises(ConfigError):
        await require_keys("0.0.0.0", store)
    await make_key(store, "ops", admin=True)
    await require_keys("0.0.0.0", store)


def test_a_key_never_appears_in_an_answer(http: httpx.Client, secrets: dict[str, str]) -> None:
    """Not even to its owner."""
    job = http.post("/v1/jobs", json={"prompt": "x"}, headers=bearer(secrets["ann"]))
    assert secrets["ann"] not in job.text
    assert "key_id" not in msgspec.json.decode(job.content)


def test_a_stream_ends_with_its_key(site: Site, http: httpx.Client, secrets: dict[str, str]) -> None:
    """At the next heartbeat; that of another key goes on."""
    object.__setattr__(site.services, "heartbeat_s", 0.05)
    job = http.post("/v1/jobs", json={"prompt": "x"}, headers=bearer(secrets["ann"])).json()
    path = f"/v1/jobs/{job['id']}/events"
    with (
        http.stream("GET", path, headers=bearer(secrets["ann"])) as anns,
        http.stream("GET", path, headers=bearer(secrets["admin"])) as admins,
    ):
        lines, others = anns.iter_lines(), admins.iter_lines()
        assert ": heartbeat" in lines
        (own,) = (key for key in site.call(site.services.store.list_keys()) if key.name == "ann")
        site.call(site.services.store.revoke_key(own.id, TESTER))
        site.services.keys.forget()
        assert set(lines) <= {": heartbeat", ""}
        assert ": heartbeat" in others
        assert ": heartbeat" in others
