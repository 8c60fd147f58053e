"""Emptied again, a place serves the next test much sooner than a new one would."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

_KEPT = ("schema_migration", "lane", "counter")
_LANES = "UPDATE lane SET paused_at = NULL, reason = '', virtual_s = 0, tenants = 1, served_at = NULL"


def empty_postgres(url: str, *, keep_lanes: bool = False) -> None:
    """Leave the schema, and numbers that start at 1. Kept lanes are as if new: open stores remember which they made."""
    with psycopg.connect(url) as connection:
        connection.execute("SET lock_timeout = '10s'")
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL (%s)"
        for (name,) in connection.execute(tables, [list(_KEPT)]).fetchall():
            connection.execute(f"DELETE FROM {name}".encode())
        for (name,) in connection.execute("SELECT sequencename FROM pg_sequences").fetchall():
            connection.execute(f"ALTER SEQUENCE {name} RESTART".encode())
        connection.execute((_LANES if keep_lanes else "DELETE FROM lane").encode())


def empty_sqlite(file: Path) -> None:
    """Leave the schema and the lanes; numbers go on."""
    with closing(sqlite3.connect(file, timeout=10)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if name not in _KEPT and not name.startswith("sqlite_"):
                connection.execute(f"DELETE FROM {name}")
        connection.execute(_LANES)
