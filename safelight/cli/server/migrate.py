"""``safelight migrate``: brings the store's schema up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import CommandError, reported
from safelight.cli.options import ConfigOption, settings_for

if TYPE_CHECKING:
    from jobstore.migrating import Standing
    from jobstore.protocol import JobStore


def migrate(
    contract: Annotated[
        bool, typer.Option("--contract", help="Also take away what only older releases use: once none of them runs.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; say whether this release works on the schema.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Apply the migrations that the store lacks, and list them. Safe while others do the same."""
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    with reported():
        settings = settings_for(config)
        configure_for(settings.log, quiet_at_terminal=True)
        if check:
            _tell(with_store(settings, lambda store: store.schema()))
            return

        async def work(store: JobStore) -> tuple[tuple[str, ...], Standing]:
            return await store.migrate(contract=contract), await store.schema()

        applied, found = with_store(settings, work)
    for name in applied:
        out().print(name, markup=False)
    if not applied:
        err().print("Nothing to do: the schema is up to date.")
    _tell_held(found)


def _tell(found: Standing) -> None:
    """Say how the schema stands. Raises CommandError where this release doesn't work on it."""
    if found.lacking:
        raise CommandError(f"the schema lacks {', '.join(found.lacking)}", "run  safelight migrate")
    if found.ahead:
        names = ", ".join(found.ahead)
        err().print(f"The schema is of a newer release, with {names}; this one works on it.", markup=False)
    else:
        err().print("The schema is up to date.")
    _tell_held(found)


def _tell_held(found: Standing) -> None:
    if found.held:
        names = ", ".join(found.held)
        err().print(f"Waiting until no older release runs, for `safelight migrate --contract`: {names}", markup=False)
