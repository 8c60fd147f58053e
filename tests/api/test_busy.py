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

    for name in ("list_jobs", "count_jobs", "costs", "latency"):
        monkeypatch.setattr(site.services.store, name, busy)
    for path in ("/v1/jobs", "/v1/jobs/count", "/v1/costs", "/v1/latency"):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "5"
        assert "try again" in answer.json()["detail"]
