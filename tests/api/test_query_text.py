"""What no query may be: text with U+0000, and times that are no date in UTC; the ends of the calendar are taken."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

NAMED = (
    ("/v1/keys", "text"), ("/v1/keys", "team"), ("/v1/keys", "customer"), ("/v1/audit", "actor"), ("/v1/jobs", "text"),
    ("/v1/jobs", "host"), ("/v1/jobs/count", "dimension"), ("/v1/costs", "team"), ("/v1/costs", "dim.shot"),
    ("/v1/latency", "model"), ("/v1/quotas", "team"), ("/v1/overview", "zone"), ("/v1/webhooks/deliveries", "cursor"),
    ("/admin", "zone"), ("/admin/keys", "text"), ("/admin/keys", "team"), ("/admin/budgets", "owner"),
    ("/admin/jobs", "text"), ("/admin/jobs/cancel", "host"), ("/admin/audit", "actor"), ("/admin/audit.csv", "target"),
    ("/admin/cost", "dim.shot"),
    ("/admin/webhooks/deliveries", "job_id"),
)  # fmt: skip
TIMES = (
    *((path, name) for path in ("/v1/jobs", "/v1/jobs/count", "/admin/jobs", "/admin/jobs/cancel")
      for name in ("created_after", "created_before")),
    *((path, name) for path in ("/v1/audit", "/admin/audit", "/admin/audit.csv") for name in ("after", "before")),
)  # fmt: skip


@pytest.mark.parametrize("wrong", ["%00", "a%00b"])
def test_no_query_holds_the_character_that_no_text_may_hold(http: httpx.Client, wrong: str) -> None:
    """Each route names the parameter, and the store is never asked."""
    for path, name in NAMED:
        answer = http.get(f"{path}?{name}={wrong}")
        assert (answer.status_code, "U+0000" in answer.text) == (400, True), (path, name)
        assert name.lower() in answer.text.lower(), (path, name)
    assert http.get("/v1/jobs?%00=a").status_code == 400
    assert http.get("/v1/keys?text=a%2500b").status_code == 200, "that is a per cent sign and two noughts"


def test_no_name_ends_in_a_line_of_its_own(http: httpx.Client) -> None:
    """`$` of Python's patterns lets a last newline through; the document has it all the same, for others' patterns."""
    for path in ("lane=default", "model=scenes", "error_code=a", "cursor=czE"):
        assert http.get(f"/v1/jobs?{path}%0A").status_code == 400, path
    for path in ("keys?team=a", "audit?target=x", "audit?action=a", "quotas?customer=a", "quotas?cursor=a"):
        assert http.get(f"/v1/{path}%0A").status_code == 400, path
    for path, body in (
        ("jobs", {"prompt": "x", "dimensions": {"team\n": "a"}}), ("jobs", {"prompt": "x", "seed": "5\n"}),
        ("jobs", {"prompt": "x", "adapters": ["ink\n"]}), ("jobs/cancel", {"dimensions": {"a\n": "b"}}),
        ("jobs/redrive", {"error_code": "a\n"}), ("jobs/cancel", {"cursor": "a\n", "model": "scenes"}),
        ("keys", {"name": "c", "team": "ads\n"}), ("keys", {"name": "c", "models": ["scenes\n"]}),
        ("quotas", {"kind": "spend", "limit": "5", "owner": {"team": "ads\n"}}),
    ):  # fmt: skip
        assert http.post(f"/v1/{path}", json=body).status_code == 400, (path, body)
    document = http.get("/openapi.json").text
    assert "\\\\Z" not in document
    assert '"^[a-z0-9_-]{1,64}$"' in document


def test_patterns_end_where_the_text_does() -> None:
    """None of those that say what a value is ends in `$`."""
    root = Path(__file__).parents[2]
    files = [file for room in ("api", "safelight", "jobstore") for file in (root / room).rglob("*.py")]
    wrong = [f"{file.name}: {line.strip()}" for file in files for line in file.read_text().splitlines()
             if re.search(r"""(pattern=|= )[rf]*"\^.*\$\"""", line)]  # fmt: skip
    assert wrong == []


def test_the_ends_of_the_calendar_are_asked_for(http: httpx.Client) -> None:
    """Those in UTC are times like others; those that are no date there are refused by name."""
    for path, name in TIMES:
        for end in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
            assert http.get(f"{path}?{name}={end}").status_code == 200, (path, name, end)
        for beyond in ("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-12:00"):
            answer = http.get(f"{path}?{name}={beyond}")
            assert (answer.status_code, name in answer.text.lower()) == (400, True), (path, name, beyond)
    for time in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
        for path, field in (("cancel", "created_before"), ("redrive", "finished_before")):
            answer = http.post(f"/v1/jobs/{path}", json={field: time, "dry_run": True})
            assert answer.status_code == 200, (path, time)
