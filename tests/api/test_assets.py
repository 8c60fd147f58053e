"""What pages load."""

from __future__ import annotations

import gzip
from email.message import Message

import httpx
import pytest

from api.assets import asset_url, find_asset
from tests.api.test_problems import assert_problem

NAMES = ("base.css", "admin.css", "admin.js", "icon.svg", "htmx.js", "chart.js")
PAGE_LIMIT = 300_000


@pytest.mark.parametrize("name", NAMES)
def test_an_asset_is_kept_for_good_under_its_digest(http: httpx.Client, name: str) -> None:
    """Compressed for who takes that; of the right type."""
    answer = http.get(asset_url(name), headers={"accept-encoding": "gzip"})
    assert answer.content == find_asset(name).content
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Accept-Encoding"
    kind = Message()
    kind["content-type"] = answer.headers["content-type"]
    assert kind.get_content_type() in ("text/css", "text/javascript", "image/svg+xml")
    plain = http.get(asset_url(name), headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == answer.content


def test_another_versions_digest_is_not_kept(http: httpx.Client) -> None:
    """While servers of two versions answer, none of them teaches browsers the other's."""
    answer = http.get("/assets/0000000000000000/base.css")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize("name", ["none.js", "..%2f__init__.py", "style.html", "%00"])
def test_nothing_else_is_served(http: httpx.Client, name: str) -> None:
    """No file of the package beside the assets."""
    assert_problem(http.get(f"/assets/0000000000000000/{name}"), 404)


def test_a_page_with_everything_is_light() -> None:
    """As it travels."""
    assert sum(len(gzip.compress(find_asset(name).content, 9)) for name in NAMES) < PAGE_LIMIT / 2
