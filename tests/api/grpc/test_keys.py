"""Keys, quotas and scopes over gRPC: the rules of REST; health and reflection have their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from api.grpc.describing import SERVICE
from api.grpc.requests import passed_on, peer_of
from jobstore.audit import Actor
from jobstore.keys import KeyChange, Scope
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.api.grpc.client import Caller
from tests.api.grpc.conftest import SERVED
from tests.api.site import Site, with_server
from tests.contract.emptying import empty_postgres
from tests.contract.keying import make_key
from tests.contract.making import new_quota

UNKNOWN, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
WHO = Actor(name="test")


@pytest.fixture
async def secrets(emptied_database: str) -> dict[str, str]:
    """Two plain keys, one that only reads, and an admin's, made before the API starts."""
    empty_postgres(emptied_database)
    store = PostgresStore(emptied_database)
    await store.open()
    made = {name: await make_key(store, name, admin=name == "admin", team="ads") for name in ("ann", "bob", "admin")}
    made["eve"] = await make_key(store, "eve", scopes=(Scope.READ,), models=("wide",))
    await store.close()
    return made


@pytest.fixture
def site(emptied_database: str, outputs: Outputs, secrets: dict[str, str]) -> Iterator[Site]:
    """The API as it would be on a public address."""
    with Site(emptied_database, outputs, with_server(SERVED, host="0.0.0.0", grpc_max_calls=3)).serve() as site:
        site.services.tail._poll_s = 0.02
        yield site


@pytest.fixture
def callers(site: Site, secrets: dict[str, str]) -> Iterator[dict[str, Caller]]:
    """A client for each key, and two without one that counts."""
    while not hasattr(site.app.state, "grpc_port"):
        site.call(asyncio.sleep(0.01))
    made = {name: Caller(site, secret) for name, secret in {**secrets, "wrong": "sl_wrong", "long": "x" * 300}.items()}
    made["none"] = Caller(site)
    yield made
    for caller in made.values():
        caller.close()


def test_keys_count_as_over_rest(callers: dict[str, Caller], secrets: dict[str, str]) -> None:
    """Own jobs alone, missing and foreign ones the same; scopes; every header that carries a key."""
    job = callers["ann"].job()
    assert callers["ann"].job("Get", id=job.id).id == callers["admin"].job("Get", id=job.id).id == job.id
    foreign, missing = callers["bob"].ask("Get", id=job.id), callers["bob"].ask("Get", id=job.id[:-4] + "ffff")
    assert foreign.code is missing.code is grpc.StatusCode.NOT_FOUND
    assert foreign.detail == missing.detail
    refused = callers["eve"].ask("Submit", prompt="x")
    assert (refused.code, refused.metadata["problem-type"]) == (DENIED, "urn:safelight:problem:forbidden")
    assert [model.id for model in callers["eve"].job("ListModels").data] == ["wide"]
    for header in ("x-api-key", "api-key", "x-bf-vk"):
        assert callers["none"].ask("ListModels", {header: secrets["ann"]}).code is grpc.StatusCode.OK
    page = callers["ann"].ask("Submit", {"origin": "https://elsewhere.example"}, prompt="x")
    assert (page.code, page.metadata["problem-type"]) == (DENIED, "urn:safelight:problem:cross_origin")


def test_keys_count_from_their_networks_alone(site: Site, callers: dict[str, Caller]) -> None:
    """By the peer's address, and by what a trusted proxy tells; else as a wrong one."""
    (ann,) = (key for key in site.call(site.services.store.list_keys()) if key.name == "ann")
    change = KeyChange(networks=("203.0.113.0/24",))
    site.call(site.services.store.change_key(ann.id, change, WHO))
    site.services.keys.forget()
    assert callers["ann"].ask("ListModels", {"x-forwarded-for": "203.0.113.7"}).code is grpc.StatusCode.OK
    outside, wrong = callers["ann"].ask("ListModels"), callers["wrong"].ask("ListModels")
    assert outside.code is wrong.code is UNKNOWN
    assert outside.detail == wrong.detail
    site.call(site.services.store.change_key(ann.id, KeyChange(networks=("127.0.0.1/32",)), WHO))
    site.services.keys.forget()
    assert callers["ann"].ask("ListModels").code is grpc.StatusCode.OK


def test_strangers_are_turned_away_on_every_call(callers: dict[str, Caller]) -> None:
    """Before what they send is looked at, however large it may be; a wrong key as none."""
    told = [callers[who].ask(name, id="x") for who in ("wrong", "long", "none") for name in ("Get", "Cancel")]
    told += [callers["none"].ask("ListModels"), callers["none"].ask("Submit", prompt="x" * 90_000)]
    assert {each.code for each in told} == {UNKNOWN}
    assert len({each.detail for each in told}) == 1
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        callers["none"].watch("x").next()
    assert caught.value.code() is UNKNOWN


def test_a_budget_that_is_used_up_says_so(site: Site, callers: dict[str, Caller]) -> None:
    """With what is left, and that trying again is of no use."""
    ann = callers["ann"]
    site.call(site.services.store.create_quota(new_quota(most=Decimal("0.015")), WHO))
    first = ann.ask("Submit", prompt="x", seed=1)
    assert "spend" in first.metadata["ratelimit"]
    second = ann.ask("Submit", prompt="x", seed=2)
    assert (second.code, second.metadata["problem-type"]) == (EXHAUSTED, "urn:safelight:problem:budget_exceeded")
    assert second.metadata["problem-status"] == "402"
    assert second.metadata["x-should-retry"] == "false"


def test_a_revoked_key_ends_its_stream(site: Site, callers: dict[str, Caller]) -> None:
    """Told as a stream that broke off; who watches again is told why."""
    job = callers["ann"].job()
    watching = callers["ann"].watch(job.id)
    assert watching.next().state.state == "queued"
    (key,) = [key for key in site.call(site.services.store.list_keys()) if key.name == "ann"]
    site.call(site.services.store.revoke_key(key.id, WHO))
    site.services.keys.forget()
    callers["admin"].job("Cancel", id=job.id)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        watching.rest()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert callers["ann"].ask("Get", id=job.id).code is UNKNOWN


def test_calls_under_way_are_bounded(callers: dict[str, Caller], secrets: dict[str, str]) -> None:
    """One more than may be is told to come again."""
    ann = callers["ann"]
    job = ann.job()
    streams = [ann.watch(job.id) for _ in range(3)]
    assert {stream.next().event for stream in streams} == {"state"}
    other = Caller(ann.site, secrets["bob"], options=[("grpc.use_local_subchannel_pool", 1)])  # another connection
    assert other.ask("ListModels").code is EXHAUSTED
    other.close()
    for stream in streams:
        stream.call.cancel()


def test_a_server_that_leaves_ends_its_streams_and_takes_no_calls(site: Site, callers: dict[str, Caller]) -> None:
    """Told as a stream that broke off: another process goes on with it."""
    ann = callers["ann"]
    watching = ann.watch(ann.job().id)
    assert watching.next().state.state == "queued"
    site._loop.call_soon_threadsafe(site.services.tail.close)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        watching.rest()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "from the last event's id on" in str(caught.value.details())
    assert ann.ask("ListModels").code is grpc.StatusCode.UNAVAILABLE


def test_health_is_open_and_turns_at_the_end(site: Site, callers: dict[str, Caller]) -> None:
    """By the standard service, for the whole and for the one service; streams of it are bounded."""
    serving, leaving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    stub: Any = health_pb2_grpc.HealthStub(callers["none"].channel)

    async def ask(service: str) -> Any:
        return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status

    async def watch() -> list[Any]:
        call: Any = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        seen = [(await call.read()).status]
        site.services.tail.close()
        seen.append((await call.read()).status)
        call.cancel()
        return seen

    assert [site.call(ask(name)) for name in ("", SERVICE)] == [serving, serving]
    assert site.call(watch()) == [serving, leaving]


def test_reflection_is_for_whom_the_documentation_is(callers: dict[str, Caller]) -> None:
    """Admins alone, off loopback."""

    async def look(caller: Caller) -> Any:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(caller.channel)
        call: Any = stub.ServerReflectionInfo(metadata=caller.metadata)
        try:
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            answer = await call.read()
        except grpc.aio.AioRpcError as error:
            return error.code()
        call.cancel()
        return [service.name for service in answer.list_services_response.service]

    looked = {name: caller.site.call(look(caller)) for name, caller in callers.items() if name in ("none", "ann")}
    assert looked == {"none": UNKNOWN, "ann": DENIED}
    assert SERVICE in callers["admin"].site.call(look(callers["admin"]))


def test_what_is_passed_on() -> None:
    """Nothing but what means something here; no binary values."""
    sent = [("x-bf-dim-a", "b"), ("host", "evil"), ("content-length", "9"), ("x-api-key-bin", b"k"), ("x-api-key", "k")]
    assert passed_on(sent) == [(b"x-bf-dim-a", b"b"), (b"x-api-key", b"k")]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:50051", ("10.0.0.7", 50051)),
        ("ipv6:%5B2001:db8::1%5D:443", ("2001:db8::1", 443)),
        ("unix:/run/x", None),
        ("ipv6:%5B::", None),
    ],
)
def test_a_peer_is_read(peer: str, address: tuple[str, int] | None) -> None:
    """As gRPC writes it."""
    assert peer_of(peer) == address
