"""The faults: each strikes, lasts and is taken back. Their names are what the plan and the table say."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
import psycopg
from pika.exceptions import AMQPError

from actors.broker import bell_message, queue_name
from tests.chaos import triggers
from tests.chaos.house import House, now, pause
from tests.chaos.member import Member, frozen

Fault = Callable[[House, random.Random], None]
FAULTS: dict[str, Fault] = {}
LINGERS_S: dict[str, float] = {}
_RECONNECT_S = 3.5  # Dramatiq's consumers come back to a lost broker after so long
_PROBE_S = 5.5  # workers look so often whether full outputs take pictures again


def fault(lingers_s: float = 0.0) -> Callable[[Fault], Fault]:
    """Put a fault on the list by its name, with how long its effect outlasts it."""

    def listed(function: Fault) -> Fault:
        FAULTS[function.__name__] = function
        LINGERS_S[function.__name__] = lingers_s
        return function

    return listed


def kill(house: House, member: Member, name: str = "kill_worker") -> None:
    """kill -9."""
    at, pid = now(), member.pid
    member.send(signal.SIGKILL)
    if not member.port:
        house.note_hits(name, pid, at)


@fault()
def kill_worker(house: House, chance: random.Random) -> None:
    """kill -9 for a worker, in mid-render as a rule."""
    kill(house, house.busy_worker(chance))


@fault()
def kill_api(house: House, chance: random.Random) -> None:
    """kill -9 for an API process."""
    kill(house, chance.choice(house.apis))


@fault()
def kill_api_before_the_bell(house: House, _chance: random.Random) -> None:
    """The next API process that would ring dies first: the job is committed and no bell rings for it."""
    (house.triggers / triggers.DIE_AT_RING).touch()


@fault()
def stop_worker(house: House, chance: random.Random) -> None:
    """SIGTERM: what is not done within the grace is handed back."""
    house.busy_worker(chance).send(signal.SIGTERM)


@fault()
def pause_worker(house: House, chance: random.Random) -> None:
    """SIGSTOP until the lease has long run out, then SIGCONT: a zombie that believes it holds its jobs."""
    worker = house.busy_worker(chance)
    at = now()
    with frozen(worker):
        house.note_hits("pause_worker", worker.pid, at)
        pause(2 * house.plan.lease_s)


@fault()
def restart_postgres(house: House, _chance: random.Random) -> None:
    """All sessions are ended in order."""
    house.servers.postgres.restart("fast")


@fault()
def crash_postgres(house: House, _chance: random.Random) -> None:
    """The server is killed in mid-transaction and recovers from its log."""
    house.servers.postgres.restart("immediate")


@fault()
def cut_postgres(house: House, _chance: random.Random) -> None:
    """All connections to the database are reset: a commit's answer may be lost."""
    house.servers.to_postgres.cut()


@fault()
def lose_postgres(house: House, _chance: random.Random) -> None:
    """The database can't be reached for a while."""
    house.servers.to_postgres.refuse()
    pause(house.plan.lease_s / 2)
    house.servers.to_postgres.restore()


@fault()
def hold_postgres(house: House, _chance: random.Random) -> None:
    """Packets to and from the database vanish for longer than a lease, then come through after all."""
    house.servers.to_postgres.hold()
    pause(1.25 * house.plan.lease_s)
    house.servers.to_postgres.restore()


@fault()
def slow_postgres(house: House, _chance: random.Random) -> None:
    """Every exchange with the database takes a moment longer."""
    house.servers.to_postgres.delay(0.03)
    pause(1.0)
    house.servers.to_postgres.restore()


@fault()
def idle_transaction(house: House, _chance: random.Random) -> None:
    """Somebody opens a transaction, locks a few jobs and goes for coffee."""
    with psycopg.connect(house.servers.direct_url(house.lane)) as connection:
        connection.execute("SELECT id FROM job ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED")
        pause(1.0)


@fault(_RECONNECT_S)
def restart_rabbitmq(house: House, _chance: random.Random) -> None:
    """The broker is away for seconds; bells rung meanwhile are late or lost."""
    house.servers.rabbit.stop()
    house.servers.rabbit.start()


@fault(_RECONNECT_S)
def cut_rabbitmq(house: House, _chance: random.Random) -> None:
    """All connections to the broker are reset: what is unacked is delivered again, and old tags are acked."""
    house.servers.to_rabbit.cut()


@fault(_RECONNECT_S)
def lose_rabbitmq(house: House, _chance: random.Random) -> None:
    """The broker can't be reached for a while."""
    house.servers.to_rabbit.refuse()
    pause(house.plan.lease_s / 2)
    house.servers.to_rabbit.restore()


@fault(_RECONNECT_S)
def hold_rabbitmq(house: House, _chance: random.Random) -> None:
    """Packets to and from the broker vanish for a while, then come through after all."""
    house.servers.to_rabbit.hold()
    pause(house.plan.lease_s)
    house.servers.to_rabbit.restore()


@fault()
def broker_memory_alarm(house: House, _chance: random.Random) -> None:
    """The broker takes nothing from publishers."""
    house.servers.rabbit.control("set_vm_memory_high_watermark", "absolute", "1")
    pause(1.0)
    house.servers.rabbit.control("set_vm_memory_high_watermark", "0.6")


@fault(_RECONNECT_S)
def delete_queue(house: House, _chance: random.Random) -> None:
    """The queue goes with all its bells, under its consumers."""
    with _channel(house) as channel:
        channel.queue_delete(queue_name(house.lane))


@fault()
def purge_queue(house: House, _chance: random.Random) -> None:
    """All bells that wait are lost."""
    with _channel(house) as channel:
        channel.queue_purge(queue_name(house.lane))


@fault()
def double_bells(house: House, _chance: random.Random) -> None:
    """A hundred bells that nobody asked for."""
    with _channel(house) as channel:
        for _ in range(100):
            channel.basic_publish("", queue_name(house.lane), bell_message(house.lane).encode())


@fault(_PROBE_S)
def fill_outputs(house: House, _chance: random.Random) -> None:
    """No picture can be written for a moment."""
    full = house.triggers / triggers.FULL
    full.touch()
    pause(0.3)
    full.unlink(missing_ok=True)


@contextmanager
def _channel(house: House) -> Iterator[Any]:
    """A channel past the proxy. A queue that is gone by now is no error."""
    connection = pika.BlockingConnection(pika.URLParameters(house.servers.rabbit.url))
    try:
        with suppress(AMQPError):
            yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()
