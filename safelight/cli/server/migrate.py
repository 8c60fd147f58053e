"""``safelight migrate``: brings the store's schema up to date."""

from __future__ import annotations

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import ConfigOption, settings_for


def migrate(config: ConfigOption = None) -> None:
    """Apply the migrations that the store lacks, and list them. Safe while others do the same."""
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    with reported():
        settings = settings_for(config)
        configure_for(settings.log, quiet_at_terminal=True)
        applied = with_store(settings, lambda store: store.migrate())
    for name in applied:
        out().print(name, markup=False)
    if not applied:
        err().print("Nothing to do: the schema is up to date.")
