"""Workers that die, freeze, hang, or don't know what time it is."""

from __future__ import annotations

import signal

from tests.chaos.desk import Desk
from tests.chaos.faults import kill
from tests.chaos.house import House
from tests.chaos.member import Member, frozen
from tests.e2e.processes import wait_for

STEPS = 200  # of 10 ms each: long enough to be struck in the middle
LONG = 300  # longer than the lease


def holder_of(house: House, job_id: str, but: Member | None = None) -> Member:
    """The worker that holds the job, once another than ``but`` does."""

    def probe() -> Member | None:
        holder = house.holder(job_id)
        return None if holder is but else holder

    return wait_for("a worker to hold the job", probe)


def test_killed_in_mid_render(house: House, desk: Desk) -> None:
    """kill -9: the other worker renders the job; the rescue counts as no attempt."""
    job_id = desk.submit(steps=STEPS)
    victim = holder_of(house, job_id)
    kill(house, victim)
    assert holder_of(house, job_id, but=victim) is not victim
    desk.wait(job_id)
    assert desk.facts(job_id) == {"rescues": 1, "attempts": 1, "claims": 2}


def test_frozen_for_longer_than_its_lease(house: House, desk: Desk) -> None:
    """SIGSTOP, SIGCONT: the job has gone to another; what the zombie still does changes nothing and leaves no file."""
    job_id = desk.submit(steps=STEPS)
    zombie = holder_of(house, job_id)
    with frozen(zombie):
        assert holder_of(house, job_id, but=zombie) is not zombie
    desk.wait(job_id)
    house.heal()
    folders = house.outputs / "jobs" / job_id
    wait_for("only the pictures of one lease to be there", lambda: len(list(folders.iterdir())) == 1)
    assert desk.facts(job_id)["rescues"] == 1


def test_killed_after_the_picture_is_written(desk: Desk) -> None:
    """Nothing was told to the store: the job is rendered again, charged once."""
    job_id = desk.submit("a red circle [die-before-finish:1]")
    assert desk.wait(job_id)["cost"]["charged"] == "0.01"
    assert desk.facts(job_id)["claims"] == 2


def test_killed_after_the_finish_before_the_ack(house: House, desk: Desk) -> None:
    """The message comes back as an empty bell: nothing is rendered again."""
    lives = sum(worker.lives for worker in house.workers)
    job_id = desk.submit("a red circle [die-after-finish:1]")
    desk.wait(job_id)
    wait_for("the worker to be started again", lambda: sum(worker.lives for worker in house.workers) > lives)
    house.heal()
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 1}


def test_job_that_kills_every_process_that_renders_it(desk: Desk) -> None:
    """It is dead after three rescues; those that were rendered beside it are not, whatever they went through."""
    good = [desk.submit(steps=60)]
    bad = desk.submit("a red circle [crash]", ends=("dead",))
    good += [desk.submit(steps=60) for _ in range(4)]
    job = desk.wait(bad)
    assert job["error"]["code"] == "worker_lost"
    assert job["cost"]["charged"] == "0"
    assert {desk.wait(job_id)["state"] for job_id in good} == {"succeeded"}


def test_one_bad_job_among_good_ones(desk: Desk) -> None:
    """It fails alone, after its attempts are used up."""
    good = [desk.submit(n=2) for _ in range(4)]
    bad = desk.submit("a red circle [bad]", ends=("dead",), n=2)
    good += [desk.submit(n=2) for _ in range(4)]
    assert desk.wait(bad)["error"]["code"] == "bad_output"
    assert {desk.wait(job_id)["attempts"] for job_id in good} == {1}


def test_hung_device_call(house: House, desk: Desk) -> None:
    """Its worker stops beating and is given up; another renders the job."""
    job_id = desk.submit("a red circle [hang:1]")
    hung = holder_of(house, job_id)
    assert desk.wait(job_id)["state"] == "succeeded"
    assert desk.facts(job_id)["rescues"] == 1
    hung.send(signal.SIGKILL)  # it leaves by itself too, only not as soon


def test_job_that_hangs_every_device(desk: Desk) -> None:
    """It is dead after three rescues like one that kills its process: a worker that gives up hands nothing back."""
    job = desk.wait(desk.submit("a red circle [hang]", ends=("dead",)))
    assert (job["error"]["code"], job["cost"]["charged"]) == ("worker_lost", "0")


def test_stopped_in_order(house: House, desk: Desk) -> None:
    """SIGTERM: what isn't done within the grace is handed back at once, and counts neither as attempt nor as rescue."""
    job_id = desk.submit(steps=STEPS)
    leaving = holder_of(house, job_id)
    leaving.send(signal.SIGTERM)
    desk.wait(job_id)
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 2}


def test_clocks_that_are_ten_minutes_off(house: House, desk: Desk) -> None:
    """Only the database's clock counts: leases are kept, and deadlines neither missed nor met too early."""
    ordinary = list(house.workers)
    wrong = [house.add_worker("fast", skew_s=600), house.add_worker("slow", skew_s=-600)]
    house.wait_ready()
    with frozen(*ordinary):
        jobs = [desk.submit(steps=LONG, deadline_s=30) for _ in range(2)]
        late = desk.submit(steps=1000, deadline_s=3, ends=("failed",))
        assert [desk.wait(job_id)["state"] for job_id in jobs] == ["succeeded"] * 2
        assert desk.wait(late)["error"]["code"] == "deadline_exceeded"
        assert [desk.facts(job_id)["rescues"] for job_id in jobs] == [0, 0]
    for worker in wrong:
        house.move_out(worker)
