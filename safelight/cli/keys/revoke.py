"""``safelight keys revoke``: make an API key count no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from safelight.cli.consoles import err
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import ConfigOption, settings_for

if TYPE_CHECKING:
    from jobstore.protocol import JobStore

_WHERE = "safelight keys ls  lists them"


def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, from  safelight keys ls.")],
    config: ConfigOption = None,
) -> None:
    """Revoke an API key. Servers refuse it within seconds."""
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    with reported():
        key_id = _parsed(key)

        async def work(store: JobStore) -> bool:
            await store.migrate()
            return await store.revoke_key(key_id)

        settings = settings_for(config)
        configure_for(settings.log, quiet_at_terminal=True)
        if not with_store(settings, work):
            raise RefusedError(f"there is no key {key_id}", _WHERE)
    err().print(f"Key {key_id} is revoked.", markup=False)


def _parsed(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise RefusedError(f"{text!r} is no key's id; it is neither its name nor its secret", _WHERE) from error
