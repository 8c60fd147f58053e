"""API keys: found by a digest of their secret, rotated, changed, revoked; and the audit log beside."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import pytest

from jobstore.audit import Actor, AuditFilter, AuditNote
from jobstore.errors import KeyNotFoundError, KeyNotInForceError, LastAdminError
from jobstore.keys import ApiKey, KeyChange, KeyFilter, NewKey, Scope
from jobstore.protocol import JobStore
from jobstore.rules.keys import to_key
from tests.contract.keying import TESTER

Stores = tuple[JobStore, ...]
EVERYTHING = tuple(Scope)
OPS = Actor(name="ops", key_id=uuid4())


def new_key(name: str = "ann", secret_hash: str | None = None, **fields: object) -> NewKey:
    """A key whose digest is its name, unless another is named."""
    return msgspec.structs.replace(NewKey(name=name, secret_hash=secret_hash or name, hint="sl_"), **fields)


def admin_key(name: str = "ops") -> NewKey:
    """A key that may do everything."""
    return new_key(name, scopes=(Scope.ADMIN,))


async def found(store: JobStore, *hashes: str) -> ApiKey | None:
    """The key in force of these digests."""
    match = await store.find_key(*hashes)
    return None if match is None else match.key


async def actions(store: JobStore, target: UUID) -> list[str]:
    """What was done to a key, first things first."""
    page = await store.list_audit(AuditFilter(target=str(target)))
    return [entry.action for entry in reversed(page.entries)]


async def test_a_key_is_kept_whole_and_found_by_its_digest(stores: Stores) -> None:
    """By any process, under any of several digests, with every field as it was given."""
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    where = ("10.0.0.0/8", "2001:db8::/32")
    given = new_key(weight=2.5, team="red", customer="acme", models=("a/b", "c"), networks=where, expires_at=until)
    key = await stores[0].create_key(given, TESTER)
    assert (key.name, key.hint, key.weight, key.team, key.customer) == ("ann", "sl_", 2.5, "red", "acme")
    assert (key.scopes, key.admin, key.models) == ((Scope.SUBMIT, Scope.READ), False, ("a/b", "c"))
    assert key.networks == where
    assert (key.expires_at, key.revoked_at, key.previous_until, key.peppered) == (until, None, None, False)
    match = await stores[1].find_key("stranger", "ann")
    assert match is not None
    assert match.key == key == await stores[2].get_key(key.id)
    assert match.left_s == pytest.approx((until - datetime.now(UTC)).total_seconds(), abs=60)
    assert await found(stores[1], "stranger") is None
    with pytest.raises(KeyNotFoundError):
        await stores[1].get_key(uuid4())
    plain = await stores[0].create_key(new_key("bob", "hmac-sha256:bob"), TESTER)
    assert (plain.models, plain.expires_at, plain.peppered) == (None, None, True)
    match = await stores[0].find_key("hmac-sha256:bob")
    assert match is not None
    assert match.left_s is None


async def test_an_admin_may_do_everything(store: JobStore) -> None:
    """Whatever other scopes were named; the column that older releases read is in step."""
    key = await store.create_key(admin_key(), TESTER)
    assert (key.scopes, key.admin) == (EVERYTHING, True)
    less = await store.change_key(key.id, KeyChange(scopes=(Scope.READ,)), TESTER, force=True)
    assert (less.scopes, less.admin) == ((Scope.READ,), False)
    more = await store.change_key(key.id, KeyChange(scopes=(Scope.ADMIN, Scope.READ)), TESTER)
    assert (more.scopes, more.admin) == (EVERYTHING, True)
    assert [less.allows(scope) for scope in Scope] == [False, True, False, False]
    assert all(more.allows(scope) for scope in Scope)


async def test_an_admin_key_of_an_older_release_is_one(store: JobStore) -> None:
    """It wrote the column, and no scopes."""
    key = await store.create_key(new_key(), TESTER)
    row = msgspec.structs.asdict(key) | {"secret_hash": "x", "scopes": ["submit", "read"]}
    assert to_key(row | {"admin": True}).scopes == EVERYTHING
    assert to_key(row | {"scopes": ["submit", "read", "admin"]}).scopes == (Scope.SUBMIT, Scope.READ)


async def test_a_key_that_expired_is_not_found(store: JobStore) -> None:
    """By the store's clock; listed it is, and given more time it counts again."""
    key = await store.create_key(new_key(expires_at=datetime.now(UTC) - timedelta(seconds=5)), TESTER)
    assert await found(store, "ann") is None
    assert await store.list_keys() == (key,)
    with pytest.raises(KeyNotInForceError, match="expired"):
        await store.rotate_key(key.id, "new", "sl_n", TESTER)
    changed = await store.change_key(key.id, KeyChange(expires_at=None), TESTER)
    assert await found(store, "ann") == changed


async def test_a_rotated_key_counts_under_both_secrets_for_its_grace(stores: Stores) -> None:
    """At most under two: a second rotation ends the first one's grace."""
    key = await stores[0].create_key(new_key(), TESTER)
    rotated = await stores[0].rotate_key(key.id, "second", "sl_2", TESTER, grace_s=3600)
    assert rotated.hint == "sl_2"
    assert rotated.previous_until is not None
    for digest in ("ann", "second"):
        assert await found(stores[1], digest) == rotated
    old, new = await stores[1].find_key("ann"), await stores[1].find_key("second")
    assert old is not None and new is not None
    assert old.left_s == pytest.approx(3600, abs=60)
    assert new.left_s is None
    await stores[0].rotate_key(key.id, "third", "sl_3", TESTER, grace_s=3600)
    assert [await found(stores[1], digest) is not None for digest in ("ann", "second", "third")] == [False, True, True]


async def test_a_rotation_without_grace_counts_at_once(store: JobStore) -> None:
    """Also one whose grace is over."""
    key = await store.create_key(new_key(), TESTER)
    await store.rotate_key(key.id, "second", "sl_2", TESTER)
    assert await found(store, "ann") is None
    await store.rotate_key(key.id, "third", "sl_3", TESTER, grace_s=1e-6)
    assert await found(store, "second") is None
    assert (await store.get_key(key.id)).hint == "sl_3"
    with pytest.raises(KeyNotFoundError):
        await store.rotate_key(uuid4(), "fourth", "sl_4", TESTER)


async def test_a_revoked_key_counts_under_no_secret_any_more(stores: Stores) -> None:
    """For good: it is neither rotated nor changed; revoking it again changes nothing."""
    key = await stores[0].create_key(new_key(), TESTER)
    await stores[0].rotate_key(key.id, "second", "sl_2", TESTER, grace_s=3600)
    revoked = await stores[0].revoke_key(key.id, TESTER)
    assert revoked.revoked_at is not None
    assert [await found(stores[1], digest) for digest in ("ann", "second")] == [None, None]
    assert await stores[1].revoke_key(key.id, OPS) == revoked
    with pytest.raises(KeyNotInForceError, match="revoked"):
        await stores[0].rotate_key(key.id, "third", "sl_3", TESTER)
    with pytest.raises(KeyNotInForceError, match="revoked"):
        await stores[0].change_key(key.id, KeyChange(name="bob"), TESTER)
    with pytest.raises(KeyNotFoundError):
        await stores[0].revoke_key(uuid4(), TESTER)
    assert await stores[1].list_keys() == (revoked,)
    assert await actions(stores[1], key.id) == ["key.created", "key.rotated", "key.revoked"]


async def test_what_is_changed_counts_and_the_rest_stays(store: JobStore) -> None:
    """None takes a field away; a change to what is there already writes nothing."""
    key = await store.create_key(new_key(team="red", customer="acme", models=("a",)), TESTER)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    change = KeyChange(name="bob", weight=3, team=None, models=("a", "b"), expires_at=until)
    changed = await store.change_key(key.id, change, OPS)
    expected = msgspec.structs.replace(key, name="bob", weight=3.0, team=None, models=("a", "b"), expires_at=until)
    assert changed == expected == await found(store, "ann")
    assert await store.change_key(key.id, change, OPS) == changed
    assert await store.change_key(key.id, KeyChange(), OPS) == changed
    (entry, _) = (await store.list_audit()).entries
    assert (entry.action, entry.actor, entry.key_id, entry.target) == ("key.changed", "ops", OPS.key_id, str(key.id))
    assert entry.details == {
        "name": {"from": "ann", "to": "bob"},
        "weight": {"from": 1.0, "to": 3.0},
        "team": {"from": "red", "to": None},
        "models": {"from": ["a"], "to": ["a", "b"]},
        "expires_at": {"from": None, "to": until.isoformat().replace("+00:00", "Z")},
    }
    with pytest.raises(KeyNotFoundError):
        await store.change_key(uuid4(), change, OPS)


async def test_the_last_admin_is_not_taken_away_by_mistake(store: JobStore) -> None:
    """One that expired or was revoked is no other; with force it goes."""
    first = await store.create_key(admin_key("first"), TESTER)
    late = new_key("late", scopes=(Scope.ADMIN,), expires_at=datetime.now(UTC) - timedelta(seconds=5))
    await store.create_key(late, TESTER)
    await store.create_key(new_key("plain"), TESTER)
    with pytest.raises(LastAdminError):
        await store.revoke_key(first.id, TESTER)
    with pytest.raises(LastAdminError):
        await store.change_key(first.id, KeyChange(scopes=(Scope.READ,)), TESTER)
    with pytest.raises(LastAdminError):
        await store.change_key(first.id, KeyChange(expires_at=datetime.now(UTC) + timedelta(days=1)), TESTER)
    assert await found(store, "first") == first
    await store.change_key(first.id, KeyChange(name="1st"), TESTER)
    second = await store.create_key(admin_key("second"), TESTER)
    await store.revoke_key(first.id, TESTER)
    with pytest.raises(LastAdminError):
        await store.revoke_key(second.id, TESTER)
    await store.revoke_key(second.id, TESTER, force=True)
    assert await store.list_keys(KeyFilter(admins=True)) == ()


async def test_two_admins_revoked_at_once_leave_one(stores: Stores) -> None:
    """Each revocation sees the other."""
    for _ in range(5):
        keys = [await stores[0].create_key(admin_key(str(uuid4())), TESTER) for _ in range(2)]
        work = [store.revoke_key(key.id, TESTER) for store, key in zip(stores, keys, strict=False)]
        results = await asyncio.gather(*work, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["ApiKey", "LastAdminError"]
        for key in await stores[0].list_keys(KeyFilter(admins=True)):
            await stores[0].revoke_key(key.id, TESTER, force=True)


async def test_keys_are_listed_oldest_first_in_pages(store: JobStore) -> None:
    """By team, by customer, or the admins in force alone."""
    teams: list[str | None] = ["red", "blue", None, "red", "red"]
    keys = [await store.create_key(new_key(f"k{n}", team=team), TESTER) for n, team in enumerate(teams)]
    ops = await store.create_key(msgspec.structs.replace(admin_key(), customer="acme"), TESTER)
    assert await store.list_keys() == (*keys, ops)
    assert await store.list_keys(KeyFilter(limit=2)) == (keys[0], keys[1])
    assert await store.list_keys(KeyFilter(after=keys[3].id)) == (keys[4], ops)
    assert await store.list_keys(KeyFilter(team="red", after=keys[0].id)) == (keys[3], keys[4])
    assert await store.list_keys(KeyFilter(customer="acme")) == (ops,)
    assert await store.list_keys(KeyFilter(admins=True)) == (ops,)


async def test_keys_are_found_by_text_and_state(store: JobStore) -> None:
    """A part of the name or the hint, in whatever letters; signs that mean something to SQL are but signs."""
    over = datetime.now(UTC) - timedelta(seconds=5)
    ann = await store.create_key(new_key("Ann's 100%_key", "a"), TESTER)
    late = await store.create_key(new_key("late", "b", expires_at=over), TESTER)
    gone = await store.create_key(msgspec.structs.replace(new_key("gone", "c", expires_at=over), hint="sl_Zz"), TESTER)
    gone = await store.revoke_key(gone.id, TESTER)
    assert await store.list_keys(KeyFilter(text="ANN")) == (ann,)
    assert await store.list_keys(KeyFilter(text="%_")) == (ann,)
    assert await store.list_keys(KeyFilter(text="_a")) == ()
    for text in ("_Zz", "_zz", "SL_Z"):
        assert await store.list_keys(KeyFilter(text=text)) == (gone,)
    assert await store.list_keys(KeyFilter(state="in_force")) == (ann,)
    assert await store.list_keys(KeyFilter(state="expired")) == (late,)
    assert await store.list_keys(KeyFilter(state="revoked")) == (gone,)
    assert await store.list_keys(KeyFilter(state="expired", text="ann")) == ()


async def test_the_audit_log_is_narrowed_to_who_and_when(store: JobStore) -> None:
    """A part of the name, in whatever letters; from one time on, up to another that is not in it."""
    for name in ("Ops", "night ops", "ann"):
        await store.audit(AuditNote(by=Actor(name=name), action="lane.paused", target="default"))
    newest = (await store.list_audit()).entries[0]
    by_ops = (await store.list_audit(AuditFilter(actor="OPS"))).entries
    assert [entry.actor for entry in by_ops] == ["night ops", "Ops"]
    assert (await store.list_audit(AuditFilter(actor="%"))).entries == ()
    first = (await store.list_audit(AuditFilter(actor="OPS", limit=1))).next_cursor
    assert [one.actor for one in (await store.list_audit(AuditFilter(actor="OPS", cursor=first))).entries] == ["Ops"]
    assert newest in (await store.list_audit(AuditFilter(after=newest.at))).entries
    assert newest not in (await store.list_audit(AuditFilter(before=newest.at))).entries
    later = newest.at + timedelta(seconds=1)
    assert (await store.list_audit(AuditFilter(after=later))).entries == ()
    assert len((await store.list_audit(AuditFilter(after=newest.at - timedelta(hours=1), before=later))).entries) == 3


async def test_the_audit_log_is_read_newest_first_in_pages(store: JobStore) -> None:
    """Every entry once; a filter holds over pages; a made-up cursor is refused."""
    for number in range(5):
        action = "lane.paused" if number % 2 == 0 else "lane.resumed"
        await store.audit(AuditNote(by=OPS, action=action, target="default", details={"number": number}))
    seen: list[int] = []
    cursor = None
    while True:
        page = await store.list_audit(AuditFilter(limit=2, cursor=cursor))
        seen += [entry.details["number"] for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [4, 3, 2, 1, 0]
    paused = await store.list_audit(AuditFilter(action="lane.paused", target="default"))
    assert [entry.details["number"] for entry in paused.entries] == [4, 2, 0]
    assert (paused.entries[0].actor, paused.entries[0].key_id) == (OPS.name, OPS.key_id)
    assert (await store.list_audit(AuditFilter(target="other"))).entries == ()
    with pytest.raises(ValueError, match="cursor"):
        await store.list_audit(AuditFilter(cursor="made-up"))


async def test_neither_secret_nor_digest_is_in_the_audit_log(store: JobStore) -> None:
    """Nor the hint."""
    key = await store.create_key(new_key(secret_hash="digest-one"), TESTER)
    await store.rotate_key(key.id, "digest-two", "sl_hint", TESTER, grace_s=60)
    await store.revoke_key(key.id, TESTER)
    told = msgspec.json.encode(await store.list_audit()).decode()
    assert "ann" in told
    for word in ("digest", "sl_"):
        assert word not in told


async def test_a_change_that_is_refused_leaves_no_entry(store: JobStore) -> None:
    """Both are one transaction."""
    key = await store.create_key(admin_key(), TESTER)
    with pytest.raises(LastAdminError):
        await store.revoke_key(key.id, TESTER)
    other = await store.create_key(new_key(), TESTER)
    with pytest.raises(Exception, match=r"UNIQUE|unique"):
        await store.rotate_key(other.id, "ops", "sl_", TESTER)
    assert await actions(store, key.id) == ["key.created"]
    assert await actions(store, other.id) == ["key.created"]
