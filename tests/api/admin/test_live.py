"""The stream that tells pages to ask anew."""

from __future__ import annotations

import httpx

from api.seating import Seating
from tests.api.site import Site
from tests.api.test_jobs import submit
from tests.contract.keying import TESTER


def test_it_tells_of_jobs_and_of_time_and_ends_with_the_session(
    site: Site, signed_in: httpx.Client, secrets: dict[str, str]
) -> None:
    """`over` is the last word, so that the page asks to sign in again."""
    with signed_in.stream("GET", "/admin/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert "event: hello" in lines
        assert site.services.tail.listeners == 1
        with httpx.Client(base_url=site.url, headers={"authorization": f"Bearer {secrets['admin']}"}) as http:
            submit(http)
        assert "event: jobs" in lines
        assert "event: beat" in lines
        for key in site.call(site.services.store.list_keys()):
            site.call(site.services.store.revoke_key(key.id, TESTER, force=True))
        site.services.keys.forget()
        assert "event: over" in lines
        assert [line for line in lines if line.startswith("event:")] == []


def test_it_counts_among_the_streams(site: Site, http: httpx.Client) -> None:
    """Where no further one is taken, it isn't either."""
    site.services.tail._streams = Seating(0)
    assert http.get("/admin/live").status_code == 503


def test_it_ends_with_the_process(site: Site, http: httpx.Client) -> None:
    """So that a page that is open holds up no shutdown."""
    with http.stream("GET", "/admin/live") as answer:
        lines = answer.iter_lines()
        assert "event: hello" in lines
        site._loop.call_soon_threadsafe(site.services.tail.close)
        assert "event: over" not in [*lines]
