"""``safelight keys show``: everything about one API key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safelight.cli.consoles import out
from safelight.cli.exits import reported
from safelight.cli.keys.options import IdArgument
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from jobstore.keys import ApiKey
    from jobstore.protocol import JobStore


def show(key: IdArgument, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show what an API key may do, and until when."""
    from safelight.cli.keys.inside import in_store, key_id_of
    from safelight.cli.keys.look import key_table, plain

    with reported():
        key_id = key_id_of(key)

        async def work(store: JobStore) -> ApiKey:
            return await store.get_key(key_id)

        found = in_store(settings_for(config), work)
    if as_json:
        out().print_json(data=plain(found))
    else:
        out().print(key_table(found))
