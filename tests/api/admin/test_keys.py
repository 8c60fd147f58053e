"""The pages of keys, budgets and the audit log: what they keep to themselves, and what they refuse."""

from __future__ import annotations

import csv
import re

import httpx
import pytest

from jobstore.audit import Actor, AuditNote
from tests.api.admin.conftest import token
from tests.api.site import Site

PAGES = ("/admin/keys", "/admin/keys/new", "/admin/budgets", "/admin/budgets/new", "/admin/audit")
KEY = {"name": "<script>alert(1)</script>", "scopes": ["submit", "read"], "weight": "1"}
BUDGET = {"owner": "team", "team": "ads", "kind": "spend", "limit": "0.10", "period": "1M", "window": "calendar"}


def make(client: httpx.Client, **fields: object) -> httpx.Response:
    """Send the form of a new key."""
    return client.post("/admin/keys", data={"csrf": token(client, "/admin/keys/new"), **KEY, **fields})


def budget(client: httpx.Client, **fields: str) -> httpx.Response:
    """Send the form of a new budget."""
    return client.post("/admin/budgets", data={"csrf": token(client, "/admin/budgets/new"), **BUDGET, **fields})


def test_a_secret_is_on_one_answer_that_no_cache_keeps(site: Site, signed_in: httpx.Client) -> None:
    """Neither in an address nor on a later page nor in the log; names are but text."""
    answer = make(signed_in)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    found = re.search(r'id="secret">(sl_[A-Za-z0-9_-]{43})<', answer.text)
    assert found is not None
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text
    used = httpx.get(f"{site.url}/v1/me", headers={"authorization": f"Bearer {found[1]}"})
    assert used.json()["name"] == KEY["name"]
    own = next(key for key in site.call(site.services.store.list_keys()) if key.name == KEY["name"])
    named = f'title="{own.id}">&lt;script&gt;alert(1)&lt;/script&gt;</a>'
    assert named in signed_in.get("/admin/audit").text, "the log names what was changed"
    for path in ("/admin/keys", f"/admin/keys/{own.id}", "/admin/audit", "/admin/audit.csv"):
        text = signed_in.get(path).text
        assert found[1] not in text
        assert "<script>alert" not in text.replace(str(KEY["name"]), "") or path.endswith(".csv")


def test_who_may_only_look_sees_all_and_no_form(signed_in: httpx.Client, observer: httpx.Client) -> None:
    """Every page opens, without what changes something; what a team has used is told, too."""
    assert budget(signed_in).status_code == 303
    for path in PAGES:
        answer = observer.get(path)
        assert answer.status_code == 200
        assert '<button class="primary"' not in answer.text
        assert "<dialog" not in answer.text
    assert "0.10 USD" in observer.get("/admin/budgets").text
    refused = observer.post("/admin/keys", data={"csrf": token(observer, "/admin"), **KEY})
    assert refused.status_code == 403


def test_no_page_has_script_or_style_in_it(signed_in: httpx.Client) -> None:
    """The policy would stop it."""
    budget(signed_in)
    for path in PAGES:
        assert not re.search(
            r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|js:", signed_in.get(path).text
        ), path


def test_without_the_token_nothing_is_made(site: Site, signed_in: httpx.Client) -> None:
    """Of whatever kind."""
    before = len(site.call(site.services.store.list_keys()))
    for path, fields in (("/admin/keys", KEY), ("/admin/budgets", BUDGET)):
        assert signed_in.post(path, data={**fields, "csrf": "0" * 64}).status_code == 403
    assert len(site.call(site.services.store.list_keys())) == before
    assert site.call(site.services.store.quotas()) == ()


def test_what_a_form_of_a_key_can_not_hold_is_named(signed_in: httpx.Client) -> None:
    """By its field, in the words of the API."""
    for fields, field, words in (
        ({"name": ""}, "name", "Name must not be empty"),
        ({"name": "x" * 101}, "name", "at most 100 characters"),
        ({"scopes": []}, "scopes", "Scopes must be one or more"),
        ({"weight": "heavy"}, "weight", "Weight must be a number"),
        ({"weight": "1e9"}, "weight", "at most 1000"),
        ({"team": "a b"}, "team", "Team must be 1 to 64"),
        ({"models": ["none"]}, "models", "must name models of the settings"),
        ({"expires_at": "2020-01-01T00:00"}, "expires_at", "must lie ahead"),
        ({"expires_at": "soon"}, "expires_at", "must be a time like"),
    ):
        answer = make(signed_in, **fields)
        assert answer.status_code == 400, fields
        assert f'data-field="{field}"' in answer.text
        assert words in answer.text


def test_what_a_form_of_a_budget_can_not_hold_is_named(signed_in: httpx.Client) -> None:
    """By its field; amounts are taken digit by digit."""
    for fields, field, words in (
        ({"owner": "nobody"}, "owner", "Choose whose budget it is"),
        ({"team": "a b"}, "team", "Team must be 1 to 64"),
        ({"owner": "key", "key": ""}, "key", "missing"),
        ({"limit": "ten"}, "limit", "must be an amount"),
        ({"limit": "1e3"}, "limit", "must be an amount"),
        ({"kind": "requests", "limit": "1.5"}, "limit", "whole number"),
        ({"kind": "requests", "period": "total", "limit": "1"}, "period", "name one like"),
        ({"period": "2M"}, "period", "one M"),
        ({"zone": "Mars"}, "zone", "is not a time zone"),
        ({"kind": "hopes"}, "kind", "Kind must be one of"),
    ):
        answer = budget(signed_in, **fields)
        assert answer.status_code == 400, fields
        assert f'data-field="{field}"' in answer.text, answer.text[-600:]
        assert words in answer.text
    assert budget(signed_in, limit="0.123456789").status_code == 303
    assert "0.123456789 USD" in signed_in.get("/admin/budgets").text
    assert budget(signed_in).status_code == 409


def test_the_last_admin_key_goes_with_the_box_alone(site: Site, signed_in: httpx.Client) -> None:
    """The refusal says so in the words of the page."""
    own = next(key for key in site.call(site.services.store.list_keys()) if key.admin)
    csrf = token(signed_in, f"/admin/keys/{own.id}")
    refused = signed_in.post(f"/admin/keys/{own.id}/revoke", data={"csrf": csrf})
    assert refused.status_code == 409
    assert "tick the box" in refused.text
    assert "force=true" not in refused.text
    assert signed_in.post(f"/admin/keys/{own.id}/revoke", data={"csrf": csrf, "force": "yes"}).status_code == 303
    assert signed_in.get("/admin/keys").status_code == 303  # to sign in: the session ended with its key


@pytest.mark.parametrize(
    "address",
    [
        "/admin/keys?state=odd", "/admin/keys?cursor=x", f"/admin/keys?text={'x' * 101}", "/admin/budgets?of=odd",
        "/admin/budgets?only=odd", "/admin/budgets?cursor=x", "/admin/audit?cursor=x", "/admin/audit?after=noon",
        f"/admin/audit?actor={'x' * 201}", "/admin/audit?secret=x", "/admin/audit.csv?before=x",
    ],
)  # fmt: skip
def test_what_can_not_be_asked_is_a_400(signed_in: httpx.Client, address: str) -> None:
    """Nothing is guessed."""
    assert signed_in.get(address).status_code == 400


def test_what_is_not_there_is_a_404(signed_in: httpx.Client) -> None:
    """Ids that nobody has, and what is none."""
    csrf = token(signed_in, "/admin/keys/new")
    for path in ("/admin/keys/x", "/admin/keys/01890000-0000-7000-8000-000000000000"):
        assert signed_in.get(path).status_code == 404
        assert signed_in.post(f"{path}/revoke", data={"csrf": csrf}).status_code == 404
    assert signed_in.post("/admin/budgets/x/delete", data={"csrf": csrf}).status_code == 404


def test_a_download_holds_no_formula(site: Site, signed_in: httpx.Client) -> None:
    """Whoever names a key chooses what stands in a spreadsheet's cell."""
    note = AuditNote(by=Actor(name="=1+1"), action="lane.paused", target="@x", details={"reason": "-2"})
    site.call(site.services.store.audit(note))
    answer = signed_in.get("/admin/audit.csv?action=lane.paused")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "attachment" in answer.headers["content-disposition"]
    (_, line) = csv.reader(answer.text.splitlines())
    assert line[2:] == ["'=1+1", "", "lane.paused", "'@x", '{"reason": "-2"}']
