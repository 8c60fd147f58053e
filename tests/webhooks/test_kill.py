"""A process that is killed in the middle of a delivery costs nothing but time."""

from __future__ import annotations

from pathlib import Path

import psycopg

from jobstore.postgres.store import PostgresStore
from jobstore.webhooks.model import DeliveryFilter, NewEndpoint
from jobstore.webhooks.signing import make_secret
from tests.cli.running import write_settings
from tests.e2e.processes import Process, wait_for
from tests.webhooks.receiver import Receiver

SETTINGS = "[webhooks]\nallow_http = true\nallow_private = true\nlook_s = 0.1\ntimeout_s = 60\n"


async def test_kill_9_between_the_message_and_the_answer(
    store: PostgresStore, database: str, rabbitmq_url: str, tmp_path: Path, hook: Receiver
) -> None:
    """Another process sends it again under the same id, once the lease is over."""
    places = {"SAFELIGHT_STORE": database, "SAFELIGHT_BROKER": rabbitmq_url}
    environment = write_settings(tmp_path, SETTINGS) | places
    command = ["worker", "--webhooks-only", "--metrics-port", "0"]
    endpoint = await store.add_endpoint(
        NewEndpoint(key_id=None, url=hook.url, origin="o", secret=make_secret()), most=1
    )
    sent = await store.test_endpoint(endpoint.id)
    hook.hold()
    first = Process(tmp_path, "first", command, environment)
    started = [first]
    try:
        wait_for("the message", lambda: hook.received or not first.alive())
        first.kill()
        hook.let_go()
        with psycopg.connect(database) as connection:
            changed = connection.execute("UPDATE webhook_delivery SET next_at = clock_timestamp() WHERE attempts = 1")
            assert changed.rowcount == 1
        second = Process(tmp_path, "second", command, environment)
        started.append(second)
        wait_for("the message again", lambda: len(hook.received) > 1 or not second.alive())
        assert {found.headers["webhook-id"] for found in hook.received} == {str(sent.id)}
        wait_for("its note", lambda: delivered(database))
        assert second.stop() == 0, second.tail()
    finally:
        for process in started:
            process.kill()
    [delivery] = (await store.deliveries(DeliveryFilter())).deliveries
    assert (delivery.attempts, delivery.status) == (2, 204)


def delivered(database: str) -> bool:
    """True once all is delivered."""
    with psycopg.connect(database) as connection:
        left = connection.execute("SELECT count(*) FROM webhook_delivery WHERE state <> 'delivered'").fetchone()
    return left == (0,)
