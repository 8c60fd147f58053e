"""Servers that restart, vanish, or take nothing more, while jobs are submitted and rendered."""

from __future__ import annotations

import random
import threading

from tests.chaos import faults, triggers
from tests.chaos.desk import Desk
from tests.chaos.house import House
from tests.chaos.member import frozen
from tests.e2e.processes import wait_for

CHANCE = random.Random(0)


def test_rabbitmq_away_at_the_submit(house: House, desk: Desk) -> None:
    """The job is accepted as always; it is rendered when bells ring again, or when a worker looks by itself."""
    house.servers.to_rabbit.refuse()
    job_id = desk.submit()
    assert desk.job(job_id)["state"] in ("queued", "running", "succeeded")
    house.servers.to_rabbit.restore()
    desk.wait(job_id)


def test_rabbitmq_out_of_memory(house: House, desk: Desk) -> None:
    """It takes no bell: jobs are accepted, and rendered once the alarm is over."""
    house.servers.rabbit.control("set_vm_memory_high_watermark", "absolute", "1")
    try:
        jobs = [desk.submit() for _ in range(3)]
    finally:
        house.servers.rabbit.control("set_vm_memory_high_watermark", "0.6")
    assert {desk.wait(job_id)["attempts"] for job_id in jobs} == {1}


def test_queue_deleted_under_its_consumers(house: House, desk: Desk) -> None:
    """Jobs that wait, and those that come afterwards, are found all the same."""
    jobs = [desk.submit(steps=50) for _ in range(6)]
    faults.delete_queue(house, CHANCE)
    jobs.append(desk.submit())
    assert {desk.facts(job_id)["claims"] for job_id in jobs if desk.wait(job_id)} == {1}


def test_bells_nobody_asked_for(house: House, desk: Desk) -> None:
    """A hundred of them, and those of the jobs lost: each job is claimed once."""
    jobs = [desk.submit(steps=20) for _ in range(6)]
    faults.purge_queue(house, CHANCE)
    faults.double_bells(house, CHANCE)
    assert {desk.facts(job_id)["claims"] for job_id in jobs if desk.wait(job_id)} == {1}


def test_broker_connections_cut_in_mid_render(house: House, desk: Desk) -> None:
    """Old tags are acked on new channels: a bell may be lost by that, a job may not."""
    jobs = [desk.submit(steps=60) for _ in range(6)]
    for job_id in jobs[:2]:
        desk.running(job_id)
        house.servers.to_rabbit.cut()
    assert {desk.facts(job_id)["claims"] for job_id in jobs if desk.wait(job_id)} == {1}


def test_render_longer_than_rabbitmq_waits_for_an_ack(house: House, desk: Desk) -> None:
    """The broker closes the channel and delivers the bell again; the lease carries the job."""
    control = house.servers.rabbit.control
    control("eval", "[application:set_env(rabbit, K, 500) || K <- [consumer_timeout, channel_tick_interval]].")
    house.servers.to_rabbit.cut()  # channels that are open keep the limit that they began with
    try:
        job_id = desk.submit(steps=200)
        desk.wait(job_id)
    finally:
        control("eval", "application:set_env(rabbit, consumer_timeout, 1800000).")
        control("eval", "application:set_env(rabbit, channel_tick_interval, 60000).")
        house.servers.to_rabbit.cut()
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 1}


def test_postgres_restarted_under_load(house: House, desk: Desk) -> None:
    """In order and by a crash, in the middle of claims and finishes; submits are tried again until it is back."""
    jobs = [desk.submit(steps=10) for _ in range(10)]
    faults.restart_postgres(house, CHANCE)
    jobs += [desk.submit(steps=10) for _ in range(10)]
    faults.crash_postgres(house, CHANCE)
    assert {desk.wait(job_id)["state"] for job_id in jobs} == {"succeeded"}


def test_postgres_away_at_the_finish(house: House, desk: Desk) -> None:
    """For less than a lease: the result is written when it is back, and nothing is rendered again."""
    job_id = desk.submit(steps=40)
    desk.running(job_id)
    house.servers.to_postgres.refuse()
    threading.Event().wait(0.7)
    house.servers.to_postgres.restore()
    desk.wait(job_id)
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 1}


def test_postgres_unreachable_for_longer_than_a_lease(house: House, desk: Desk) -> None:
    """Packets vanish and come through late: old tokens write nothing."""
    jobs = [desk.submit(steps=80) for _ in range(3)]
    desk.running(jobs[0])
    faults.hold_postgres(house, CHANCE)
    assert {desk.wait(job_id)["state"] for job_id in jobs} == {"succeeded"}


def test_transaction_left_open_under_load(house: House, desk: Desk) -> None:
    """Whoever holds an old snapshot and locks a job that waits stops that job alone."""
    with house.connect() as connection, connection.transaction():
        with frozen(*house.workers):
            locked = desk.submit()
            connection.execute("SELECT id FROM job WHERE id = %s FOR UPDATE", [locked])
        others = [desk.submit(steps=5) for _ in range(10)]
        assert {desk.wait(job_id)["state"] for job_id in others} == {"succeeded"}
        assert desk.job(locked)["state"] == "queued"


def test_outputs_that_are_full(house: House, desk: Desk) -> None:
    """The job waits and is tried again; it is paid for once."""
    full = house.triggers / triggers.FULL
    full.touch()
    job_id = desk.submit()
    wait_for("the write to fail", lambda: (desk.job(job_id)["error"] or {}).get("code") == "outputs_unavailable")
    full.unlink()
    assert desk.wait(job_id)["cost"]["charged"] == "0.01"
