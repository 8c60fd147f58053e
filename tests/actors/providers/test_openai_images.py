"""What is asked of a provider that speaks OpenAI's API, and what its answers mean."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from actors.providers.http_client import HttpClient
from actors.providers.orders import Order, ProviderError, ProviderRefusedError
from actors.providers.polling import poll_of
from actors.providers.refusals import LONGEST_PAUSE_S, pause_of
from actors.providers.registry import Providers
from tests.actors.providers.service import Reply, Service, picture, pictures, provider, refused

SECRET = "sk-very-secret"
ORDER = Order(
    key="job-1", prompt="ō 😄 飞翔", negative_prompt="blur", width=64, height=96, n=2, seed=7, steps=4, guidance=0.0
)


async def ask(service: Service, order: Order = ORDER, **settings: Any) -> tuple[bytes, ...]:
    """The pictures of a provider made for one order."""
    providers = Providers({"KEY": SECRET, "ORG": "org-secret"})
    try:
        return await providers.render("far", provider(service, **settings), order)
    finally:
        await providers.close()


async def test_only_what_every_provider_knows_is_sent(service: Service) -> None:
    """Prompt, size and number; the key in the header, and an idempotency key."""
    files = await ask(service, api_key_env="KEY", headers_env={"OpenAI-Organization": "ORG"})
    assert files == (picture(64, 96), picture(64, 96))
    [seen] = service.seen
    assert seen.path == "/v1/images/generations"
    assert seen.body == {
        "model": "flux", "prompt": "ō 😄 飞翔", "n": 2, "size": "64x96", "response_format": "b64_json",
    }  # fmt: skip
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert seen.headers["openai-organization"] == "org-secret"
    assert seen.headers["idempotency-key"] == '"job-1"'


async def test_extra_fields_are_sent_where_the_settings_say_so(service: Service) -> None:
    """Seed, steps, guidance and the negative prompt; models that always answer in base64 aren't told to."""
    await ask(service, extra=True, model="gpt-image-1")
    [seen] = service.seen
    assert {name: seen.body[name] for name in ("seed", "steps", "guidance", "negative_prompt")} == {
        "seed": 7, "steps": 4, "guidance": 0.0, "negative_prompt": "blur",
    }  # fmt: skip
    assert "response_format" not in seen.body
    assert "authorization" not in seen.headers


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Reply(400, refused("content_policy_violation", "not that")), "content_filtered", "not that"),
        (Reply(400, refused("moderation_blocked")), "content_filtered", "400"),
        (Reply(400, refused("unknown_parameter", "what is size?")), "provider_refused", "what is size?"),
        (Reply(401, refused("invalid_api_key", f"wrong key {SECRET}")), "provider_refused", "401"),
        (Reply(403, refused(None)), "provider_refused", "403"),
        (Reply(404, b"<html>"), "provider_refused", "404"),
        (Reply(429, refused("rate_limit_exceeded")), "provider_busy", "429"),
        (Reply(429, refused("insufficient_quota")), "provider_refused", "429"),
        (Reply(500, refused("render_failed"), {"x-should-retry": "false"}), "provider_refused", "500"),
        (Reply(500, refused("oops")), "provider_busy", "500"),
        (Reply(409, refused(None)), "provider_unreachable", "409"),
        (Reply(502, b"<html>"), "provider_unreachable", "502"),
        (Reply(503, b""), "provider_unreachable", "503"),
        (Reply(504, b""), "provider_unreachable", "504"),
        (Reply(524, b""), "provider_unreachable", "524"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:1/"}), "provider_refused", "302"),
        (Reply(200, b"<html>"), "bad_output", "no JSON"),
        (Reply(200, b"[" * 100_000), "bad_output", "no JSON"),
        (Reply(200, {"data": []}), "bad_output", "0 pictures of 2"),
        (Reply(200, {"data": [{"b64_json": "data:image/png;base64,AAAA"}] * 2}), "bad_output", "no base64"),
        (Reply(200, {"data": [{"url": "http://169.254.169.254/"}] * 2}), "provider_refused", "links"),
        (Reply(200, {"data": [None, 1]}), "bad_output", "without a picture"),
        (Reply(202, {}), "provider_refused", "without a Location"),
        (Reply(202, {}, {"Location": "http://127.0.0.1:1/elsewhere"}), "provider_refused", "http://127.0.0.1:1"),
        (Reply(202, {}, {"Location": "http://[x/"}), "provider_refused", "not followed"),
        (Reply(202, {}, {"Location": "/a\x01b"}), "provider_refused", "no address"),
        (Reply(202, {}, {"Location": "/" + "a" * 70_000}), "provider_refused", "no address"),
        (Reply(202, {}, {"Location": "file:///etc/passwd"}), "provider_refused", "base_url"),
    ],
)
async def test_an_answer_without_pictures_says_what_to_do(
    service: Service, reply: Reply, code: str, words: str
) -> None:
    """Tried again, tried elsewhere, or the end; the key is never told."""
    service.replies = [reply]
    with pytest.raises(ProviderError) as caught:
        await ask(service, api_key_env="KEY")
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(service.seen) == 1


async def test_a_secret_in_an_answer_is_not_told(service: Service) -> None:
    """Whatever the status, nor control characters or halves of one; and no more than a few words."""
    service.replies = [Reply(422, refused("x", f"bad\n\x1b[31m \ud800 {SECRET} " + 1000 * "x"))]
    with pytest.raises(ProviderError) as caught:
        await ask(service, api_key_env="KEY")
    assert SECRET not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert str(caught.value).encode()
    assert len(str(caught.value)) < 400


async def test_the_provider_says_how_long_to_wait(service: Service) -> None:
    """In seconds, milliseconds or as a date, within bounds."""
    service.replies = [Reply(429, refused(None), {"Retry-After": "17"})]
    with pytest.raises(ProviderError) as caught:
        await ask(service)
    assert caught.value.retry_after_s == 17
    assert pause_of({"retry-after-ms": "1500"}) == 1.5
    assert pause_of({"retry-after": "Wed, 21 Oct 2115 07:28:00 GMT"}) == LONGEST_PAUSE_S
    assert pause_of({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    far = f"Wed, 21 Oct {10**20} 07:28:00 GMT"
    assert [pause_of({"retry-after": text}) for text in ("", "soon", "nan", "inf", far)] == [None] * 5


@pytest.mark.parametrize("headers", [{"Location": "/v1/jobs/1"}, {"x-bf-async-id": "abc"}])
async def test_a_long_render_is_fetched_later(service: Service, headers: dict[str, str]) -> None:
    """202, and polls until the pictures are there; a proxy that is away for a moment is waited for."""
    soon = headers | {"openai-poll-after-ms": "1"}
    service.replies = [Reply(202, {}, soon), Reply(202, {}, soon), Reply(503, b""), Reply(202, {}, soon)]
    service.replies += [Reply(200, pictures(picture(), picture()))]
    assert len(await ask(service)) == 2
    assert [seen.method for seen in service.seen] == ["POST", "GET", "GET", "GET", "GET"]
    assert {seen.path for seen in service.seen[1:]} == {headers.get("Location", "/v1/images/generations")}
    assert all(seen.headers.get("x-bf-async-id") == headers.get("x-bf-async-id") for seen in service.seen[1:])
    assert "respond-async" in service.seen[0].headers["prefer"]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (Reply(500, refused("oops")), "provider_unreachable"),
        (Reply(409, refused(None)), "provider_unreachable"),
        (Reply(500, refused("render_failed"), {"x-should-retry": "false"}), "provider_refused"),
        (Reply(502, refused("provider_busy"), {"x-should-retry": "false"}), "provider_refused"),
        (Reply(404, refused("not_found")), "provider_refused"),
        (Reply(400, refused("content_policy_violation")), "content_filtered"),
    ],
)
async def test_what_was_promised_may_be_under_way(service: Service, last: Reply, code: str) -> None:
    """After a 202 only what says that there will be no pictures is taken for a failure."""
    service.replies = [Reply(202, {}, {"Location": "/v1/jobs/1", "openai-poll-after-ms": "1"}), last]
    with pytest.raises(ProviderError) as caught:
        await ask(service)
    assert caught.value.code == code


def test_nobody_else_is_polled() -> None:
    """The key would be sent there."""
    url = "https://host/v1/images/generations"
    for place in ("/v1/jobs/1", "https://HOST:443/v1/jobs/1", "//host/v1/jobs/1"):
        assert poll_of("far", url, {"location": place}).url == "https://host/v1/jobs/1"
    for place in (
        "https://other/v1", "http://host/v1/x", "//other/x", "https://host:444/x", "https://host@other/x",
        "https://host\\@other/x", "https://me@host/x", "",
    ):  # fmt: skip
        with pytest.raises(ProviderRefusedError):
            poll_of("far", url, {"location": place})
    with pytest.raises(ProviderRefusedError, match="X-Forwarded-Proto"):
        poll_of("far", url, {"location": "http://host/v1/jobs/1"})


async def test_an_address_that_is_none_is_no_crash() -> None:
    """Whoever gave it."""
    http = HttpClient("far", {}, 1, 1.0)
    for url in ("http://h/\x01", "http://h/" + 70_000 * "a"):
        with pytest.raises(ProviderError) as caught:
            await http.send("GET", url, 1)
        assert caught.value.code == "bad_output"
    await http.close()


async def test_a_provider_that_is_away_is_unreachable(service: Service) -> None:
    """No answer, or none in time."""
    for settings in ({"base_url": "http://127.0.0.1:9/v1"}, {"timeout_s": 0.001}):
        with pytest.raises(ProviderError) as caught:
            await ask(service, **settings)
        assert caught.value.code == "provider_unreachable"


async def test_an_answer_is_bounded(service: Service) -> None:
    """More bytes than the pictures may have are not read."""
    service.replies = [Reply(200, b" " * 6_000_000)]
    with pytest.raises(ProviderError, match="more than") as caught:
        await ask(service, max_picture_mb=1)
    assert caught.value.code == "bad_output"


async def test_nothing_is_unpacked(service: Service) -> None:
    """A small answer may unpack to gigabytes; what says how to go on is its status."""
    bomb = gzip.compress(gzip.compress(b" " * 100_000))
    service.replies = [Reply(200, bomb, {"Content-Encoding": "gzip, gzip"})]
    with pytest.raises(ProviderError, match="Content-Encoding") as caught:
        await ask(service)
    assert caught.value.code == "bad_output"
    assert service.seen[0].headers["accept-encoding"] == "identity"
    service.replies = [Reply(401, bomb, {"Content-Encoding": "gzip, gzip"})]
    with pytest.raises(ProviderError, match="401") as caught:
        await ask(service)
    assert caught.value.code == "provider_refused"


async def test_of_a_long_refusal_the_beginning_is_read(service: Service) -> None:
    """Its status says what it means."""
    service.replies = [Reply(403, b"x" * 4_000_000)]
    with pytest.raises(ProviderError, match="403") as caught:
        await ask(service, max_picture_mb=1)
    assert caught.value.code == "provider_refused"


async def test_a_worker_without_the_key_asks_nobody(service: Service) -> None:
    """And says which variable it lacks."""
    with pytest.raises(ProviderError, match="environment variable MISSING, which") as caught:
        await ask(service, api_key_env="MISSING")
    assert caught.value.code == "provider_refused"
    assert service.seen == []


async def test_no_more_is_asked_at_once_than_the_settings_say(service: Service) -> None:
    """The rest waits for its turn."""
    providers = Providers({})
    settings = provider(service, max_concurrency=2)
    service.pause_s = 0.02
    orders = [providers.render("far", settings, ORDER) for _ in range(6)]
    assert [len(files) for files in await asyncio.gather(*orders)] == [2] * 6
    await providers.close()
    assert service.most_at_once == 2
