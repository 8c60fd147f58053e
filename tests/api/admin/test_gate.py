"""What the admin pages send along, and who may change something."""

from __future__ import annotations

import re

import httpx

from api.admin.rendering import SECTIONS
from api.admin.routes import admin_routes
from tests.api.admin.conftest import token
from tests.api.site import Site
from tests.api.test_problems import assert_problem

PAUSE = "/admin/lanes/default/pause"


def paused(site: Site) -> bool:
    """Whether the lane stands still."""
    return any(lane.paused_at is not None for lane in site.call(site.services.store.lanes()))


def test_every_page_forbids_what_it_does_not_need(signed_in: httpx.Client) -> None:
    """No script, style or frame of anybody's, no copy in a cache; pages of problems are the same."""
    for path in ("/admin", "/admin/lanes", "/admin/nothing", "/admin/sign-in"):
        headers = signed_in.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_no_page_has_script_or_style_in_it(signed_in: httpx.Client) -> None:
    """The policy would stop it; so would nobody notice what doesn't work."""
    for path in ("/admin", "/admin/lanes"):
        text = signed_in.get(path).text
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|js:", text)


def test_an_admin_changes_with_the_token_of_the_form(site: Site, signed_in: httpx.Client) -> None:
    """By a field or a header; it is in the audit log under the key."""
    own = token(signed_in, "/admin/lanes")
    answer = signed_in.post(PAUSE, data={"csrf": own, "reason": "drivers"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/lanes")
    assert paused(site)
    (entry,) = (entry for entry in site.call(site.services.store.list_audit()).entries if entry.action == "lane.paused")
    assert (entry.actor, entry.details["reason"]) == ("ops", "drivers")
    page = signed_in.get("/admin/lanes").text
    assert "default is paused" in page
    assert "default is paused" not in signed_in.get("/admin/lanes").text
    answer = signed_in.post("/admin/lanes/default/resume", headers={"x-csrf-token": own, "hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (204, "/admin/lanes")
    assert not paused(site)


def test_without_the_right_token_nothing_changes(
    site: Site, signed_in: httpx.Client, observer: httpx.Client, http: httpx.Client
) -> None:
    """None, a wrong one, another session's, that of before the sign-in."""
    with httpx.Client(base_url=site.url) as stranger:
        before = token(stranger)
    for wrong in ("", "0" * 64, token(observer, "/admin"), before):
        answer = signed_in.post(PAUSE, data={"csrf": wrong})
        assert answer.status_code == 403
        assert "load the page again" in answer.text
    assert signed_in.post(PAUSE, json={"csrf": token(signed_in, "/admin")}).status_code == 415
    assert not paused(site)


def test_an_open_server_wants_the_token_too(site: Site, http: httpx.Client) -> None:
    """And no page of another origin can post, not even with it."""
    assert http.post(PAUSE).status_code == 403
    own = token(http, "/admin/lanes")
    answer = http.post(PAUSE, data={"csrf": own}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert not paused(site)
    assert http.post(PAUSE, data={"csrf": own}).status_code == 303


def test_who_may_only_look_changes_nothing(site: Site, observer: httpx.Client) -> None:
    """Every post is a 403, whatever it is; the pages are all there, without the buttons."""
    own = token(observer, "/admin")
    for route in admin_routes(1_000_000).routes:
        for method in getattr(route, "methods", ()):
            if method == "POST" and not route.path.startswith("/admin/sign-"):
                path = re.sub(r"{[^}]*}", "x", route.path)
                answer = observer.post(path, data={"csrf": own})
                assert answer.status_code == 403, path
                assert "look and change nothing" in answer.text
    page = observer.get("/admin/lanes")
    assert page.status_code == 200
    assert "read-only" in page.text
    assert "Pause it" not in page.text


def test_an_observer_reads_over_http_what_the_pages_show(site: Site, secrets: dict[str, str]) -> None:
    """And is refused what they don't let it do."""
    headers = {"authorization": f"Bearer {secrets['observer']}"}
    for path in ("/v1/keys", "/v1/lanes", "/v1/audit", "/v1/jobs"):
        assert httpx.get(site.url + path, headers=headers).status_code == 200
    for path in ("/v1/keys", "/v1/jobs", "/v1/jobs/cancel", "/v1/lanes/default/pause"):
        assert_problem(httpx.post(site.url + path, json={}, headers=headers), 403)


def test_problems_are_pages_in_plain_words(signed_in: httpx.Client) -> None:
    """Or parts of one, where a part was asked for."""
    own = token(signed_in, "/admin")
    page = signed_in.post("/admin/lanes/none/pause", data={"csrf": own})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "There is no such lane; there are: big, default." in page.text
    assert "<nav" in page.text
    part = signed_in.post("/admin/lanes/none/pause", data={"csrf": own}, headers={"hx-request": "true"})
    assert part.status_code == 404
    assert "<nav" not in part.text
    assert signed_in.get("/admin/nothing").status_code == 404


def test_the_navigation_leads_to_every_section(signed_in: httpx.Client) -> None:
    """And marks the one that is shown."""
    text = signed_in.get("/admin/lanes").text
    for name, address in SECTIONS:
        assert f'<a href="{address}"' in text, name
    assert text.count('aria-current="page"') == 1
    assert '<a href="/admin/lanes" aria-current="page">' in text
