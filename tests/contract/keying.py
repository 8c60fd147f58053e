"""API keys for tests."""

from __future__ import annotations

from typing import Any

from jobstore.audit import Actor
from jobstore.keys import NewKey, Scope, hash_secret, hint_of, make_secret
from jobstore.protocol import JobStore

TESTER = Actor(name="a test")


async def make_key(store: JobStore, name: str, *, admin: bool = False, **fields: Any) -> str:
    """A new key's secret."""
    secret = make_secret()
    if admin:
        fields["scopes"] = (Scope.ADMIN,)
    await store.create_key(NewKey(name=name, secret_hash=hash_secret(secret), hint=hint_of(secret), **fields), TESTER)
    return secret
