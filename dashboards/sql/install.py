"""Making the views, and the role that may read them."""

from __future__ import annotations

from importlib.resources import files

from psycopg import AsyncConnection
from psycopg.errors import DependentObjectsStillExist, InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from jobstore.errors import JobStoreError
from jobstore.postgres.transactions import libpq_url

SCHEMA = "safelight_report"
READER = "safelight_reader"
# What an earlier version made, the last one first. Not by CASCADE: what others built on it is theirs.
_MADE = """
SELECT name FROM (
    SELECT 1, oid, format('VIEW %s', oid::regclass) FROM pg_class
    WHERE relnamespace = to_regnamespace('safelight_report') AND relkind = 'v'
    UNION ALL
    SELECT 2, oid, format('FUNCTION %s', oid::regprocedure) FROM pg_proc
    WHERE pronamespace = to_regnamespace('safelight_report')
) AS made (rank, made_at, name) ORDER BY rank, made_at DESC
"""
# Some functions read the ledger with the rights of whoever made them, and anybody may call what is new.
_DENY = "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA safelight_report FROM PUBLIC"
_ROLE = "SELECT FROM pg_roles WHERE rolname = %s"
_LOCK = "SELECT pg_advisory_xact_lock(x'5AFE1165'::bigint)"


class ReportsError(JobStoreError):
    """The views or their role can't be made; the message says what to do."""


def scripts() -> tuple[tuple[str, str], ...]:
    """The files that make the views, by name and text, in order."""
    found = (file for file in (files("dashboards.sql") / "views").iterdir() if file.name.endswith(".sql"))
    return tuple((file.name, file.read_text("utf-8")) for file in sorted(found, key=lambda file: file.name))


async def install(url: str, role: str | None = READER) -> None:
    """Make the views anew in the database of a store, and let ``role`` read them; the same again changes nothing.

    All in one transaction. Raises ReportsError where the user may not make the schema or the role, psycopg.Error.
    """
    async with await AsyncConnection.connect(libpq_url(url)[0], prepare_threshold=None) as connection:
        await connection.execute(_LOCK)
        await _make_views(connection)
        if role is not None:
            await _make_role(connection, role)


async def _make_views(connection: AsyncConnection) -> None:
    try:
        for row in await (await connection.execute(_MADE)).fetchall():
            await connection.execute(f"DROP {row[0]}".encode())
        for _, text in scripts():
            await connection.execute(text.encode())
        await connection.execute(_DENY)
    except DependentObjectsStillExist as error:
        raise ReportsError(
            f"something that you made stands on a view of {SCHEMA}: {error.diag.message_detail}; drop it, run this "
            "again, and make it anew"
        ) from error
    except InsufficientPrivilege as error:
        raise ReportsError(
            f"this user may not make the schema {SCHEMA}: let the database's owner run "
            f"GRANT CREATE ON DATABASE … TO {connection.info.user}, then run this again"
        ) from error


async def _make_role(connection: AsyncConnection, role: str) -> None:
    name = Identifier(role)
    if await (await connection.execute(_ROLE, [role])).fetchone() is None:
        try:
            await connection.execute(SQL("CREATE ROLE {} NOLOGIN").format(name))
        except InsufficientPrivilege as error:
            raise ReportsError(
                f"this user may not make roles: let an administrator run  CREATE ROLE {role} NOLOGIN;  then run this "
                "again, or make the views alone with --no-role"
            ) from error
    for grant in (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}",
    ):
        await connection.execute(SQL(grant).format(schema=Identifier(SCHEMA), role=name))
