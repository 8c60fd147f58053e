"""``safelight keys create``: make an API key."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import ConfigOption, JsonOption, settings_for
from safelight.config import Settings

_NAME_LIMIT = 100
_LEAST_WEIGHT = 0.01
_MOST_WEIGHT = 1000.0


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for; need not be unique.")],
    admin: Annotated[bool, typer.Option("--admin", help="The key may see and do everything.")] = False,
    weight: Annotated[
        float,
        typer.Option(min=_LEAST_WEIGHT, max=_MOST_WEIGHT, help="Its share of a lane beside keys of weight 1."),
    ] = 1.0,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Make an API key. Its secret is printed once; only its hash is kept."""
    with reported():
        if not 0 < len(name.strip()) <= _NAME_LIMIT or not name.isprintable():
            raise RefusedError(f"NAME must be 1 to {_NAME_LIMIT} printable characters")
        if not _LEAST_WEIGHT <= weight <= _MOST_WEIGHT:  # an option's bounds let NaN through
            raise RefusedError(f"--weight must be from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}")
        made = make_key(settings_for(config), name.strip(), admin=admin, weight=weight)
    if as_json:
        out().print_json(data=made)
        return
    out().print(made["secret"], markup=False, soft_wrap=True)
    err().print(f"Key {made['id']} ({name}{', admin' if admin else ''}). Keep the secret: it is shown this once.")
    err().print("Use it:  export SAFELIGHT_KEY=…  or  Authorization: Bearer …", markup=False)


def make_key(settings: Settings, name: str, *, admin: bool, weight: float = 1.0) -> dict[str, object]:
    """A new key and its secret. Raises CommandError."""
    from jobstore.keys import hash_secret, hint_of, make_secret
    from jobstore.protocol import ApiKey, JobStore
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    secret = make_secret()

    async def work(store: JobStore) -> ApiKey:
        await store.migrate()
        return await store.create_key(name, hash_secret(secret), hint_of(secret), admin=admin, weight=weight)

    configure_for(settings.log, quiet_at_terminal=True)
    key = with_store(settings, work)
    return {"id": str(key.id), "name": key.name, "admin": key.admin, "weight": key.weight, "secret": secret}
