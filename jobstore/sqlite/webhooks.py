"""The part of the store in a SQLite file that is about webhooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from jobstore.audit import Actor
from jobstore.sqlite import deliveries, endpoints, redelivering
from jobstore.sqlite.database import Database
from jobstore.sqlite.rows import SqliteRows
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


class SqliteWebhooks(ABC):
    """``jobstore.webhooks.protocol`` says what each method promises."""

    @abstractmethod
    async def on_database(self, work: Callable[[Database], Awaitable[T]], *, writes: bool = True) -> T:
        """The result of ``work`` in a transaction of its own."""

    async def add_endpoint(self, new: NewEndpoint, most: int, by: Actor | None = None) -> Endpoint:
        return await self.on_database(lambda d: endpoints.add(d, new, most, by))

    async def endpoints(self, key_id: UUID | None = None, *, all_keys: bool = False) -> tuple[Endpoint, ...]:
        return await self.on_database(lambda d: endpoints.listed(d, key_id, all_keys), writes=False)

    async def endpoint(self, endpoint_id: UUID) -> Endpoint:
        return await self.on_database(lambda d: endpoints.find(d, endpoint_id), writes=False)

    async def endpoint_records(self) -> dict[UUID, EndpointRecord]:
        return await self.on_database(deliveries.records, writes=False)

    async def change_endpoint(self, endpoint_id: UUID, changes: EndpointChanges, by: Actor | None = None) -> Endpoint:
        return await self.on_database(lambda d: endpoints.change(d, endpoint_id, changes, by))

    async def rotate_endpoint(self, endpoint_id: UUID, secret: str, keep_s: float, by: Actor | None = None) -> Endpoint:
        return await self.on_database(lambda d: endpoints.rotate(d, endpoint_id, secret, keep_s, by))

    async def delete_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> None:
        await self.on_database(lambda d: endpoints.delete(d, endpoint_id, by))

    async def test_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> Delivery:
        return await self.on_database(lambda d: deliveries.test(d, endpoint_id, by))

    async def deliveries(self, where: DeliveryFilter) -> DeliveryPage:
        return await self.on_database(lambda d: deliveries.listed(d, where), writes=False)

    async def delivery(self, delivery_id: UUID) -> Delivery:
        return await self.on_database(lambda d: deliveries.find(d, delivery_id), writes=False)

    async def delivery_body(self, delivery_id: UUID) -> str | None:
        return await self.on_database(lambda d: deliveries.body(d, delivery_id), writes=False)

    async def count_deliveries(self, where: DeliveryFilter, most: int = 10_000) -> int:
        return await self.on_database(lambda d: redelivering.count(d, where, most), writes=False)

    async def redeliver_many(self, where: DeliveryFilter, limit: int, by: Actor | None = None) -> int:
        return await self.on_database(lambda d: redelivering.redeliver_many(d, where, limit, by))

    async def redeliver(self, delivery_id: UUID, by: Actor | None = None) -> Delivery:
        return await self.on_database(lambda d: redelivering.redeliver(d, delivery_id, by))

    async def claim_deliveries(
        self, limit: int, lease_s: float, under_way: UnderWay = NOTHING_UNDER_WAY
    ) -> tuple[Due, ...]:
        if not await self.on_database(deliveries.any_due, writes=False):
            return ()
        return await self.on_database(lambda d: deliveries.claim(SqliteRows(d), limit, lease_s, under_way))

    async def settle_delivery(self, due: Due, tried: Tried, disable_after_s: float) -> Endpoint | None:
        return await self.on_database(lambda d: deliveries.settle(d, due, tried, disable_after_s))

    async def outstanding(self) -> Outstanding:
        return await self.on_database(deliveries.outstanding, writes=False)
