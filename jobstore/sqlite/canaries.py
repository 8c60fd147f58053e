"""Canaries' shares, and models' recent figures."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from jobstore.audit import Actor, AuditNote
from jobstore.canaries import CanaryShare, ModelFigures
from jobstore.rules.rows import Row, trimmed
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note

_SHARE = """
INSERT INTO canary (model, share, changed_at, changed_by) VALUES (:model, :share, :now, :by)
ON CONFLICT (model) DO UPDATE
    SET share = excluded.share, changed_by = excluded.changed_by, changed_at = excluded.changed_at
"""
_ONE = "SELECT * FROM canary WHERE model = :model"
# Amounts are texts, which SQLite would add up as binary fractions: they are added up here.
_ENDED = """
SELECT model, outcome, pictures AS pictured, gpu_seconds, charged, (at - wanted_at) / 1e6 AS took_s
FROM usage
WHERE at >= :since AND model IN (SELECT value FROM json_each(:models)) AND currency = :currency AND cache = 'miss'
ORDER BY model
"""


async def shares(database: Database) -> tuple[CanaryShare, ...]:
    """What operators said, by model."""
    return tuple(CanaryShare(**row) for row in await database.every("SELECT * FROM canary ORDER BY model"))


async def share(database: Database, model: str, part: float, action: str, by: Actor) -> CanaryShare:
    """Set a share, and write that down."""
    before = await database.one(_ONE, {"model": model})
    await database.execute(_SHARE, {"model": model, "share": part, "now": now(), "by": by.name})
    details = {"share": part, "before": before["share"] if before else None}
    await write_note(database, AuditNote(by=by, action=action, target=model, details=details))
    row = await database.one(_ONE, {"model": model}) or {}
    return CanaryShare(**row)


async def figures(
    database: Database, models: Sequence[str], window_s: float, currency: str
) -> tuple[ModelFigures, ...]:
    """How models did lately."""
    arguments = {"since": now() - int(window_s * 1e6), "models": list(models), "currency": currency}
    by_model: dict[str, list[Row]] = {}
    for row in await database.every(_ENDED, arguments):
        by_model.setdefault(row["model"], []).append(row)
    return tuple(_figures(model, rows) for model, rows in by_model.items())


def _figures(model: str, rows: Sequence[Row]) -> ModelFigures:
    good = [row for row in rows if row["outcome"] == "succeeded"]
    took = sorted(row["took_s"] for row in good if row["took_s"] is not None)
    return ModelFigures(
        model=model,
        succeeded=len(good),
        failed=sum(row["outcome"] in ("failed", "lost") for row in rows),
        pictures=sum(row["pictured"] for row in rows),
        gpu_seconds=trimmed(sum((row["gpu_seconds"] for row in rows), Decimal(0))),
        charged=trimmed(sum((row["charged"] for row in rows), Decimal(0))),
        p50_s=_rank(took, 1, 2),
        p90_s=_rank(took, 9, 10),
    )


def _rank(took: Sequence[float], part: int, of: int) -> float | None:
    """The least time that ``part`` in ``of`` are not above."""
    return took[-(-len(took) * part // of) - 1] if took else None
