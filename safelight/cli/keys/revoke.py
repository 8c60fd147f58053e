"""``safelight keys revoke``: make an API key count no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.keys.options import ForceOption, IdArgument
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from jobstore.keys import ApiKey
    from jobstore.protocol import JobStore


def revoke(
    key: IdArgument, force: ForceOption = False, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Revoke an API key, for good. Servers refuse it within two seconds."""
    from safelight.cli.keys.inside import command_line, in_store, key_id_of
    from safelight.cli.keys.look import plain

    with reported():
        key_id = key_id_of(key)

        async def work(store: JobStore) -> ApiKey:
            return await store.revoke_key(key_id, command_line(), force=force)

        revoked = in_store(settings_for(config), work)
    if as_json:
        out().print_json(data=plain(revoked))
    else:
        err().print(f"Key {key_id} is revoked.", markup=False)
