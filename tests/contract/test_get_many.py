"""Several jobs read at once."""

from __future__ import annotations

from jobstore.ids import uuid7
from jobstore.protocol import JobStore
from tests.contract.making import new_job, new_worker, rendered


async def test_those_that_there_are_come_with_their_pictures(store: JobStore) -> None:
    """And without the others, or a place in the queue."""
    done = await store.submit(new_job())
    await rendered(store, new_worker())
    waiting = await store.submit(new_job())
    found = {job.id: job for job in await store.get_many([waiting.id, uuid7(), done.id])}
    assert found.keys() == {waiting.id, done.id}
    assert found[done.id] == await store.get(done.id)
    assert found[done.id].pictures
    assert (found[waiting.id].state, found[waiting.id].queue_position) == (waiting.state, None)
    assert await store.get_many([]) == ()
