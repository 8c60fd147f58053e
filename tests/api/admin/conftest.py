"""A running API with keys, and clients that are signed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from jobstore.keys import Scope
from tests.api.site import Site
from tests.contract.keying import make_key

_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


def token(client: httpx.Client, path: str = "/admin/sign-in") -> str:
    """The token of the forms on a page."""
    found = _TOKEN.search(client.get(path, follow_redirects=True).text)
    assert found is not None, f"no form on {path}"
    return found[1]


def try_sign_in(client: httpx.Client, secret: str, next_path: str = "/admin") -> httpx.Response:
    """Send the form for signing in."""
    fields = {"csrf": token(client), "key": secret, "next": next_path}
    return client.post("/admin/sign-in", data=fields)


@pytest.fixture
def secrets(site: Site) -> dict[str, str]:
    """An admin's key, one that may look, and a plain one."""
    httpx.get(f"{site.url}/livez").raise_for_status()  # the store is open once it answers
    store = site.services.store
    made = {
        "admin": site.call(make_key(store, "ops", admin=True)),
        "observer": site.call(make_key(store, "night watch", scopes=(Scope.OBSERVE,))),
        "plain": site.call(make_key(store, "ann")),
    }
    site.services.keys.forget()
    return made


@pytest.fixture
def client_of(site: Site, secrets: dict[str, str]) -> Iterator[Callable[[str], httpx.Client]]:
    """Makes clients with cookies of their own, signed in by the key of a name."""
    with ExitStack() as stack:

        def make(name: str) -> httpx.Client:
            client = stack.enter_context(httpx.Client(base_url=site.url, timeout=20))
            assert try_sign_in(client, secrets[name]).status_code == 303
            return client

        yield make


@pytest.fixture
def signed_in(client_of: Callable[[str], httpx.Client]) -> httpx.Client:
    """An admin's client."""
    return client_of("admin")


@pytest.fixture
def observer(client_of: Callable[[str], httpx.Client]) -> httpx.Client:
    """The client of who may only look."""
    return client_of("observer")
