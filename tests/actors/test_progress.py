"""Progress inside one process, and the queue that lets slow ones skip."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

from actors.latest import LatestProgress
from actors.progress import make_progress_channel
from jobstore.live import Progress
from tests.engine.conftest import TIMEOUT_S


def progress(job_id: UUID, step: int) -> Progress:
    """A message of a render of eight steps."""
    return Progress(job_id=job_id, step=step, steps=8, fraction=step / 9)


def test_every_listener_hears_and_one_that_fails_disturbs_nobody() -> None:
    """Until it ends its listening."""
    channel = make_progress_channel("memory")
    heard: list[Progress] = []
    arrived = threading.Event()

    def fail(_progress: Progress) -> None:
        raise RuntimeError("a listener's fault")

    def keep(message: Progress) -> None:
        heard.append(message)
        arrived.set()

    end_failing = channel.listen(fail)
    end_keeping = channel.listen(keep)
    first, second = progress(uuid4(), 1), progress(uuid4(), 2)
    channel.publish(first)
    assert arrived.wait(TIMEOUT_S)
    end_keeping()
    end_keeping()
    end_failing()
    last = threading.Event()
    channel.listen(lambda _message: last.set())
    channel.publish(second)
    assert last.wait(TIMEOUT_S)
    assert heard == [first]
    channel.close()


def test_only_the_latest_of_a_job_waits() -> None:
    """A slow sender never falls behind."""
    latest = LatestProgress()
    one, two = uuid4(), uuid4()
    for step in range(1, 5):
        latest.put(progress(one, step))
    latest.put(progress(two, 1))
    assert latest.get(0) == progress(one, 4)
    assert latest.get(0) == progress(two, 1)
    assert latest.get(0) is None


def test_room_is_bounded() -> None:
    """The job that waits longest is dropped."""
    latest = LatestProgress(capacity=2)
    jobs = [uuid4() for _ in range(3)]
    for job in jobs:
        latest.put(progress(job, 1))
    assert [latest.get(0), latest.get(0), latest.get(0)] == [progress(jobs[1], 1), progress(jobs[2], 1), None]


def test_close_wakes_whoever_waits() -> None:
    """At once, not after the timeout."""
    latest = LatestProgress()
    got: list[Progress | None] = []
    waiter = threading.Thread(target=lambda: got.append(latest.get(TIMEOUT_S)))
    waiter.start()
    latest.close()
    waiter.join(TIMEOUT_S)
    assert got == [None]
