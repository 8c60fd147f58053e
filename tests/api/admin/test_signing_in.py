"""Signing in to the admin pages: with what, for how long, and where one ends up."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

import httpx
import pytest
from litestar import Request

from api.admin.routes import admin_routes
from api.admin.sessions import COOKIE, LIFETIME_S, Session
from api.admin.signing_in import inside
from jobstore.keys import hash_secret, hint_of, make_secret
from tests.api.admin.conftest import token, try_sign_in
from tests.api.site import Site
from tests.contract.keying import TESTER


def test_without_keys_the_pages_are_open(http: httpx.Client) -> None:
    """As the API is; there is nothing to sign in with."""
    assert http.get("/admin").status_code == 200
    assert http.get("/admin/sign-in").headers["location"] == "/admin"


@pytest.mark.parametrize(("form", "status"), [("a=" + 65_000 * "a", 413), ("&" * 2_000, 400), ("a=1&" * 2_000, 400)])
def test_a_forms_size_is_bounded_for_strangers(
    http: httpx.Client, secrets: dict[str, str], monkeypatch: pytest.MonkeyPatch, form: str, status: int
) -> None:
    """Before it is taken apart, which would hold up everybody else."""
    del secrets
    monkeypatch.setattr(Request, "form", None)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert http.post("/admin/sign-in", content=form, headers=headers).status_code == status
    assert [admin_routes(most).request_max_body_size for most in (2_000_000, 2_000)] == [64_000, 2_000]


def test_an_open_server_answers_to_its_own_names_alone(http: httpx.Client) -> None:
    """Else a name that is made to lead here would be this site to a browser."""
    for path in ("/admin", "/admin/sign-in", "/admin/live"):
        answer = http.get(path, headers={"host": "evil.example"})
        assert answer.status_code == 403
        assert "not to other names" in answer.text


def test_with_keys_each_page_wants_a_sign_in(http: httpx.Client, secrets: dict[str, str]) -> None:
    """And leads back to where one wanted to go."""
    for path in ("/admin", "/admin/lanes?x=1", "/admin/live", "/admin/nothing"):
        answer = http.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/admin/sign-in?next=%2Fadmin")
    answer = http.post("/admin/lanes/default/pause", data={"csrf": token(http)})
    assert answer.headers["location"] == "/admin/sign-in?next=%2Fadmin"
    part = http.get("/admin/lanes", headers={"hx-request": "true"})
    assert (part.status_code, part.headers["hx-refresh"]) == (401, "true")


def test_an_admin_signs_in_and_out(http: httpx.Client, secrets: dict[str, str]) -> None:
    """The cookie is out of scripts' and other sites' reach, and holds no secret."""
    answer = try_sign_in(http, secrets["admin"], "/admin/lanes?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/lanes?x=1")
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Path=/admin", f"Max-Age={LIFETIME_S}"):
        assert part in cookie
    assert "Secure" not in cookie  # over plain http the browser would drop it
    assert secrets["admin"] not in cookie
    page = http.get("/admin/lanes")
    assert page.status_code == 200
    assert "read-only" not in page.text
    assert http.get("/admin/sign-in").headers["location"] == "/admin"
    assert http.post("/admin/sign-out", data={"csrf": token(http, "/admin")}).status_code == 303
    assert http.get("/admin").status_code == 303


def test_who_is_refused_is_told_why(http: httpx.Client, secrets: dict[str, str]) -> None:
    """A wrong key, one that may not, none at all; the form is there again."""
    for secret, status, words in (
        ("sl_wrong", 401, "not valid"),
        ("", 401, "not valid"),
        ("x" * 5000, 401, "not valid"),
        (secrets["plain"], 403, "observe"),
    ):
        answer = try_sign_in(http, secret)
        assert answer.status_code == status
        assert words in answer.text
        assert 'name="key"' in answer.text
        assert COOKIE not in http.cookies
        assert not secret or secret not in answer.text


def test_tries_are_counted(http: httpx.Client, secrets: dict[str, str]) -> None:
    """An address has so many that fail a minute, and is told when to come again; the right key is let in."""
    answers = [try_sign_in(http, "sl_wrong") for _ in range(21)]
    assert answers[0].status_code == 401
    late = answers[-1]
    assert late.status_code == 429
    assert int(late.headers["retry-after"]) > 0
    assert "try again in" in late.text
    assert try_sign_in(http, secrets["plain"]).status_code == 429
    assert try_sign_in(http, secrets["admin"]).status_code == 303


def test_who_signs_in_uses_up_no_tries(http: httpx.Client, secrets: dict[str, str]) -> None:
    """However often: only what fails is counted."""
    for _ in range(21):
        assert try_sign_in(http, secrets["observer"]).status_code == 303
        http.cookies.clear()
    assert try_sign_in(http, "sl_wrong").status_code == 401


@pytest.mark.parametrize("path", [
    "https://evil.example", "//evil.example", "/\\evil.example", "/admin\\@evil", "/administrator", "admin", "",
    "/admin\r\nx: y", "javascript:alert(1)", "/admin/" + "x" * 3000, "/admin é",
])  # fmt: skip
def test_nobody_is_sent_elsewhere(path: str) -> None:
    """After signing in there are the admin pages alone."""
    assert inside(path) == "/admin"


def test_a_session_ends_with_its_key(
    site: Site, secrets: dict[str, str], client_of: Callable[[str], httpx.Client]
) -> None:
    """Revoked, given another secret, or without the scope: signed out as soon as the server knows."""
    store = site.services.store
    keys = {key.name: key for key in site.call(store.list_keys())}
    observer, admin = client_of("observer"), client_of("admin")
    site.call(store.revoke_key(keys["night watch"].id, TESTER))
    secret = make_secret()
    site.call(store.rotate_key(keys["ops"].id, hash_secret(secret), hint_of(secret), TESTER, grace_s=3600))
    site.services.keys.forget()
    for client in (observer, admin):
        assert client.get("/admin").status_code == 303


def test_a_cookie_that_is_not_ours_does_not_count(site: Site, signed_in: httpx.Client) -> None:
    """Changed, invented, cut off, or past its time though signed."""
    value = signed_in.cookies[COOKIE]
    key_id, expires, nonce, hint, signature = value.split(".")
    late = Session(key_id=UUID(key_id), expires=int(time.time()) - 1, nonce=nonce, hint=hint)
    own = site.call(site.services.sessions._signer.sign(late.text))
    for wrong in (
        f"{key_id}.{int(expires) + 1}.{nonce}.{hint}.{signature}",
        f"{key_id}.{expires}.{nonce}.{hint}.{'0' * 64}",
        f"{key_id}.{late.expires}.{nonce}.{hint}.{own}",
        value[:-1],
        "x",
        "é",
    ):
        headers = [(b"cookie", f"{COOKIE}={wrong}".encode())]
        assert httpx.get(f"{site.url}/admin", headers=headers).status_code == 303
    assert signed_in.get("/admin").status_code == 200
