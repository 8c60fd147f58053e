"""How long a server believes what it knows of a key, and what a flood of wrong ones costs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import structlog

from api.keyring import STALE_S, KeyRing, warn_without_pepper
from api.problems import ProblemError
from jobstore.keys import Digester, KeyMatch, NewKey, make_secret
from jobstore.postgres.store import PostgresStore
from tests.contract.keying import TESTER, make_key

PEPPER = "a pepper of forty characters, for a test"


class CountedStore(PostgresStore):
    """Counts look-ups, and how many run at a time at most. ``left_s`` is how long any key counts from now on."""

    left_s: float | None = None
    lookups = 0
    most = 0
    running = 0

    async def find_key(self, *hashes: str) -> KeyMatch | None:
        self.lookups += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            match = await super().find_key(*hashes)
            return match and msgspec.structs.replace(match, left_s=match.left_s if self.left_s is None else self.left_s)
        finally:
            self.running -= 1


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def counted(database: str) -> CountedStore:
    """An open store that counts."""
    store = CountedStore(database)
    await store.open()
    return store


def ring_on(store: PostgresStore, clock: Clock | None = None, pepper: str = "") -> KeyRing:
    """A server's keys."""
    return KeyRing(store, "0.0.0.0", pepper=pepper, clock=clock or Clock())


async def test_what_is_known_of_a_key_is_never_older_than_promised(counted: CountedStore) -> None:
    """Asked once in that time, by however many requests; revoked elsewhere, it is refused after it."""
    clock = Clock()
    ring = ring_on(counted, clock)
    secret = await make_key(counted, "ann")
    found = await asyncio.gather(*(ring.find(secret) for _ in range(50)))
    assert {key.name for key in found if key} == {"ann"}
    assert all(found)
    assert counted.lookups == 1
    assert found[0] is not None
    await counted.revoke_key(found[0].id, TESTER)
    clock.now += STALE_S - 0.01
    assert await ring.find(secret) is not None
    clock.now += 0.02
    assert await ring.find(secret) is None
    assert STALE_S < 2
    await counted.close()


async def test_a_key_stops_when_its_time_is_up(counted: CountedStore) -> None:
    """Not when what is known of it grows old."""
    clock = Clock()
    ring = ring_on(counted, clock)
    secret = await make_key(counted, "ann", expires_at=datetime.now(UTC) + timedelta(hours=1))
    counted.left_s = 0.5
    assert await ring.find(secret) is not None
    clock.now += 0.49
    assert await ring.find(secret) is not None
    assert counted.lookups == 1
    clock.now += 0.02
    counted.left_s = 0.0
    assert await ring.find(secret) is None
    assert counted.lookups == 2
    await counted.close()


async def test_one_wrong_key_is_asked_for_once_in_a_while(counted: CountedStore) -> None:
    """However often it comes."""
    clock = Clock()
    ring = ring_on(counted, clock)
    wrong = make_secret()
    assert await asyncio.gather(*(ring.find(wrong) for _ in range(40))) == [None] * 40
    assert [await ring.find(wrong) for _ in range(10)] == [None] * 10
    assert counted.lookups == 1
    clock.now += STALE_S + 0.01
    assert await ring.find(wrong) is None
    assert counted.lookups == 2
    await counted.close()


async def test_a_flood_of_wrong_keys_stays_small(counted: CountedStore) -> None:
    """Few look-ups at a time, a bound to those that wait and to what is remembered; who has a key gets in meanwhile."""
    clock = Clock()
    ring = ring_on(counted, clock)
    secret = await make_key(counted, "ann")
    assert await ring.find(secret) is not None
    clock.now += STALE_S + 0.01  # it has to be asked for anew
    flood = [asyncio.create_task(ring.find(make_secret())) for _ in range(500)]
    await asyncio.sleep(0)
    assert await ring.find(secret) is not None
    results = await asyncio.gather(*flood, return_exceptions=True)
    refused = [result for result in results if isinstance(result, ProblemError)]
    assert [result for result in results if not isinstance(result, ProblemError)] == [None] * (500 - len(refused))
    assert len(refused) > 400
    assert {problem.status_code for problem in refused} == {503}
    assert counted.most <= 5
    for _ in range(1100):
        await ring.find(make_secret())
    assert len(ring._unknown) <= 1024
    assert len(ring._known) == 1
    await counted.close()


async def test_a_change_here_counts_here_at_once(counted: CountedStore) -> None:
    """Also where a look-up was under way: its answer is not kept."""
    ring = ring_on(counted)
    secret = await make_key(counted, "ann")
    under_way = asyncio.create_task(ring.find(secret))
    await asyncio.sleep(0)
    ring.forget()
    assert await under_way is not None
    key = await ring.find(secret)
    assert key is not None
    assert counted.lookups == 2
    await counted.close()


async def test_a_pepper_locks_nobody_out(store: PostgresStore) -> None:
    """Keys from before it count on; new ones count with it alone; another pepper knows them not."""
    plain, peppered = ring_on(store), ring_on(store, pepper=PEPPER)
    old = await make_key(store, "old")
    secret = make_secret()
    await store.create_key(NewKey(name="new", secret_hash=Digester(PEPPER).kept(secret), hint="sl_"), TESTER)
    for ring, known in (
        (plain, (True, False)),
        (peppered, (True, True)),
        (ring_on(store, pepper="x" * 40), (True, False)),
    ):
        assert (await ring.find(old) is not None, await ring.find(secret) is not None) == known
    key = await peppered.find(old)
    assert key is not None and not key.peppered
    rotated = make_secret()
    moved = await store.rotate_key(key.id, Digester(PEPPER).kept(rotated), "sl_", TESTER, grace_s=60)
    assert moved.peppered
    assert await peppered.find(rotated) == moved
    peppered.forget()
    assert await peppered.find(old) == moved  # while its grace lasts


async def test_a_server_without_the_pepper_says_so(store: PostgresStore) -> None:
    """Its log names how many keys it will refuse; where none is meant, it is silent."""
    await make_key(store, "plain")
    with structlog.testing.capture_logs() as logs:
        await warn_without_pepper(store, "")
        await store.create_key(NewKey(name="new", secret_hash=Digester(PEPPER).kept(make_secret()), hint="sl_"), TESTER)
        await warn_without_pepper(store, PEPPER)
        assert logs == []
        await warn_without_pepper(store, "")
    assert [(line["action"], line["keys"]) for line in logs] == [("keys.no_pepper", 1)]
