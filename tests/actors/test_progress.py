"""Progress inside one process, and the queue that lets slow ones skip."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

from actors.latest import Latest, subject_of
from actors.progress import make_progress_channel
from jobstore.live import Message, Preview, Progress
from tests.engine.conftest import TIMEOUT_S


def progress(job_id: UUID, step: int) -> Progress:
    """A message of a render of eight steps."""
    return Progress(job_id=job_id, step=step, steps=8, fraction=step / 9)


def preview(job_id: UUID, index: int, step: int) -> Preview:
    """A message with a picture."""
    return Preview(job_id=job_id, index=index, step=step, steps=8, image=b"picture", media_type="image/jpeg")


def test_every_listener_hears_and_one_that_fails_disturbs_nobody() -> None:
    """Until it ends its listening."""
    channel = make_progress_channel("memory")
    heard: list[Message] = []
    arrived = threading.Event()

    def fail(_message: Message) -> None:
        raise RuntimeError("a listener's fault")

    def keep(message: Message) -> None:
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


def test_only_the_latest_of_a_subject_waits() -> None:
    """A slow sender never falls behind; a job's progress and each image's preview are subjects of their own."""
    latest: Latest[Message] = Latest()
    one, two = uuid4(), uuid4()
    messages: list[Message] = [
        *(progress(one, step) for step in range(1, 5)),
        *(preview(one, index, step) for step in (1, 2) for index in (0, 1)),
        progress(two, 1),
    ]
    for message in messages:
        latest.put(subject_of(message), message)
    waiting = [latest.get(0) for _ in range(5)]
    assert waiting == [progress(one, 4), preview(one, 0, 2), preview(one, 1, 2), progress(two, 1), None]


def test_room_is_bounded() -> None:
    """What waits longest is dropped."""
    latest: Latest[int] = Latest(capacity=2)
    for number in range(3):
        latest.put(number, number)
    assert [latest.get(0), latest.get(0), latest.get(0)] == [1, 2, None]


def test_close_wakes_whoever_waits() -> None:
    """At once, not after the timeout."""
    latest: Latest[int] = Latest()
    got: list[int | None] = []
    waiter = threading.Thread(target=lambda: got.append(latest.get(TIMEOUT_S)))
    waiter.start()
    latest.close()
    waiter.join(TIMEOUT_S)
    assert got == [None]
