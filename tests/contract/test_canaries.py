"""What every store keeps of canaries, and tells of models."""

from __future__ import annotations

from decimal import Decimal

import pytest

from jobstore.audit import AuditFilter
from jobstore.protocol import JobStore
from tests.contract.keying import TESTER
from tests.contract.making import REFUSED, claimed, failed, new_job, new_worker, result


async def test_the_last_word_counts_and_is_written_down(store: JobStore) -> None:
    """By whom and when; with what was before."""
    assert await store.canary_shares() == ()
    first = await store.share_canary("new", 0.05, "canary.shared", TESTER)
    second = await store.share_canary("new", 1.0, "canary.promoted", TESTER)
    assert await store.canary_shares() == (second,)
    assert (second.share, second.changed_by, second.changed_at >= first.changed_at) == (1.0, TESTER.name, True)
    entries = (await store.list_audit(AuditFilter(target="new"))).entries
    assert [(entry.action, entry.details) for entry in entries] == [
        ("canary.promoted", {"share": 1.0, "before": 0.05}),
        ("canary.shared", {"share": 0.05, "before": None}),
    ]


async def test_no_share_lies_beyond_all(store: JobStore) -> None:
    """Whoever asks; and nothing is written down then."""
    with pytest.raises(REFUSED):
        await store.share_canary("new", 1.5, "canary.shared", TESTER)
    assert await store.canary_shares() == ()
    assert (await store.list_audit(AuditFilter(target="new"))).entries == ()


async def test_figures_are_of_renders_alone(store: JobStore) -> None:
    """Success, times and cost by model; no hit, no other model, no other currency."""
    worker = new_worker()
    for model, currency in (("m", "USD"), ("m", "USD"), ("new", "USD"), ("other", "USD"), ("m", "EUR")):
        await store.submit(new_job(model=model, currency=currency, price=Decimal("0.5")))
        lease = await claimed(store, worker)
        await store.finish(lease.token, result(lease))
    await store.submit(new_job(model="new", price=Decimal("0.5")))
    await failed(store, worker)
    stable, canary = await store.model_figures(("m", "new", "none"), 3600, "USD")
    assert (stable.model, stable.succeeded, stable.failed, stable.pictures) == ("m", 2, 0, 2)
    assert (stable.success_rate, stable.charged, stable.cost_per_picture) == (1.0, Decimal(1), Decimal("0.5"))
    assert stable.p50_s is not None
    assert stable.p90_s is not None
    assert 0 <= stable.p50_s <= stable.p90_s
    assert (canary.model, canary.succeeded, canary.failed, canary.success_rate) == ("new", 1, 1, 0.5)
    assert await store.model_figures(("none",), 3600, "USD") == ()
