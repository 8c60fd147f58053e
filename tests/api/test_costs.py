"""Reports of costs and times over HTTP: who sees what, as JSON and as CSV, and what can't be answered."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import pytest

from api.cost_sheets import cell
from tests.api.site import Driver, Site
from tests.api.test_problems import assert_problem
from tests.contract.keying import make_key

FORMULA = "=HYPERLINK(1)"


@pytest.fixture
def keys(site: Site) -> dict[str, dict[str, str]]:
    """Headers of an admin, and of keys of two teams."""
    teams: dict[str, dict[str, Any]] = {"admin": {"admin": True}, "ann": {"team": "ads"}, "bob": {"team": "ops"}}
    made = {name: site.call(make_key(site.services.store, name, **fields)) for name, fields in teams.items()}
    site.services.keys.forget()
    return {name: {"authorization": f"Bearer {secret}"} for name, secret in made.items()}


@pytest.fixture
def rendered(http: httpx.Client, worker: Driver, keys: dict[str, dict[str, str]]) -> None:
    """A job of each team, rendered."""
    for name in ("ann", "bob"):
        body = {"prompt": f"a red circle by {name}", "dimensions": {"experiment": FORMULA}}
        assert http.post("/v1/jobs", headers=keys[name], json=body).status_code == 202
        worker.render()


@pytest.mark.usefixtures("rendered")
def test_an_admin_sees_all_and_a_key_its_own(http: httpx.Client, keys: dict[str, dict[str, str]]) -> None:
    """Amounts are decimals in quotes; keys are told by id and name."""
    whole = http.get("/v1/costs?by=team&by=key", headers=keys["admin"]).json()
    assert sorted(row["group"]["team"] for row in whole["data"]) == ["ads", "ops"]
    assert sorted(whole["names"].values()) == ["ann", "bob"]
    [total] = whole["totals"]
    assert (total["jobs"], total["currency"]) == (2, "USD")
    own = http.get("/v1/costs?by=team,key", headers=keys["ann"]).json()
    [row] = own["data"]
    assert row["group"]["team"] == "ads"
    assert list(own["names"].values()) == ["ann"]
    other = next(row["group"]["key"] for row in whole["data"] if row["group"]["team"] == "ops")
    assert_problem(http.get(f"/v1/costs?key={other}", headers=keys["ann"]), 403, "key")
    times = http.get("/v1/latency?by=model", headers=keys["ann"]).json()
    assert times["total"]["jobs"] == 1


@pytest.mark.usefixtures("rendered")
def test_csv_holds_no_formula(http: httpx.Client, keys: dict[str, dict[str, str]]) -> None:
    """By ``format`` or by ``Accept``, with a line for the rest."""
    for arguments in ({"params": {"format": "csv"}}, {"headers": {"accept": "text/csv"}}):
        headers = keys["admin"] | arguments.get("headers", {})
        params: dict[str, Any] = {"by": ["dim:experiment", "team"], "limit": 1} | arguments.get("params", {})
        response = http.get("/v1/costs", headers=headers, params=params)
        assert response.headers["content-type"].startswith("text/csv")
        assert "attachment" in response.headers["content-disposition"]
        header, first, rest = csv.reader(io.StringIO(response.text))
        assert header[:3] == ["dim:experiment", "team", "currency"]
        assert (first[0], rest[0]) == (f"'{FORMULA}", "(rest)")
    times = http.get("/v1/latency?by=key&format=csv", headers=keys["admin"])
    assert times.text.splitlines()[0] == "key,key_name,jobs,p50_s,p90_s"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra"])
def test_what_begins_like_a_formula_is_marked(text: str) -> None:
    """And nothing else is."""
    assert cell(text) == f"'{text}"
    assert cell(f"a{text}") == f"a{text}"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=colour", "by"),
        ("by=day,model,team,key", "by"),
        ("from=yesterday", "from"),
        ("from=2026-02-01&to=2026-01-01", "to"),
        ("zone=Mars", "zone"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("format=xml", "format"),
        ("cache=maybe", "cache"),
        ("key=me", "key"),
        ("colour=red", "colour"),
        ("dim.UPPER=x", "dim.UPPER"),
    ],
)
def test_what_can_not_be_answered_names_its_field(http: httpx.Client, query: str, field: str) -> None:
    """For both reports."""
    for report in ("costs", "latency"):
        assert_problem(http.get(f"/v1/{report}?{query}"), 400, field)


def test_a_filter_by_dimension_and_nothing_settled(http: httpx.Client) -> None:
    """An empty report is one too."""
    found = http.get("/v1/costs?dim.experiment=a&team=ads&zone=Asia/Kathmandu").json()
    assert (found["data"], found["rest"], found["totals"], found["zone"]) == ([], [], [], "Asia/Kathmandu")
    assert http.get("/v1/latency").json()["total"] is None
