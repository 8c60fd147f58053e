"""Providers that the litellm library reaches, with the library itself and a service of ours."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from actors.providers.orders import ProviderError
from actors.providers.registry import Providers
from tests.actors.providers.service import Reply, Service, picture, provider, refused
from tests.actors.providers.test_openai_images import ORDER, SECRET


async def ask(service: Service, **settings: Any) -> tuple[bytes, ...]:
    """The pictures of a provider made for one order."""
    providers = Providers({"KEY": SECRET})
    wanted = {"kind": "litellm", "model": "openai/dall-e-2", "api_key_env": "KEY", **settings}
    try:
        return await providers.render("far", provider(service, **wanted), ORDER)
    finally:
        await providers.close()


async def test_the_library_asks_for_the_same(service: Service) -> None:
    """Prompt, size and number reach the provider; its pictures come back."""
    pytest.importorskip("litellm")
    assert await ask(service) == (picture(64, 96), picture(64, 96))
    [seen] = service.seen
    assert seen.path == "/v1/images/generations"
    assert {name: seen.body[name] for name in ("model", "prompt", "n", "size")} == {
        "model": "dall-e-2", "prompt": ORDER.prompt, "n": 2, "size": "64x96",
    }  # fmt: skip
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert seen.headers["idempotency-key"] == '"job-1"'


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(401, refused("invalid_api_key", f"wrong key {SECRET}")), "provider_refused"),
        (Reply(429, refused("rate_limit_exceeded"), {"retry-after-ms": "1"}), "provider_busy"),
        (Reply(500, refused("oops"), {"retry-after-ms": "1"}), "provider_busy"),
        (Reply(503, refused("oops"), {"retry-after-ms": "1"}), "provider_unreachable"),
        (
            Reply(400, refused("content_policy_violation", "Your request was rejected by our safety system")),
            "content_filtered",
        ),
    ],
)
async def test_its_errors_mean_the_same(service: Service, reply: Reply, code: str) -> None:
    """What the library says is not told, as it may hold the key."""
    pytest.importorskip("litellm")
    service.replies = [reply] * 4
    with pytest.raises(ProviderError) as caught:
        await ask(service)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)
    assert len(set(service.keys)) == 1  # the library may ask again, under the same key


async def test_without_the_library_the_error_says_what_to_install(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the job goes to its next route."""
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ProviderError, match=r"safelight\[litellm\]") as caught:
        await ask(service)
    assert caught.value.code == "provider_refused"
