"""A store that is busy with searches and reports, over HTTP."""

from __future__ import annotations

import httpx
import pytest

from jobstore.errors import StoreBusyError
from tests.api.site import Site


def test_a_search_that_gets_no_turn_is_told_to_come_again(
    site: Site, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 503 with a Retry-After on each of the routes that search or sum."""

    async def busy(*_: object, **__: object) -> None:
        raise StoreBusyError("too many searches and reports are under way: try again in a moment")

    for name in ("list_jobs", "count_jobs", "costs", "latency", "figures", "cancel_jobs", "redrive", "count_letters"):
        monkeypatch.setattr(site.services.store, name, busy)
    asked = [http.get(f"/v1/{path}") for path in ("jobs", "jobs/count", "costs", "latency", "overview")]
    asked += [http.post("/v1/jobs/redrive", json={"dry_run": dry_run}) for dry_run in (True, False)]
    asked.append(http.post("/v1/jobs/cancel", json={"states": ["queued"]}))
    for answer in asked:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "5"
        assert "try again" in answer.json()["detail"]
