"""``safelight reports``: the views of costs for SQL, and the sums that make reports fast."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import CommandError, RefusedError, UnreachableError, reported
from safelight.cli.options import ConfigOption, settings_for

if TYPE_CHECKING:
    from jobstore.protocol import JobStore

_PAUSE_S = 0.25
_VAIN = 4  # rounds without an hour: another process may be at it


def install(
    role: Annotated[str, typer.Option(help="Who may read the views; made where it is not there.")] = "safelight_reader",
    no_role: Annotated[bool, typer.Option("--no-role", help="Make the views alone.")] = False,
    config: ConfigOption = None,
) -> None:
    """Make the views of costs in the store's database (PostgreSQL), or make them anew after an upgrade."""
    import psycopg

    from dashboards.sql.install import SCHEMA, ReportsError
    from dashboards.sql.install import install as make
    from safelight.cli.server.reasons import advice_for, sentence_of
    from safelight.cli.server.stores import store_url

    with reported():
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", role, re.ASCII):
            raise RefusedError("--role must be a name of a-z, 0-9 and _")
        with store_url(settings_for(config)) as url:
            if not url.startswith(("postgresql://", "postgres://")):
                raise RefusedError("the views are for PostgreSQL; any store answers  safelight costs")
            try:
                asyncio.run(make(url, None if no_role else role))
            except ReportsError as error:
                raise CommandError(str(error)) from error
            except psycopg.OperationalError as error:
                why = sentence_of(error, url)
                raise UnreachableError(f"the store can't be reached: {why}", advice_for(why, url)) from error
            except psycopg.Error as error:
                raise CommandError(f"the views can't be made: {sentence_of(error, url)}") from error
    out().print(SCHEMA, markup=False)
    if not no_role:
        grant = f"CREATE USER grafana PASSWORD '…' IN ROLE {role};"
        err().print(f"{role} may read them. Let somebody in:  {grant}", markup=False, soft_wrap=True)


def rebuild(config: ConfigOption = None) -> None:
    """Sum up the whole ledger anew by hours, for fast reports. They are right meanwhile, and slow."""
    from safelight.cli.server.stores import with_store

    with reported():
        hours = with_store(settings_for(config), _rebuild)
    out().print(f"{hours} hours summed up", markup=False, highlight=False)


async def _rebuild(store: JobStore) -> int:
    await store.forget_sums()
    hours = vain = 0
    while vain < _VAIN:
        if done := await store.roll_up():
            hours, vain = hours + done, 0
        else:
            vain += 1
            await asyncio.sleep(_PAUSE_S if vain < _VAIN else 0)
    return hours


reports = typer.Typer(
    help="Views of costs for SQL and Grafana, and the sums that make reports fast.", no_args_is_help=True
)
reports.command()(install)
reports.command()(rebuild)
