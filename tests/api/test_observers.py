"""Keys with the scope observe over HTTP: they look at everybody's as on the admin pages, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from litestar.routes import HTTPRoute

from jobstore.keys import Scope
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.api.site import Driver, Site
from tests.api.test_keys import PUBLIC, assert_code
from tests.contract.hooking import add
from tests.contract.keying import make_key

URL = "https://hooks.example/T0/very-secret?token=very-secret"
OVERSEEN = (
    "/v1/jobs", "/v1/jobs/count", "/v1/costs", "/v1/latency", "/v1/lanes", "/v1/keys", "/v1/quotas", "/v1/audit",
    "/v1/webhooks", "/v1/webhooks/deliveries", "/v1/workers", "/v1/overview", "/v1/models", "/v1/models/shapes",
    "/v1/scaling", "/v1/scaling/default",
)  # fmt: skip


@pytest.fixture
async def secrets(store: PostgresStore) -> dict[str, str]:
    """Whose jobs are looked at, who looks, and who looks and may also submit."""
    return {
        "admin": await make_key(store, "admin", admin=True),
        "ann": await make_key(store, "ann", team="red"),
        "watch": await make_key(store, "watch", scopes=(Scope.OBSERVE,)),
        "both": await make_key(store, "both", scopes=(Scope.SUBMIT, Scope.READ, Scope.OBSERVE)),
        "reader": await make_key(store, "reader", scopes=(Scope.READ,)),
    }


@pytest.fixture
def site(database: str, outputs: Outputs, secrets: dict[str, str]) -> Iterator[Site]:
    """The API as it would be on a public address."""
    with Site(database, outputs, PUBLIC).serve() as site:
        yield site


@pytest.fixture
def as_key(http: httpx.Client, secrets: dict[str, str]) -> Any:
    """Sends a request with the key of that name."""

    def send(name: str, method: str, path: str, **arguments: Any) -> httpx.Response:
        return http.request(method, path, headers={"authorization": f"Bearer {secrets[name]}"}, **arguments)

    return send


def handlers(site: Site) -> Iterator[tuple[str, str, Any]]:
    """Every method, path and handler under /v1."""
    for route in site.app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith("/v1/"):
            for handler in route.route_handlers:
                for method in handler.http_methods - {"OPTIONS"}:
                    yield str(method), route.path, handler


def job_of(as_key: Any, **fields: Any) -> str:
    """The id of a job of ann's."""
    return str(as_key("ann", "POST", "/v1/jobs", json={"prompt": "a red circle", **fields}).json()["id"])


def test_what_observers_are_let_into_only_looks(site: Site) -> None:
    """Every other method is left out, whatever it is."""
    for method, path, handler in handlers(site):
        if handler.opt.get("overseen") or handler.opt.get("scope") is Scope.OBSERVE:
            assert method == "GET", path


def test_an_observer_reads_what_the_pages_show(site: Site, as_key: Any) -> None:
    """Everybody's, as an admin does, without another scope; whether it has others too or not."""
    job = job_of(as_key)
    for path in (*OVERSEEN, f"/v1/jobs/{job}", f"/v1/jobs/{job}/attempts"):
        for name in ("watch", "both"):
            assert as_key(name, "GET", path).status_code == 200, path
    for query in ("jobs", "costs?by=key", "quotas", "keys", "audit", "lanes", "models"):
        seen, admins = (as_key(name, "GET", f"/v1/{query}").json() for name in ("watch", "admin"))
        for told in (*seen["data"], *admins["data"]):
            told.pop("oldest_s", None)  # a lane's oldest job has grown older in between
        assert seen["data"] == admins["data"], query
    (found,) = as_key("watch", "GET", "/v1/jobs").json()["data"]
    assert found["id"] == job
    assert as_key("watch", "GET", "/v1/jobs/count?state=queued").json()["count"] == 1
    owner = next(key["id"] for key in as_key("watch", "GET", "/v1/keys").json()["data"] if key["name"] == "ann")
    for query in (f"jobs?key={owner}", f"jobs?worker={uuid4()}", "jobs?host=x", f"costs?key={owner}"):
        assert as_key("watch", "GET", f"/v1/{query}").status_code == 200, query
        assert as_key("reader", "GET", f"/v1/{query}").status_code in (400, 403), query
    assert as_key("reader", "GET", "/v1/jobs").json()["data"] == []
    assert_code(as_key("reader", "GET", f"/v1/jobs/{job}"), 404, "job_not_found")


def test_an_observer_sees_pictures_and_follows_events(site: Site, as_key: Any, worker: Driver) -> None:
    """Of whosever job."""
    job = job_of(as_key, webhook=URL)
    worker.render()
    assert as_key("watch", "GET", f"/v1/jobs/{job}/images/0").status_code == 200
    for path in (f"/v1/jobs/{job}/events", f"/v1/jobs/events?ids={job}"):
        told = as_key("watch", "GET", path).text
        assert "event: done" in told
        assert "very-secret" not in told
        assert "very-secret" in as_key("ann", "GET", path).text


def test_an_observer_sees_no_secret(site: Site, as_key: Any) -> None:
    """No secret of a key, and of others' webhooks no more than the host; who may both sees its own whole."""
    job = job_of(as_key, webhook=URL)
    endpoint = site.call(add(site.services.store, None, url=URL))
    paths = ("/v1/webhooks", f"/v1/webhooks/{endpoint.id}", "/v1/webhooks/deliveries", "/v1/jobs", f"/v1/jobs/{job}")
    for path in (*paths, "/v1/keys", "/v1/audit"):
        for name in ("watch", "both"):
            answer = as_key(name, "GET", path)
            assert answer.status_code == 200, path
            assert "very-secret" not in answer.text
            assert '"secret"' not in answer.text
    assert as_key("watch", "GET", f"/v1/webhooks/{endpoint.id}").json()["url"] == "https://hooks.example/…"
    assert as_key("admin", "GET", f"/v1/webhooks/{endpoint.id}").json()["url"] == URL
    own = as_key("both", "POST", "/v1/jobs", json={"prompt": "mine", "webhook": URL}).json()
    assert as_key("both", "GET", f"/v1/jobs/{own['id']}").json()["webhook"]["url"] == URL


def test_an_observer_changes_nothing(site: Site, as_key: Any) -> None:
    """Whatever it asks for is a 403; with submit as well, what isn't its own is the 404 of what isn't there."""
    job = job_of(as_key)
    endpoint = site.call(add(site.services.store, None, url=URL))
    before = len(as_key("admin", "GET", "/v1/audit").json()["data"])
    for method, path, _ in handlers(site):
        if method != "GET":
            filled = path.replace("{job_id:str}", job).replace("{webhook_id:str}", str(endpoint.id))
            assert as_key("watch", method, filled, content=b"{").status_code == 403, (method, path)
    for path in (f"jobs/{job}/cancel", f"jobs/{job}/retry", f"webhooks/{endpoint.id}/rotate"):
        assert as_key("both", "POST", f"/v1/{path}").status_code == 404, path
    assert as_key("both", "DELETE", f"/v1/webhooks/{endpoint.id}").status_code == 404
    assert as_key("both", "PATCH", f"/v1/webhooks/{endpoint.id}", json={"disabled": True}).status_code == 404
    many = as_key("both", "POST", "/v1/jobs/cancel", json={"states": ["queued"]})
    assert many.json()["count"] == 0
    assert as_key("ann", "GET", f"/v1/jobs/{job}").json()["state"] == "queued"
    assert len(as_key("admin", "GET", "/v1/audit").json()["data"]) == before


def test_a_request_to_render_is_no_look(as_key: Any) -> None:
    """Polling it neither: whose job it is may do that."""
    later = as_key("ann", "POST", "/v1/async/images/generations", json={"prompt": "x"}).json()
    path = f"/v1/async/images/generations/{later['id']}"
    assert_code(as_key("watch", "GET", path), 403, "forbidden")
    assert as_key("both", "GET", path).status_code == 404
