"""Reading the audit log, along an index whoever or whatever is asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from jobstore.audit import AuditEntry, AuditFilter, AuditPage
from jobstore.rules.cursors import decoded, encoded
from jobstore.sqlite.database import Database

_CONDITIONS = {
    "below": "seq < :below",
    "action": "action = :action",
    "target": "target = :target",
    "after": "at >= :after",
    "before": "at < :before",
}
_COLUMNS = "seq, at, key_id, actor, action, target, details"
# Names are few: one after the other they are found in the index, and each one's newest entries too.
_ACTORS = """
WITH RECURSIVE known (actor) AS (
    SELECT min(actor) FROM audit_log
    UNION ALL
    SELECT (SELECT min(actor) FROM audit_log WHERE actor > known.actor) FROM known WHERE known.actor IS NOT NULL
), named AS (SELECT actor FROM known WHERE instr(lower(actor), lower(:actor)) > 0)
"""


def query_of(where: AuditFilter) -> tuple[str, dict[str, Any]]:
    """The statement that finds a page's entries and one more, and its arguments. Raises ValueError on its cursor."""
    values = msgspec.structs.asdict(where) | {"below": decoded(where.cursor), "limit": where.limit + 1}
    arguments = {name: values[name] for name in (*_CONDITIONS, "actor", "limit") if values[name] is not None}
    conditions = [text for name, text in _CONDITIONS.items() if name in arguments]
    newest = "ORDER BY seq DESC LIMIT :limit"
    if where.actor is None:
        return f"SELECT {_COLUMNS} FROM audit_log WHERE {' AND '.join(conditions) or 'true'} {newest}", arguments
    own = " AND ".join(["one.actor = named.actor", *conditions])
    each = f"SELECT seq FROM audit_log AS one WHERE {own} {newest}"
    columns = ", ".join(f"audit_log.{name}" for name in _COLUMNS.split(", "))
    found = f"SELECT {columns} FROM named CROSS JOIN audit_log WHERE audit_log.seq IN ({each})"
    return f"{_ACTORS} {found} ORDER BY audit_log.seq DESC LIMIT :limit", arguments


async def list_audit(database: Database, where: AuditFilter) -> AuditPage:
    """A page of the audit log. Raises ValueError on a cursor that no page gave."""
    query, arguments = query_of(where)
    found = [AuditEntry(**row) for row in await database.every(query, arguments)]
    page = tuple(found[: where.limit])
    return AuditPage(entries=page, next_cursor=encoded(page[-1].seq) if len(found) > where.limit else None)
