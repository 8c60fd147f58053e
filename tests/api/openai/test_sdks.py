"""The clients that people have, with no more changed than the base URL."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

from tests.api.openai.node_clients import speak
from tests.api.openai.painter import Painter, until
from tests.api.openai.test_edits import file, halves
from tests.api.site import Site, image_of

PICTURE = file(halves())
MASK = file(halves("RGBA"))


@pytest.fixture
def sdk(studio: Site, painter: Painter) -> Iterator[openai.OpenAI]:
    """OpenAI's own client."""
    with openai.OpenAI(base_url=f"{studio.url}/v1", api_key="none") as sdk:
        yield sdk


@pytest.fixture
async def later(studio: Site, painter: Painter) -> AsyncIterator[openai.AsyncOpenAI]:
    """The same for asyncio."""
    async with openai.AsyncOpenAI(base_url=f"{studio.url}/v1", api_key="none") as sdk:
        yield sdk


def decoded(text: str | None) -> bytes:
    """The file of strict base64."""
    return base64.b64decode(text or "", validate=True)


def test_generate(sdk: openai.OpenAI) -> None:
    """Pictures in base64, with our own fields in the extra body."""
    answer = sdk.images.generate(
        model="gpt-image-1", prompt="a red circle", n=2, size="auto", quality="low", output_format="webp",
        output_compression=80, user="somebody", extra_body={"seed": 5, "dimensions": {"team": "web"}},
    )  # fmt: skip
    assert answer.data is not None and answer.usage is not None
    assert [image_of(decoded(image.b64_json)).format for image in answer.data] == ["WEBP"] * 2
    assert (answer.size, answer.quality, answer.output_format) == ("128x128", "low", "webp")
    assert all(image.url is None for image in answer.data)
    assert answer.model_extra is not None
    assert answer.model_extra["safelight"]["seeds"] == [5, 6]


def test_a_retry_of_what_a_timeout_canceled_gets_its_picture(
    sdk: openai.OpenAI, studio: Site, painter: Painter
) -> None:
    """The client hangs up at its own limit, which cancels the job, and tries again by itself."""
    with painter.resting(), ThreadPoolExecutor(1) as pool:
        hasty = sdk.with_options(timeout=1.0, max_retries=2)
        extra = {"cancel_on_disconnect": True, "seed": 5}
        answer = pool.submit(hasty.images.generate, model="scenes", prompt="too slow", extra_body=extra)
        until(lambda: any(job["state"] == "canceled" for job in jobs_of(studio, "too slow")))
        painter.resume()
        assert answer.result().data
    assert [job["state"] for job in jobs_of(studio, "too slow")][:1] == ["succeeded"]


def jobs_of(studio: Site, prompt: str) -> list[dict[str, Any]]:
    """The latest jobs of a prompt."""
    listed = httpx.get(f"{studio.url}/v1/jobs").json()["data"]
    return [job for job in listed if job["request"]["prompt"] == prompt]


def test_a_url_is_fetched_bare(sdk: openai.OpenAI) -> None:
    """By a client that sends no key."""
    answer = sdk.images.generate(model="dall-e-3", prompt="a red circle", response_format="url", style="vivid")
    assert answer.data is not None
    url, data = str(answer.data[0].url), answer.data[0].b64_json
    assert data is None
    assert image_of(httpx.get(url).raise_for_status().content).size == (128, 128)


def test_stream(sdk: openai.OpenAI) -> None:
    """Typed events, the last of which is the picture."""
    events = list(sdk.images.generate(prompt="a blue star", stream=True, partial_images=2))
    assert {event.type for event in events[:-1]} <= {"image_generation.partial_image"}
    assert events[-1].type == "image_generation.completed"
    assert image_of(decoded(events[-1].b64_json)).size == (128, 128)


def test_edit(sdk: openai.OpenAI) -> None:
    """A form with one picture, or a list of one, and a mask."""
    for picture in (PICTURE, [("a.png", PICTURE, "image/png")]):
        answer: Any = sdk.images.edit(image=picture, mask=MASK, prompt="a star", model="gpt-image-1", n=1)
        assert image_of(decoded(answer.data[0].b64_json)).size == (128, 128)
    events: list[Any] = list(sdk.images.edit(image=PICTURE, prompt="a star", stream=True, partial_images=1))
    assert events[-1].type == "image_edit.completed"


def test_an_edit_of_a_list_of_pictures(sdk: openai.OpenAI, painter: Painter) -> None:
    """One in it makes as many pictures as are asked for; of several it is said that the model begins from one."""
    answer: Any = sdk.images.edit(image=[PICTURE], prompt="a star of a list", n=3)
    assert len(answer.data) == 3
    before = len(painter.jobs)
    for several in ([PICTURE, PICTURE], [("a.png", PICTURE, "image/png")] * 16):
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.images.edit(image=several, prompt="a star")
        assert (refused.value.param, refused.value.code) == ("image", "invalid_request")
        assert f"image has {len(several)} pictures" in refused.value.message
    with pytest.raises(openai.BadRequestError) as drawn:
        sdk.images.edit(image=PICTURE, markup=MASK, prompt="a star")
    assert drawn.value.param == "markup"
    assert len(painter.jobs) == before


def test_models(sdk: openai.OpenAI, studio: Site) -> None:
    """Listed, and one by one."""
    assert {model.id for model in sdk.models.list()} == set(studio.settings.models)
    assert sdk.models.retrieve("gpt-image-1").id == "gpt-image-1"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-5")


def test_errors(sdk: openai.OpenAI, painter: Painter) -> None:
    """Of the right class, with all members; a failed render is not tried again."""
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.images.generate(prompt="x", size="3x3")
    assert (refused.value.param, refused.value.code, refused.value.type) == (
        "size", "invalid_request", "invalid_request_error",
    )  # fmt: skip
    assert refused.value.request_id
    before = len(painter.jobs)
    with pytest.raises(openai.InternalServerError) as failed:
        sdk.images.generate(prompt="fail for an sdk")
    assert failed.value.code == "bad_output"
    with pytest.raises(openai.APIError, match="it went wrong"):
        list(sdk.images.generate(prompt="fail in a stream", stream=True))
    assert len(painter.jobs) - before == 2


def test_a_retry_of_the_sdk_joins_its_first_try(studio: Site, painter: Painter) -> None:
    """The first answer is lost on the way: one render all the same."""
    lost: list[httpx2.Response] = []

    class Lossy(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            if not lost:
                lost.append(response)
                raise httpx2.ReadError("the connection broke", request=request)
            return response

    before = len(painter.jobs)
    with openai.OpenAI(
        base_url=f"{studio.url}/v1", api_key="none", http_client=httpx2.Client(transport=Lossy())
    ) as sdk:
        answer = sdk.images.generate(prompt="a lost answer", extra_body={"cache": "off"})
    assert lost and answer.data
    assert len(painter.jobs) - before == 1


async def test_asyncio(later: openai.AsyncOpenAI) -> None:
    """All of it, awaited."""
    answer = await later.images.generate(prompt="a red circle")
    assert answer.data and image_of(decoded(answer.data[0].b64_json)).format == "PNG"
    kinds = [event.type async for event in await later.images.generate(prompt="a star", stream=True)]
    assert kinds[-1] == "image_generation.completed"
    edited = await later.images.edit(image=PICTURE, prompt="a star")
    assert edited.data and decoded(edited.data[0].b64_json)


def test_litellm(studio: Site, painter: Painter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through its own OpenAI provider, as its proxy would."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a newer one
    litellm = pytest.importorskip("litellm")
    answer = litellm.image_generation(
        model="openai/gpt-image-1",
        prompt="a red circle",
        n=1,
        size="64x64",
        api_base=f"{studio.url}/v1",
        api_key="none",
    )
    assert image_of(decoded(answer.data[0].b64_json)).size == (64, 64)
    with pytest.raises(litellm.BadRequestError, match="size must be"):
        litellm.image_generation(
            model="openai/gpt-image-1", prompt="x", size="3x3", api_base=f"{studio.url}/v1", api_key="none"
        )


def test_the_clients_of_node(studio: Site, painter: Painter) -> None:
    """OpenAI's package, and the image models of Vercel's AI SDK."""
    told = json.loads(speak("speak.mjs", studio.url, base64.b64encode(PICTURE).decode()))
    assert told["generate"] == {"kinds": ["PNG", "PNG"], "size": "64x64", "usage": 0}
    assert told["url"] == {"status": 200, "type": "image/png"}
    assert told["stream"][-1] == "image_generation.completed"
    assert set(told["stream"][:-1]) == {"image_generation.partial_image"}
    assert told["edit"] == told["vercelEdit"] == "PNG"
    assert (set(told["models"]), told["model"]) == (set(studio.settings.models), "dall-e-3")
    assert told["failure"] == {"status": 500, "code": "bad_output", "type": "server_error"}
    assert "it went wrong" in told["streamFailure"]
    assert told["refused"] == {"status": 400, "param": "size"}
    assert told["vercel"] == [["PNG", "image/png"]] * 2
    assert "none" not in told


def test_the_documented_way_to_fetch_pictures_later(studio: Site, painter: Painter) -> None:
    """The code of docs/async.md, as it stands but for the address."""
    page = (Path(__file__).resolve().parents[3] / "docs/async.md").read_text()
    code = page[page.index("```python\n") + 10 :].partition("```")[0]
    assert "http://127.0.0.1:8080" in code
    names: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:8080", studio.url).replace("sleep(1)", "sleep(0.1)"), names)
    assert image_of(decoded(names["answer"].data[0].b64_json)).format == "PNG"
