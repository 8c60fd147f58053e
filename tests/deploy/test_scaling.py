"""What KEDA reads to tell how many workers there should be."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import scalar_row

from actors.broker import queue_name
from api.operating.scaling import ScalingView
from jobstore.postgres.store import PostgresStore
from tests.contract.making import new_job
from tests.deploy.files import of_kind

SCALED: dict[str, Any] = of_kind("ScaledObject")["safelight-worker"]["spec"]
TRIGGERS = {trigger["name"]: trigger for trigger in SCALED["triggers"]}


def test_the_depth_is_read_from_the_lanes_queue() -> None:
    """What waits and what runs: over HTTP, as AMQP tells of what waits alone."""
    metadata = TRIGGERS["depth"]["metadata"]
    assert metadata["queueName"] == queue_name("default")
    assert (metadata["protocol"], metadata["mode"]) == ("http", "QueueLength")


def test_triggers_name_what_lets_them_in() -> None:
    """Secrets by reference; none in the object."""
    for trigger in TRIGGERS.values():
        keys = of_kind("TriggerAuthentication")[trigger["authenticationRef"]["name"]]["spec"]["secretTargetRef"]
        assert {key["name"] for key in keys} == {"safelight-scaling"}
        assert not {"host", "connection", "password"} & trigger["metadata"].keys()


def test_renders_are_respected() -> None:
    """One pod goes at a time, no sooner than the last had its grace, and never all of them."""
    assert SCALED["minReplicaCount"] >= 1
    down = SCALED["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    grace = of_kind("Deployment")["safelight-worker"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert down["stabilizationWindowSeconds"] >= 300
    assert all(policy["value"] == 1 and policy["periodSeconds"] >= grace for policy in down["policies"])


async def test_the_oldest_wait_is_read_from_the_store(database: str) -> None:
    """A whole number of seconds: 0 with nothing waiting, or with the lane paused, as more workers would not help."""
    query = TRIGGERS["oldest-wait"]["metadata"]["query"]
    store = PostgresStore(database)
    await store.open()
    connection = await psycopg.AsyncConnection.connect(database, autocommit=True, row_factory=scalar_row)
    async with connection:

        async def wait() -> object:
            return await (await connection.execute(query)).fetchone()

        assert await wait() == 0
        await store.submit(new_job())
        await connection.execute("UPDATE job SET created_at = created_at - interval '95 seconds'")
        assert await wait() in range(94, 120)
        await store.pause_lane("default", "")
        assert await wait() == 0
    await store.close()


def test_what_the_api_wants_is_read_from_its_own_route() -> None:
    """One pod for each worker that is wanted, down as slowly as by the other triggers."""
    wanted: dict[str, Any] = of_kind("ScaledObject")["safelight-worker-wanted"]["spec"]
    [trigger] = wanted["triggers"]
    metadata = trigger["metadata"]
    service = of_kind("Service")["safelight-api"]["metadata"]
    assert metadata["url"] == f"http://{service['name']}.safelight/v1/scaling/default"
    assert metadata["valueLocation"] in ScalingView.__struct_fields__
    assert (metadata["targetValue"], metadata["authMode"]) == ("1", "bearer")
    down = [spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"] for spec in (SCALED, wanted)]
    assert down[0] == down[1]
