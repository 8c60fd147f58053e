"""The setting of the measurement: a model, a key, and budgets of the key and its team that are never reached."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from jobstore.audit import Actor
from jobstore.ids import uuid7
from jobstore.keys import Digester, NewKey, hint_of, make_secret
from jobstore.postgres.store import PostgresStore
from jobstore.quotas import OwnerKind, Quota, QuotaKind

_SETTINGS = """
store = "{store}"
broker = "memory"
home = "{home}"

[limits]
max_queued = 100000000
max_queued_per_lane = 100000000
max_queued_per_key = 100000000

[server]
max_streams = 4500  # one key watches them all, which has a share

[log]
level = "warning"

[models.scenes]
model = "black-forest-labs/FLUX.1-schnell"
sizes = ["128x128"]
price = "0.002"
"""


def settings_file(folder: Path, store: str) -> Path:
    """A settings file in the folder."""
    file = folder / "safelight.toml"
    file.write_text(_SETTINGS.format(store=store, home=folder))
    return file


async def prepare(url: str) -> str:
    """Migrate the store, and make a key of a team; its secret."""
    store = PostgresStore(url)
    await store.open()
    await store.migrate()
    secret = make_secret()
    new = NewKey(name="bench", team="bench", secret_hash=Digester().kept(secret), hint=hint_of(secret))
    key = await store.create_key(new, Actor(name="bench"))
    owners: tuple[tuple[OwnerKind, str], ...] = (("key", str(key.id)), ("team", "bench"))
    for kind, owner in owners:
        await store.create_quota(
            Quota(
                id=uuid7(),
                owner_kind=kind,
                owner=owner,
                kind=QuotaKind.SPEND,
                most=Decimal(1_000_000),
                currency="USD",
                period="1M",
            )
        )
    await store.close()
    return secret
