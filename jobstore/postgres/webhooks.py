"""The part of the store on PostgreSQL that is about webhooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from jobstore.audit import Actor
from jobstore.postgres import deliveries, endpoints, redelivering
from jobstore.postgres.columns import Connection
from jobstore.webhooks.model import (
    NOTHING_UNDER_WAY,
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    Due,
    Endpoint,
    EndpointChanges,
    EndpointRecord,
    NewEndpoint,
    Outstanding,
    Tried,
    UnderWay,
)

T = TypeVar("T")


class PostgresWebhooks(ABC):
    """``jobstore.webhooks.protocol`` says what each method promises."""

    @abstractmethod
    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, together: bool = False) -> T:
        """The result of ``work``; ``together`` makes its statements one transaction."""

    async def add_endpoint(self, new: NewEndpoint, most: int, by: Actor | None = None) -> Endpoint:
        return await self.on_connection(lambda c: endpoints.add(c, new, most, by), together=True)

    async def endpoints(self, key_id: UUID | None = None, *, all_keys: bool = False) -> tuple[Endpoint, ...]:
        return await self.on_connection(lambda c: endpoints.listed(c, key_id, all_keys))

    async def endpoint(self, endpoint_id: UUID) -> Endpoint:
        return await self.on_connection(lambda c: endpoints.find(c, endpoint_id))

    async def endpoint_records(self) -> dict[UUID, EndpointRecord]:
        return await self.on_connection(deliveries.records)

    async def change_endpoint(self, endpoint_id: UUID, changes: EndpointChanges, by: Actor | None = None) -> Endpoint:
        return await self.on_connection(lambda c: endpoints.change(c, endpoint_id, changes, by), together=True)

    async def rotate_endpoint(self, endpoint_id: UUID, secret: str, keep_s: float, by: Actor | None = None) -> Endpoint:
        return await self.on_connection(lambda c: endpoints.rotate(c, endpoint_id, secret, keep_s, by), together=True)

    async def delete_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> None:
        await self.on_connection(lambda c: endpoints.delete(c, endpoint_id, by), together=True)

    async def test_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> Delivery:
        return await self.on_connection(lambda c: deliveries.test(c, endpoint_id, by), together=True)

    async def deliveries(self, where: DeliveryFilter) -> DeliveryPage:
        return await self.on_connection(lambda c: deliveries.listed(c, where))

    async def delivery(self, delivery_id: UUID) -> Delivery:
        return await self.on_connection(lambda c: deliveries.find(c, delivery_id))

    async def delivery_body(self, delivery_id: UUID) -> str | None:
        return await self.on_connection(lambda c: deliveries.body(c, delivery_id))

    async def count_deliveries(self, where: DeliveryFilter, most: int = 10_000) -> int:
        return await self.on_connection(lambda c: redelivering.count(c, where, most))

    async def redeliver_many(self, where: DeliveryFilter, limit: int, by: Actor | None = None) -> int:
        return await self.on_connection(lambda c: redelivering.redeliver_many(c, where, limit, by), together=True)

    async def redeliver(self, delivery_id: UUID, by: Actor | None = None) -> Delivery:
        return await self.on_connection(lambda c: redelivering.redeliver(c, delivery_id, by), together=True)

    async def claim_deliveries(
        self, limit: int, lease_s: float, under_way: UnderWay = NOTHING_UNDER_WAY
    ) -> tuple[Due, ...]:
        return await self.on_connection(lambda c: deliveries.claim(c, limit, lease_s, under_way))

    async def settle_delivery(self, due: Due, tried: Tried, disable_after_s: float) -> Endpoint | None:
        return await self.on_connection(lambda c: deliveries.settle(c, due, tried, disable_after_s), together=True)

    async def outstanding(self) -> Outstanding:
        return await self.on_connection(deliveries.outstanding)
