"""A budget over two API processes: not a cent too much, whatever comes at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobstore.postgres.store import PostgresStore
from tests.contract.keying import make_key
from tests.contract.making import new_quota
from tests.e2e.processes import REPOSITORY, Process, Server, free_port

SUBMITS = 200
TAKEN = 10
SETTINGS = f"""
[models.scenes]
model = "{REPOSITORY}/models/scenes-flux"
family = "flux"
dtype = "float32"
steps = 8
guidance = 0.0
sizes = ["128x128"]
max_sequence_length = 24
price = "0.10"
"""


@pytest.fixture
def servers(tmp_path: Path, database: str, rabbitmq_url: str) -> Iterator[list[Server]]:
    """Two API processes over one database, started side by side. No worker: what is taken stays held."""
    (tmp_path / "safelight.toml").write_text(SETTINGS)
    environment = {
        "SAFELIGHT_CONFIG": str(tmp_path / "safelight.toml"),
        "SAFELIGHT_HOME": str(tmp_path / "home"),
        "SAFELIGHT_STORE": database,
        "SAFELIGHT_BROKER": rabbitmq_url,
        "SAFELIGHT_OUTPUTS": (tmp_path / "outputs").as_uri(),
    }
    ports = [free_port(), free_port()]
    processes = [Process(tmp_path, f"api{port}", ["api", "--port", str(port)], environment) for port in ports]
    try:
        yield [Server(process, port) for process, port in zip(processes, ports, strict=True)]
    finally:
        for process in processes:
            process.kill()


async def submit_all(servers: list[Server], secrets: list[str]) -> Counter[int]:
    """Submits at once, by turns to each server and with each key; how often each status was answered."""
    limits = httpx.Limits(max_connections=40)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:

        async def one(number: int) -> int:
            response = await client.post(
                f"{servers[number % len(servers)].url}/v1/jobs",
                json={"prompt": "a red circle", "seed": number, "cache": "off"},
                headers={"authorization": f"Bearer {secrets[number // 2 % len(secrets)]}"},
            )
            if response.status_code == 402:
                assert response.headers["x-should-retry"] == "false"
            return response.status_code

        return Counter(await asyncio.gather(*(one(number) for number in range(SUBMITS))))


async def test_two_processes_spend_a_dollar_to_the_cent(servers: list[Server], store: PostgresStore) -> None:
    """Of 200 submits for ten cents ten are taken; the sums are right, and what is let go of can be spent again."""
    secrets = [await make_key(store, name, team="ads") for name in ("ann", "abe")]
    admin = {"authorization": f"Bearer {await make_key(store, 'ops', admin=True)}"}
    await store.create_quota(new_quota("ads", 1))
    assert await submit_all(servers, secrets) == {202: TAKEN, 402: SUBMITS - TAKEN}
    first, second = servers
    [quota] = second.http.get("/v1/quotas", headers=admin).raise_for_status().json()["data"]
    assert (quota["held"], quota["used"], quota["left"]) == ("1", "0", "0")
    jobs = second.http.get("/v1/jobs", headers=admin).raise_for_status().json()["data"]
    assert [job["cost"]["reserved"] for job in jobs] == ["0.1"] * TAKEN
    balances = [await store.balance(key.id, "USD") for key in await store.list_keys()]
    assert sum(balance.reserved for balance in balances) == 1
    for job in jobs[:3]:
        first.http.post(f"/v1/jobs/{job['id']}/cancel", headers=admin).raise_for_status()
    assert await submit_all(servers, secrets) == {202: 3, 402: SUBMITS - 3}
