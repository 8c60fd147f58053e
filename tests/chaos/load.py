"""The jobs of a soak: which, with which faults of their own, and the clients that submit them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx

from tests.chaos.house import House
from tests.chaos.member import url_of

_SUCCEEDED = ("succeeded",)
# How large a share of all jobs is of a kind, and how such a job may end. Of each kind there is at least one.
_KINDS: dict[str, tuple[float, Collection[str]]] = {
    "[crash:1]": (0.0005, _SUCCEEDED),
    "[hang:1]": (0.0002, _SUCCEEDED),
    "[die-before-finish:1]": (0.0005, _SUCCEEDED),
    "[die-after-finish:1]": (0.0005, _SUCCEEDED),
    "[oom:1]": (0.005, _SUCCEEDED),
    "[bad:1]": (0.005, _SUCCEEDED),
    "[fail:1]": (0.005, _SUCCEEDED),
    "[fail]": (0.002, ("dead",)),
    "long": (0.02, _SUCCEEDED),
    "several": (0.05, _SUCCEEDED),
    "cancel": (0.02, ("canceled", "succeeded")),
    "again": (0.05, _SUCCEEDED),
}
_AGAIN_WITHIN = 50
_TRY_AGAIN = (429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Order:
    """One submit: its body, whether it is canceled, and how its job may end."""

    number: int
    key: str
    body: dict[str, Any]
    ends: Collection[str]
    cancel: bool = False


def make_orders(jobs: int, seed: int) -> list[Order]:
    """The same orders for the same numbers."""
    chance = random.Random(f"orders {seed}")
    kinds: dict[int, str] = {}
    free = list(range(jobs))
    chance.shuffle(free)
    for kind, (share, _) in _KINDS.items():
        for _ in range(max(1, round(jobs * share))):
            kinds[free.pop()] = kind
    orders: list[Order] = []
    for number in range(jobs):
        orders.append(_order(number, kinds.get(number, ""), seed, orders, chance))
    return orders


def _order(number: int, kind: str, seed: int, earlier: list[Order], chance: random.Random) -> Order:
    key = f"soak-{seed}-{number}"
    body: dict[str, Any] = {
        "prompt": f"order {number} {kind if kind.startswith('[') else ''}".strip(),
        "seed": number,
        "steps": 80 if kind == "long" else chance.randint(1, 4),
        "n": 3 if kind == "several" else 1,
        "priority": chance.choice((4, 5, 5, 5, 6)),
        "dimensions": {"submit": key},
    }
    ends = _KINDS[kind][1] if kind else _SUCCEEDED
    if kind == "again":
        alike = [order for order in earlier[-_AGAIN_WITHIN:] if "[" not in order.body["prompt"]]
        if alike:
            body = {**chance.choice(alike).body, "dimensions": {"submit": key}}
    return Order(number, key, body, ends, cancel=kind == "cancel")


@dataclass(slots=True)
class Clients:
    """Impatient clients: they try again, at another API, until somebody answers."""

    house: House
    seed: int
    secrets: list[str]  # of the keys that they share out among themselves
    accepted: dict[UUID, Collection[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    repeats: int = 0

    async def submit(self, http: httpx.AsyncClient, order: Order) -> None:
        """Submit an order under its key until it is accepted or refused, and cancel it where it wants that."""
        answer = await self._insist(http, order, "/v1/jobs", json=order.body)
        if answer.status_code not in (200, 202):
            self.refused.append(f"{order.key}: {answer.status_code} {answer.text[:200]}")
            return
        job_id = UUID(answer.json()["id"])
        self.accepted[job_id] = order.ends
        if order.cancel:
            canceled = await self._insist(http, order, f"/v1/jobs/{job_id}/cancel")
            if canceled.status_code == 200 and canceled.json()["state"] == "canceled":
                self.accepted[job_id] = ("canceled",)

    async def _insist(self, http: httpx.AsyncClient, order: Order, path: str, **request: Any) -> httpx.Response:
        chance = random.Random(f"{self.seed} {order.number} {path}")
        secret = self.secrets[order.number % len(self.secrets)]
        request["headers"] = {"Authorization": f"Bearer {secret}", "Idempotency-Key": order.key}
        pause = 0.1
        while True:
            api = chance.choice(self.house.apis)
            try:
                answer = await http.post(url_of(api) + path, **request)
            except httpx.TransportError:
                pass
            else:
                if answer.status_code not in _TRY_AGAIN:
                    return answer
            self.repeats += 1
            await asyncio.sleep(pause * chance.uniform(0.5, 1.5))
            pause = min(2 * pause, 1.0)
