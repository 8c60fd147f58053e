"""Endpoints in any store: kept a key, changed, signed for, and disabled by what their receiver answers."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest

from jobstore.ids import uuid7
from jobstore.protocol import JobStore
from jobstore.webhooks.errors import TooManyWebhooksError, WebhookDisabledError, WebhookNotFoundError
from jobstore.webhooks.model import (
    DeliveryFilter,
    DeliveryState,
    EndpointChanges,
    NewEndpoint,
)
from tests.contract.hooking import (
    DELIVERED,
    FAILED,
    LONG_S,
    ORIGIN,
    URL,
    add,
    retried,
    take,
)
from tests.contract.making import new_job, new_worker, rendered


async def test_a_rotated_secret_signs_beside_the_new_one_for_a_time(store: JobStore) -> None:
    """Then the new one signs alone."""
    endpoint = await add(store)
    rotated = await store.rotate_endpoint(endpoint.id, "whsec_dHdv", keep_s=3600)
    assert rotated.previous_until is not None
    await store.test_endpoint(endpoint.id)
    assert (await retried(store)).secrets == ("whsec_dHdv", "whsec_b25l")
    await store.rotate_endpoint(endpoint.id, "whsec_dGhyZWU=", keep_s=0)
    assert (await retried(store)).secrets == ("whsec_dGhyZWU=",)


async def test_410_disables_and_gives_the_others_up(store: JobStore) -> None:
    """Enabled again, it hears of what comes then."""
    endpoint = await add(store)
    for _ in range(2):
        await store.test_endpoint(endpoint.id)
    first, _other = await take(store)
    gone = msgspec.structs.replace(FAILED, status=410, gone=True)
    disabled = await store.settle_delivery(first, gone, LONG_S)
    assert disabled is not None
    assert (disabled.id, "410" in disabled.reason) == (endpoint.id, True)
    assert {d.state for d in (await store.deliveries(DeliveryFilter())).deliveries} == {DeliveryState.FAILED}
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert await take(store) == []
    enabled = await store.change_endpoint(endpoint.id, EndpointChanges(disabled=False))
    assert (enabled.disabled_at, enabled.reason, enabled.failing_since) == (None, "", None)
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert len(await take(store)) == 1


async def test_an_endpoint_that_only_fails_is_disabled(store: JobStore) -> None:
    """After the time given, counted from its first failure since a success."""
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    await retried(store)
    assert (await store.endpoint(endpoint.id)).failing_since is not None
    await retried(store, DELIVERED)
    assert (await store.endpoint(endpoint.id)).failing_since is None
    await store.test_endpoint(endpoint.id)
    [due] = await take(store)
    assert await store.settle_delivery(due, msgspec.structs.replace(FAILED, retry_in_s=0.0), LONG_S) is None
    [due] = await take(store)
    disabled = await store.settle_delivery(due, msgspec.structs.replace(FAILED, retry_in_s=0.0), 0.0)
    assert disabled is not None
    assert "failures" in disabled.reason
    with pytest.raises(WebhookDisabledError):
        await store.redeliver(due.id)
    assert await take(store) == []
    await store.change_endpoint(endpoint.id, EndpointChanges(disabled=False))
    await store.redeliver(due.id)
    assert [again.id for again in await take(store)] == [due.id]


async def test_endpoints_are_kept_changed_and_forgotten(store: JobStore) -> None:
    """Each key has its own, within a bound; deleting gives pending deliveries up."""
    key = uuid7()
    mine, other = await add(store, key, description="mine"), await add(store)
    assert await store.endpoints(key) == (mine,)
    assert await store.endpoints() == (other,)
    assert set(await store.endpoints(all_keys=True)) == {mine, other}
    with pytest.raises(TooManyWebhooksError):
        await store.add_endpoint(NewEndpoint(key_id=key, url=URL, origin=ORIGIN, secret="s"), most=1)
    await store.test_endpoint(mine.id)
    moved = EndpointChanges(url="https://b.example/x", origin="https://b.example", events=("job.dead",))
    changed = await store.change_endpoint(mine.id, moved)
    assert (changed.url, changed.events, changed.description) == ("https://b.example/x", ("job.dead",), "mine")
    assert [(due.url, due.origin) for due in await take(store)] == [("https://b.example/x", "https://b.example")]
    off = await store.change_endpoint(mine.id, EndpointChanges(disabled=True))
    assert (off.reason, off.disabled_at is not None) == ("on request", True)
    await store.test_endpoint(mine.id)
    await store.delete_endpoint(mine.id)
    deliveries = (await store.deliveries(DeliveryFilter(key_id=key))).deliveries
    assert {(delivery.type, delivery.state) for delivery in deliveries} == {("webhook.test", DeliveryState.FAILED)}
    await store.redeliver(deliveries[0].id)
    assert [due.url for due in await take(store)] == [None]
    for call in (store.endpoint, store.delete_endpoint, store.test_endpoint, store.delivery, store.redeliver):
        with pytest.raises(WebhookNotFoundError):
            await call(uuid4())
    with pytest.raises(WebhookNotFoundError):
        await store.rotate_endpoint(mine.id, "s", 1)
    with pytest.raises(WebhookNotFoundError):
        await store.change_endpoint(mine.id, EndpointChanges())
