"""Canaries' shares, and models' recent figures."""

from __future__ import annotations

from collections.abc import Sequence

from jobstore.audit import Actor, AuditNote
from jobstore.canaries import CanaryShare, ModelFigures
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.keys import write_note
from jobstore.rules.rows import trimmed

_SHARE = """
INSERT INTO canary (model, share, changed_by) VALUES (%(model)s, %(share)s, %(by)s)
ON CONFLICT (model) DO UPDATE
    SET share = EXCLUDED.share, changed_by = EXCLUDED.changed_by, changed_at = clock_timestamp()
RETURNING *
"""
_FIGURES = """
SELECT model, count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE outcome IN ('failed', 'lost')) AS failed, sum(pictures) AS pictures,
    sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
    percentile_disc(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY extract(epoch FROM at - wanted_at)::float8)
        FILTER (WHERE outcome = 'succeeded' AND wanted_at IS NOT NULL) AS ranks
FROM usage
WHERE at >= clock_timestamp() - make_interval(secs => %(window_s)s) AND model = ANY (%(models)s)
    AND currency = %(currency)s AND cache = 'miss'
GROUP BY model ORDER BY model
"""


async def shares(connection: Connection) -> tuple[CanaryShare, ...]:
    """What operators said, by model."""
    return tuple(CanaryShare(**row) for row in await every(connection, "SELECT * FROM canary ORDER BY model", {}))


async def share(connection: Connection, model: str, part: float, action: str, by: Actor) -> CanaryShare:
    """Set a share, and write that down."""
    before = await one(connection, "SELECT share FROM canary WHERE model = %(model)s FOR UPDATE", {"model": model})
    row = await sole(connection, _SHARE, {"model": model, "share": part, "by": by.name})
    details = {"share": part, "before": before["share"] if before else None}
    await write_note(connection, AuditNote(by=by, action=action, target=model, details=details))
    return CanaryShare(**row)


async def figures(
    connection: Connection, models: Sequence[str], window_s: float, currency: str
) -> tuple[ModelFigures, ...]:
    """How models did lately."""
    arguments = {"models": list(models), "window_s": window_s, "currency": currency}
    found = []
    for row in await every(connection, _FIGURES, arguments):
        p50_s, p90_s = row.pop("ranks") or (None, None)
        sums = {name: trimmed(row[name]) for name in ("gpu_seconds", "charged")}
        found.append(ModelFigures(**{**row, **sums, "pictures": int(row["pictures"])}, p50_s=p50_s, p90_s=p90_s))
    return tuple(found)
