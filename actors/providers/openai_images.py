"""A provider that speaks OpenAI's images API (``POST /images/generations``), another Safelight among them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import Mapping
from typing import Any

from actors.providers.http_client import Answer, HttpClient
from actors.providers.orders import (
    Order,
    ProviderOutputError,
    ProviderRefusedError,
    ProviderUnreachableError,
)
from actors.providers.polling import Poll, poll_of, poll_pause
from actors.providers.refusals import final, refusal
from safelight.config import ProviderSettings

_WAIT_S = 30  # how long a provider that knows ``Prefer`` holds its answer back; proxies cut off after 60
_MEGABYTE = 1_000_000
_REST_BYTES = 1_000_000  # of an answer, beside its pictures
_SILENCE_S = 30.0  # without an answer to a poll, after which the provider counts as gone
_AWAY = (429, 502, 503, 504)
# These always answer in base64, and refuse to be told so.
_ALWAYS_BASE64 = ("gpt-image", "chatgpt-image")


class OpenAIImages:
    """A ``Provider``."""

    def __init__(self, name: str, settings: ProviderSettings, key: str | None, headers: Mapping[str, str]) -> None:
        """``name`` is the model's own; ``key`` and ``headers`` are secret."""
        self._name = name
        self._settings = settings
        self._url = f"{settings.base_url.rstrip('/')}/images/generations"
        self._secrets = tuple(secret for secret in (key, *headers.values()) if secret)
        own = {"authorization": f"Bearer {key}"} if key else {}
        self._http = HttpClient(name, own | dict(headers), settings.max_concurrency, settings.timeout_s)

    async def render(self, order: Order) -> tuple[bytes, ...]:
        """Ask, and ask again for what takes longer. Raises ProviderError's kinds."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await self._answer(order)
                # Hundreds of megabytes take a while, in which leases are to beat on.
                return await asyncio.to_thread(self._pictures, order, answer)
        except TimeoutError as error:
            words = f"the provider of {self._name} gave no pictures within {self._settings.timeout_s:g} s"
            raise ProviderUnreachableError(words) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def _answer(self, order: Order) -> Answer:
        most = order.n * self._settings.max_picture_mb * _MEGABYTE * 4 // 3 + _REST_BYTES
        headers = {"Idempotency-Key": f'"{order.key}"', "Prefer": f"respond-async, wait={_WAIT_S}"}
        answer = await self._http.send("POST", self._url, most, json=self._body(order), headers=headers)
        promised = answer.status == 202
        if promised:
            answer = await self._polled(poll_of(self._name, self._url, answer.headers), answer, most)
        if answer.status != 200:
            raise refusal(self._name, answer.status, answer.headers, answer.body, self._secrets, promised=promised)
        return answer

    async def _polled(self, poll: Poll, answer: Answer, most: int) -> Answer:
        """The first answer that isn't 202. Whoever starts anew, or stands behind a proxy that does, is waited for."""
        heard_at, polls, pause_s = time.monotonic(), 0, poll_pause(answer.headers, 0)
        while answer.status == 202:
            await asyncio.sleep(pause_s)
            silent = time.monotonic() - heard_at > _SILENCE_S
            polls += 1
            try:
                found = await self._http.send("GET", poll.url, most, headers=poll.headers)
            except ProviderUnreachableError:
                if silent:
                    raise
                pause_s = poll_pause({}, 0)
                continue
            if found.status in _AWAY and not silent and not final(found.headers):
                pause_s = poll_pause(found.headers, 0)
                continue
            answer, heard_at, pause_s = found, time.monotonic(), poll_pause(found.headers, polls)
        return answer

    def _body(self, order: Order) -> dict[str, Any]:
        model = self._settings.model
        body: dict[str, Any] = {
            "model": model,
            "prompt": order.prompt,
            "n": order.n,
            "size": f"{order.width}x{order.height}",
        }
        if not model.startswith(_ALWAYS_BASE64):
            body["response_format"] = "b64_json"
        if self._settings.extra:
            body |= {"seed": order.seed, "steps": order.steps}
            optional = {"guidance": order.guidance, "negative_prompt": order.negative_prompt}
            body |= {name: value for name, value in optional.items() if value is not None}
        return body

    def _pictures(self, order: Order, answer: Answer) -> tuple[bytes, ...]:
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise ProviderOutputError(f"the provider of {self._name} answered with what is no JSON") from error
        return pictures_of(found, order, self._name)


def pictures_of(found: Any, order: Order, name: str) -> tuple[bytes, ...]:
    """The picture files of an answer in OpenAI's form. Raises ProviderOutputError, ProviderRefusedError."""
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, list) or len(data) < order.n:
        count = len(data) if isinstance(data, list) else 0
        raise ProviderOutputError(f"the provider of {name} gave {count} pictures of {order.n}")
    return tuple(_decoded(item, name) for item in data[: order.n])


def _decoded(item: Any, name: str) -> bytes:
    text = item.get("b64_json") if isinstance(item, dict) else None
    if isinstance(text, str) and text:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProviderOutputError(f"the provider of {name} gave a picture that is no base64") from error
    if isinstance(item, dict) and item.get("url"):
        # An address that somebody else chose is not fetched from inside this network.
        raise ProviderRefusedError(f"the provider of {name} answers with links, and only b64_json is taken")
    raise ProviderOutputError(f"the provider of {name} gave an entry without a picture")
