"""Quotas over HTTP: made, changed and cleared by admins, read by whom they bind, and what a refused submit hears."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest
from openai import APIStatusError, OpenAI

from api.quota_headers import SubmitHeaders
from jobstore.audit import AuditFilter
from jobstore.keys import Scope
from jobstore.quotas import QuotaStatus
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.api.test_queue_limits import refused
from tests.contract.keying import make_key
from tests.contract.making import new_quota

SPEND = {"kind": "spend", "limit": "0.025", "owner": {"team": "ads"}}


class Door:
    """An admin of the API, and keys of two teams."""

    def __init__(self, site: Site, http: httpx.Client) -> None:
        """Makes the keys."""
        self.http = http
        self.keys = {
            "admin": self._key(site, "admin", admin=True),
            "ann": self._key(site, "ann", team="ads", customer="acme"),
            "abe": self._key(site, "abe", team="ads"),
            "olga": self._key(site, "olga", team="ops"),
            "mute": self._key(site, "mute", scopes=(Scope.SUBMIT,)),
        }
        site.services.keys.forget()

    def _key(self, site: Site, name: str, **fields: Any) -> dict[str, str]:
        return {"authorization": f"Bearer {site.call(make_key(site.services.store, name, **fields))}"}

    def ask(self, method: str, path: str, name: str = "admin", **arguments: Any) -> httpx.Response:
        """What the key of that name is answered."""
        return self.http.request(method, path, headers=self.keys[name], **arguments)

    def limit(self, **fields: Any) -> dict[str, Any]:
        """A new quota, the team's budget unless told otherwise."""
        response = self.ask("POST", "/v1/quotas", json={**SPEND, **fields})
        assert response.status_code == 201, response.text
        assert response.headers["location"] == f"/v1/quotas/{response.json()['id']}"
        return dict(response.json())

    def submit(self, name: str, **fields: Any) -> httpx.Response:
        """A submit for a cent."""
        return self.ask("POST", "/v1/jobs", name, json={"prompt": "a red circle", **fields})

    def listed(self, name: str = "admin", **where: str) -> list[dict[str, Any]]:
        """The quotas that the key sees."""
        return list(self.ask("GET", "/v1/quotas", name, params=where).json()["data"])


@pytest.fixture
def door(site: Site, http: httpx.Client) -> Door:
    """Keys, and a client."""
    return Door(site, http)


def test_a_budget_that_is_used_up_is_a_402(site: Site, door: Door, worker: Driver) -> None:
    """SDKs aren't to try again; nothing is enqueued or charged, and what is known already is answered all the same."""
    door.limit()
    known = door.keys["ann"] | {"idempotency-key": "first"}
    first = door.http.post("/v1/jobs", json={"prompt": "a red circle", "seed": 0}, headers=known)
    assert [first.status_code, door.submit("ann", seed=1).status_code] == [202, 202]
    before = refused("quota_spend")
    key = {"idempotency-key": "again"}
    response = door.http.post("/v1/jobs", json={"prompt": "a red circle"}, headers=door.keys["abe"] | key)
    assert_problem(response, 402)
    problem = response.json()
    assert (problem["error"]["code"], response.headers["x-should-retry"]) == ("budget_exceeded", "false")
    assert "0.005 USD are left of the budget of 0.025 USD for the team ads" in problem["detail"]
    assert "this job may come to 0.01 USD" in problem["detail"]
    assert "retry-after" not in response.headers
    assert response.headers["ratelimit-policy"] == '"team-spend-total";q=25000;qu="micro-usd"'
    assert response.headers["ratelimit"] == '"team-spend-total";r=5000'
    assert refused("quota_spend") == before + 1
    assert len(door.ask("GET", "/v1/jobs").json()["data"]) == 2
    assert door.submit("olga").status_code == 202
    again = door.http.post("/v1/jobs", json={"prompt": "a red circle", "seed": 0}, headers=known)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    for _ in range(3):
        worker.render()
    assert door.submit("abe", seed=0).json()["cache"] == "hit"
    [quota] = door.listed()
    assert (quota["held"], quota["used"], quota["left"], quota["ends_at"]) == ("0", "0.02", "0.005", None)
    # The refused one left its Idempotency-Key free.
    door.ask("PATCH", f"/v1/quotas/{quota['id']}", json={"limit": 1})
    done = door.http.post("/v1/jobs", json={"prompt": "a red circle"}, headers=door.keys["abe"] | key)
    assert done.status_code == 202


def test_more_than_a_whole_budget_is_said_to_be_so(door: Door) -> None:
    """No window's end helps."""
    door.limit(limit="0.005", period="1d")
    response = door.submit("ann")
    assert_problem(response, 402)
    assert "more than the whole budget" in response.json()["detail"]
    assert "whoever looks after this server can raise it" in response.json()["detail"]


@pytest.mark.parametrize(
    ("period", "rolling", "retry", "longest"),
    [("1m", True, "true", 62), ("1h", True, "false", 3661), ("1s", False, "true", 1), ("1d", False, None, 86_400)],
)
def test_too_many_submits_are_a_429(door: Door, period: str, rolling: bool, retry: str | None, longest: int) -> None:
    """With the time of the next room; SDKs are told to come again where that is soon."""
    door.limit(kind="requests", limit=0 if period == "1s" else 2, period=period, rolling=rolling)
    answers = [door.submit("ann") for _ in range(3)]
    response = answers[-1]
    assert_problem(response, 429)
    assert response.json()["error"]["code"] == "rate_limited"
    name = f"team-requests-{period}" + ("-rolling" if rolling else "")
    if period == "1s":  # a limit of 0 has no room at any time
        assert "retry-after" not in response.headers
        assert response.headers["x-should-retry"] == "false"
        return
    assert [answer.status_code for answer in answers[:2]] == [202, 202]
    wait_s = int(response.headers["retry-after"])
    assert 1 <= wait_s <= longest
    assert response.headers["x-should-retry"] == (retry or ("true" if wait_s <= 120 else "false"))
    window = {"1m": 60, "1h": 3600, "1d": 86_400}[period]
    assert response.headers["ratelimit-policy"] == f'"{name}";q=2;w={window}'
    assert response.headers["ratelimit"] == f'"{name}";r=0;t={wait_s}'
    assert f"try again in {wait_s} seconds" in response.json()["detail"]


def test_too_many_jobs_at_once_are_a_429_until_one_ends(door: Door) -> None:
    """For the key, whatever others of its team do."""
    me = door.ask("GET", "/v1/me", "ann").json()
    door.limit(kind="concurrency", limit=1, owner={"key": me["id"]})
    job = door.submit("ann").json()
    response = door.submit("ann")
    assert_problem(response, 429)
    assert response.json()["error"]["code"] == "too_many_jobs"
    assert "1 job at once for this key" in response.json()["detail"]
    assert (response.headers["retry-after"], response.headers["x-should-retry"]) == ("2", "true")
    assert response.headers["ratelimit-policy"] == '"key-concurrency-total";q=1;qu="jobs"'
    assert door.submit("abe").status_code == 202
    door.ask("POST", f"/v1/jobs/{job['id']}/cancel", "ann")
    assert door.submit("ann").status_code == 202


def test_quotas_are_made_changed_and_cleared(site: Site, door: Door) -> None:
    """Each with an entry in the audit log; null is no quota, and nought is one."""
    made = door.limit(limit="100", period="1M", zone="Europe/Berlin")
    assert made.items() >= {
        "limit": "100", "currency": "USD", "period": "1M", "rolling": False, "zone": "Europe/Berlin", "held": "0",
        "used": "0", "left": "100",
    }.items()  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-(01T00:00:00\+0[12]:00|\d\dT2[23]:00:00Z)", made["ends_at"]), made["ends_at"]
    path = f"/v1/quotas/{made['id']}"
    assert door.ask("GET", path).json() == made
    again = door.ask("POST", "/v1/quotas", json={**SPEND, "period": "1M"})
    assert_problem(again, 409)
    assert again.json()["error"]["code"] == "quota_exists"
    assert door.ask("PATCH", path, json={"limit": "0"}).json()["limit"] == "0"
    assert door.submit("ann").status_code == 402
    cleared = door.ask("PATCH", path, json={"limit": None})
    assert (cleared.status_code, cleared.content) == (204, b"")
    assert door.submit("ann").status_code == 202
    assert_problem(door.ask("PATCH", path, json={"limit": 1}), 404)
    other = door.limit(kind="requests", limit=5, period="1d")
    assert (other["limit"], other["left"], other["currency"]) == (5, 5, None)
    assert door.ask("DELETE", f"/v1/quotas/{other['id']}").status_code == 204
    assert_problem(door.ask("DELETE", f"/v1/quotas/{other['id']}"), 404)
    log = site.call(site.services.store.list_audit(AuditFilter(target=made["id"]))).entries
    assert [entry.action for entry in log] == ["quota.deleted", "quota.changed", "quota.created"]
    which = {"owner": "team ads", "kind": "spend", "currency": "USD", "period": "1M", "rolling": False}
    which["zone"] = "Europe/Berlin"
    assert log[1].details == {**which, "limit": {"from": "100", "to": "0"}}
    assert [log[0].details, log[2].details] == [{**which, "limit": "0"}, {**which, "limit": "100"}]
    assert log[1].actor == "admin"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"limit": -1}, "limit"),
    ({"limit": 0.5}, "limit"),
    ({"limit": "1e3"}, "limit"),
    ({"limit": "1.0000000001"}, "limit"),
    ({"limit": "200000000"}, "limit"),
    ({"limit": None}, "limit"),
    ({"kind": "requests", "limit": "5", "period": "1d"}, "limit"),
    ({"kind": "requests", "limit": 5}, "period"),
    ({"kind": "requests", "limit": 5, "period": "1d", "currency": "USD"}, "currency"),
    ({"kind": "concurrency", "limit": 5, "period": "1d"}, "period"),
    ({"kind": "money"}, "kind"),
    ({"period": "2d"}, "period"),
    ({"period": "1d", "zone": "Berlin"}, "zone"),
    ({"period": "30d", "rolling": True, "zone": "Europe/Berlin"}, "zone"),
    ({"currency": "EUR"}, "currency"),
    ({"owner": {}}, "owner"),
    ({"owner": {"team": "a", "customer": "b"}}, "owner"),
    ({"owner": {"team": "a b"}}, "owner"),
    ({"owner": {"key": "x"}}, "owner"),
    ({"owner": "ads"}, "owner"),
    ({"per": "1d"}, "per"),
]


def test_errors_name_the_field(door: Door) -> None:
    """And nothing is made."""
    for fields, field in WRONG:
        assert_problem(door.ask("POST", "/v1/quotas", json={**SPEND, **fields}), 400, field)
    assert door.listed() == []


@pytest.mark.parametrize("limit", [0.1, None, [1], True])
def test_a_limit_that_is_no_amount_is_told_how_one_looks(door: Door, limit: Any) -> None:
    """In words, not in types. A whole number is money as well."""
    response = door.ask("POST", "/v1/quotas", json={**SPEND, "limit": limit})
    assert response.json()["detail"] == 'limit must be an amount in quotes, like "0.10", or a whole number'
    assert door.limit(limit=3)["limit"] == "3"


def test_a_quota_wants_a_key_that_exists_and_few_others(door: Door) -> None:
    """Twenty an owner."""
    unknown = {"owner": {"key": "01900000-0000-7000-8000-000000000000"}}
    assert_problem(door.ask("POST", "/v1/quotas", json={**SPEND, **unknown}), 404, "owner")
    made = [door.limit(period=f"{days}d", rolling=True)["id"] for days in range(1, 21)]
    page = door.ask("GET", "/v1/quotas", params={"limit": 12}).json()
    rest = door.ask("GET", "/v1/quotas", params={"limit": 12, "cursor": page["next_cursor"]}).json()
    assert [quota["id"] for quota in page["data"] + rest["data"]] == made
    assert rest["next_cursor"] is None
    assert_problem(door.ask("GET", "/v1/quotas", params={"cursor": "x"}), 400, "cursor")
    full = door.ask("POST", "/v1/quotas", json=SPEND)
    assert_problem(full, 409, "owner")


def test_keys_see_what_binds_them_and_no_more(door: Door) -> None:
    """Of a team's, the limit and what is left, not what others hold and have used; strangers' aren't there."""
    me = door.ask("GET", "/v1/me", "ann").json()
    team = door.limit(limit="1")
    own = door.limit(owner={"key": me["id"]}, limit="0.5")
    customer = door.limit(owner={"customer": "acme"}, limit="0.7")
    foreign = door.limit(owner={"team": "ops"})
    door.submit("abe")
    assert [quota["id"] for quota in door.listed()] == [quota["id"] for quota in (team, own, customer, foreign)]
    assert [quota["id"] for quota in door.listed(team="ads")] == [team["id"]]
    assert [quota["id"] for quota in door.listed(key=me["id"].upper())] == [own["id"]]
    seen = {quota["id"]: quota for quota in door.listed("ann")}
    assert set(seen) == {team["id"], own["id"], customer["id"]}
    assert [seen[team["id"]][name] for name in ("limit", "left", "held", "used")] == ["1", "0.99", None, None]
    assert [seen[own["id"]][name] for name in ("limit", "left", "held", "used")] == ["0.5", "0.5", "0", "0"]
    assert door.listed("ann", team="ops") == []
    assert_problem(door.ask("GET", f"/v1/quotas/{foreign['id']}", "ann"), 404)
    assert door.ask("GET", f"/v1/quotas/{team['id']}", "ann").json() == seen[team["id"]]
    assert_problem(door.ask("GET", "/v1/quotas", params={"owner": "x"}), 400, "owner")
    for method, path in (("POST", "/v1/quotas"), ("PATCH", f"/v1/quotas/{team['id']}")):
        assert_problem(door.ask(method, path, "ann", json=SPEND), 403)
    assert_problem(door.ask("DELETE", f"/v1/quotas/{team['id']}", "ann"), 403)
    assert {quota["id"] for quota in me_of(door, "ann")["quotas"]} == set(seen)


def me_of(door: Door, name: str) -> dict[str, Any]:
    """Who the key is."""
    return dict(door.ask("GET", "/v1/me", name).json())


def test_who_am_i(door: Door) -> None:
    """What clients want to know of their key, without its secret."""
    me = me_of(door, "ann")
    assert UUID(me.pop("id"))
    assert me == {
        "object": "me", "name": "ann", "scopes": ["submit", "read"], "models": ["scenes", "wide"], "team": "ads",
        "customer": "acme", "weight": 1.0, "expires_at": None, "quotas": [],
    }  # fmt: skip
    assert me_of(door, "mute")["scopes"] == ["submit"]  # whatever it may do
    assert_problem(door.ask("GET", "/v1/quotas", "mute"), 403)
    assert_problem(door.http.get("/v1/me"), 401)


def test_where_no_key_is_wanted_everything_is_open(http: httpx.Client) -> None:
    """On loopback, before the first key."""
    assert http.post("/v1/quotas", json=SPEND).status_code == 201
    assert http.get("/v1/me").json()["scopes"] == ["submit", "read", "observe", "admin"]
    assert len(http.get("/v1/quotas").json()["data"]) == 1
    submit(http)


@pytest.mark.parametrize(
    ("fields", "status", "limit"),
    [
        ({"limit": "0.005"}, 402, "quota_spend"),
        ({"kind": "requests", "limit": 0, "period": "1d"}, 429, "quota_requests"),
    ],
)
def test_openai_s_client_asks_once(site: Site, door: Door, fields: dict[str, Any], status: int, limit: str) -> None:
    """It would try a 429 again, and a 402 in vain: both tell it not to. The refused request leaves no job."""
    door.limit(**fields)
    before = refused(limit)
    secret = door.keys["ann"]["authorization"].removeprefix("Bearer ")
    with (
        OpenAI(base_url=f"{site.url}/v1", api_key=secret) as client,
        pytest.raises(APIStatusError) as error,
    ):
        client.images.generate(prompt="a red circle", model="scenes")
    assert error.value.status_code == status
    assert isinstance(error.value.body, dict)
    assert error.value.body["code"] in ("budget_exceeded", "rate_limited")
    assert refused(limit) == before + 1
    assert door.ask("GET", "/v1/jobs").json()["data"] == []


def test_a_key_is_told_how_its_quotas_stand_in_headers(door: Door) -> None:
    """Those first of which the least is left; nothing where nothing is limited, and no more than proxies carry."""
    assert "ratelimit" not in door.ask("GET", "/v1/me", "ann").headers
    door.limit(kind="requests", limit=4, period="1d", owner={"team": "ads"})
    door.limit(kind="spend", limit="0.10", period="total", owner={"customer": "acme"})
    assert door.submit("ann").status_code == 202
    headers = door.ask("GET", "/v1/me", "ann").headers
    assert headers["ratelimit-policy"] == (
        '"team-requests-1d";q=4;w=86400, "customer-spend-total";q=100000;qu="micro-usd"'
    )
    requests, spend = headers["ratelimit"].split(", ")
    assert spend == '"customer-spend-total";r=90000'
    assert requests.startswith('"team-requests-1d";r=3;t=')
    assert 1 <= int(requests.rpartition("=")[2]) <= 86_400
    for hours in (1, 2, 3, 4, 6, 8, 12):
        door.limit(kind="requests", limit=1000, period=f"{hours}h", owner={"team": "ads"})
    assert door.ask("GET", "/v1/me", "ann").headers["ratelimit"].count(";r=") == 8


SUBMITS: list[tuple[str, dict[str, str], int]] = [
    ("/v1/jobs", {}, 202),
    ("/v1/images/generations", {"prefer": "respond-async"}, 202),
    ("/v1/async/images/generations", {}, 202),
    ("/v1/images/generations", {}, 200),
]


def test_a_submit_that_is_taken_tells_what_it_leaves(door: Door, worker: Driver) -> None:
    """On every way in; what is found in the cache, too. A repeat booked nothing, and nothing was looked up for it."""
    assert "ratelimit" not in door.submit("ann").headers
    door.limit(kind="requests", limit=9, period="1d")
    door.limit(kind="spend", limit="0.10", owner={"customer": "acme"})
    body = {"prompt": "a red circle", "seed": 5, "model": "scenes"}
    known = door.keys["ann"] | {"idempotency-key": "k"}
    assert door.http.post("/v1/jobs", json=body, headers=known).headers["ratelimit"].count(";r=") == 2
    for _ in range(2):
        worker.render()
    for left, (path, headers, status) in zip((7, 6, 5, 4), SUBMITS, strict=True):
        response = door.http.post(path, json=body, headers=door.keys["ann"] | headers)
        assert response.status_code in (status, 200), response.text
        told = response.headers
        assert told["ratelimit-policy"] == (
            '"team-requests-1d";q=9;w=86400, "customer-spend-total";q=100000;qu="micro-usd"'
        )
        assert re.fullmatch(rf'"team-requests-1d";r={left};t=\d+, "customer-spend-total";r=90000', told["ratelimit"]), (
            told["ratelimit"]
        )
    repeated = door.http.post("/v1/jobs", json=body, headers=known)
    assert repeated.headers["idempotency-replayed"] == "true"
    assert "ratelimit" not in repeated.headers
    stream = {**body, "stream": True, "seed": 6}
    with door.http.stream("POST", "/v1/images/generations", json=stream, headers=door.keys["ann"]) as response:
        assert response.headers["ratelimit"].startswith('"team-requests-1d";r=3;')


def test_headers_of_what_was_written_together_are_made_once() -> None:
    """And anew for others, or when a second has passed: they count in seconds."""
    status = QuotaStatus(quota=new_quota(most=5, kind="concurrency"), held=Decimal(1), used=Decimal(0), ends_at=None)
    shared, other = (status,), (status, status)
    headers = SubmitHeaders()
    assert headers.of(()) == {}
    first = headers.of(shared)
    assert first["RateLimit"] == '"team-concurrency-total";r=4'
    assert headers.of(shared) is first
    assert headers.of(other)["RateLimit"].count("r=4") == 2
    assert headers.of(shared) == first
