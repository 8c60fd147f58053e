"""``POST /v1/images/edits``, and ``POST /v1/jobs`` with a picture: which pictures are taken, what becomes of them, what
is refused before it is stored.
"""

from __future__ import annotations

import base64
import io
import random
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import msgspec
import pytest
from PIL import Image

from api.openai.pixels import PixelWork
from api.waiting import wait_for_end
from jobstore.inputs import get_input, input_key
from jobstore.job import Job
from jobstore.pictures import decode
from tests.api.openai.painter import Painter
from tests.api.site import Site

PATH = "/v1/images/edits"


def file(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """A picture's file."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def halves(mode: str = "RGB", size: tuple[int, int] = (128, 128)) -> Image.Image:
    """Red on the left, blue on the right; transparent on the left where there is alpha."""
    image = Image.new(mode, size, (0, 0, 255, 255)[: len(mode)])
    image.paste((255, 0, 0, 0)[: len(mode)], (0, 0, size[0] // 2, size[1]))
    return image


def data_url(data: bytes, kind: str = "png") -> str:
    """The file as JSON carries it."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def edit(client: httpx.Client, image: bytes, mask: bytes | None = None, **fields: Any) -> httpx.Response:
    """The answer to a form."""
    files = {"image": ("picture", image, "image/png")} | ({"mask": ("mask", mask, "image/png")} if mask else {})
    return client.post(PATH, files=files, data={"prompt": "a green star"} | fields)


def taken(studio: Site, painter: Painter, response: httpx.Response) -> tuple[Job, Image.Image, Image.Image | None]:
    """The job as the worker had it, and its inputs as they lie in the outputs."""
    assert response.status_code == 200, response.text
    job_id = response.json()["safelight"]["job_id"]
    job = next(job for job in painter.jobs if str(job.id) == job_id)
    pictures = [decode(studio.call(get_input(studio.outputs, job.id, digest))) for digest in job.request.inputs]
    return job, pictures[0], pictures[1] if job.request.mask else None


def pixel(image: Image.Image, x: int, y: int) -> object:
    """What is there."""
    return image.getpixel((x, y))


def test_a_picture_is_what_the_render_begins_from(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """In the size that is rendered, with the usual strength, which the job tells."""
    response = edit(client, file(halves(size=(300, 300))), cache="off", seed="5", n="2", guidance="2.5")
    job, image, mask = taken(studio, painter, response)
    assert (image.size, image.mode, mask) == ((128, 128), "RGB", None)
    assert (pixel(image, 20, 64), pixel(image, 110, 64)) == ((255, 0, 0), (0, 0, 255))
    assert (job.request.strength, job.request.seed, job.request.n, job.request.guidance) == (0.8, 5, 2, 2.5)
    assert job.batch_key.endswith(":image")
    told = client.get(f"/v1/jobs/{job.id}").json()["request"]
    assert (told["image"], told["strength"], told["mask"]) == (job.request.image, 0.8, None)
    assert len(response.json()["data"]) == 2


def test_a_mask_is_white_where_it_was_transparent(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """And what is masked gives way altogether, if nobody says otherwise."""
    job, image, mask = taken(studio, painter, edit(client, file(halves()), file(halves("RGBA")), strength="0.9"))
    assert mask is not None
    assert (pixel(mask, 10, 64), pixel(mask, 120, 64)) == (255, 0)
    assert (job.request.strength, job.batch_key.endswith(":inpaint")) == (0.9, True)
    job, image, mask = taken(studio, painter, edit(client, file(halves("RGBA"))))  # its own alpha
    assert mask is not None
    assert (image.mode, pixel(mask, 10, 64), pixel(mask, 120, 64)) == ("RGB", 255, 0)
    assert job.request.strength == 1.0


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
@pytest.mark.parametrize("shape", ["images", "image", "bare"])
def test_json_carries_pictures_as_data_urls(
    client: httpx.Client, studio: Site, painter: Painter, kind: str, shape: str
) -> None:
    """In OpenAI's list, or alone; or as base64."""
    data = file(halves(), kind)
    bodies: dict[str, dict[str, Any]] = {
        "images": {"images": [{"image_url": data_url(data, kind)}]},
        "image": {"image": data_url(data, kind)},
        "bare": {"image": base64.b64encode(data).decode()},
    }
    response = client.post(PATH, json={"prompt": "a star", "steps": 4, "strength": 0.5, **bodies[shape]})
    job, image, _ = taken(studio, painter, response)
    red, _, blue = image.convert("RGB").getpixel((20, 64))  # type: ignore[misc]
    assert red > 200 > 60 > blue
    assert job.request.steps == 4


def test_a_telephones_picture_is_turned_upright(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """Its EXIF says that what lies left is the top."""
    exif = Image.Exif()
    exif[0x0112] = 6  # EXIF 2.32, 4.6.4: the zeroth row is the right-hand side
    data = file(halves(size=(128, 64)), "JPEG", exif=exif, quality=95)
    _, image, _ = taken(studio, painter, edit(client, data, size="64x64"))
    top, bottom = image.getpixel((32, 5)), image.getpixel((32, 58))
    assert top[0] > 200 and bottom[2] > 200  # type: ignore[index]


@pytest.mark.parametrize(("size", "chosen"), [((400, 200), "128x64"), ((200, 190), "128x128"), ((90, 400), "128x128")])
def test_without_a_size_the_nearest_shape_is_rendered(client: httpx.Client, size: tuple[int, int], chosen: str) -> None:
    """Of those that the model has."""
    assert edit(client, file(halves(size=size))).json()["size"] == chosen
    assert edit(client, file(halves(size=size)), size="auto").json()["size"] == chosen


def test_picture_mask_and_strength_are_in_the_fingerprint(client: httpx.Client) -> None:
    """The same ones are answered from the cache; any other is rendered."""

    def outcome(image: bytes, mask: bytes | None = None, **fields: Any) -> str:
        return str(edit(client, image, mask, prompt="a blue ring", seed="8", **fields).json()["safelight"]["cache"])

    picture, other = file(halves()), file(Image.new("RGB", (128, 128), "white"))
    assert [outcome(picture), outcome(picture)] == ["miss", "hit"]
    assert outcome(file(halves(), "WEBP", lossless=True)) == "hit"  # the pixels count, not their file
    assert [outcome(other), outcome(picture, strength="0.5"), outcome(picture, file(halves("RGBA")))] == ["miss"] * 3


def test_a_repeat_leaves_no_second_copy_behind(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """The pictures of a submit that made no job are deleted at once."""
    headers = {"Idempotency-Key": "edit-once"}
    files = {"image": ("picture", file(halves()), "image/png")}
    answers = [client.post(PATH, files=files, data={"prompt": "once"}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotency-replayed"] == "true"
    other = {"image": ("picture", file(Image.new("RGB", (9, 9))), "image/png")}
    assert client.post(PATH, files=other, data={"prompt": "once"}, headers=headers).status_code == 422
    job = next(job for job in painter.jobs if str(job.id) == answers[0].json()["safelight"]["job_id"])
    assert studio.call(studio.outputs.exists(input_key(job.id, str(job.request.image))))
    owners = studio.call(_owners(studio))
    assert owners <= {str(job.id) for job in painter.jobs} | cached(client)


def cached(client: httpx.Client) -> set[str]:
    """Jobs that nobody had to paint."""
    jobs = client.get("/v1/jobs", params={"limit": 200}).json()["data"]
    return {job["id"] for job in jobs if job["cache"] == "hit"}


async def _owners(studio: Site) -> set[str]:
    return {key.split("/")[1] async for keys in studio.outputs.walk("inputs", -60) for key in keys}


@cache
def bomb() -> bytes:
    """A file of some kilobytes that unpacks to a gigapixel."""
    return file(Image.new("1", (32_000, 32_000)), "PNG")


@pytest.mark.parametrize(
    ("files", "fields", "param", "words"),
    [
        ({}, {}, "image", "missing"),
        ({"image": b"nonsense"}, {}, "image", "not a PNG, JPEG or WebP"),
        ({"image": file(halves(), "GIF")}, {}, "image", "not a PNG, JPEG or WebP"),
        ({"image": file(halves())[:200]}, {}, "image", "broken"),
        ({"image": bomb()}, {}, "image", "pixels"),
        ({"image": file(halves()), "mask": file(halves("RGBA", (64, 64)))}, {}, "mask", "as large"),
        ({"image": file(halves()), "mask": file(halves())}, {}, "mask", "transparent"),
        ({"image": file(halves())}, {"model": "unknown"}, "model", "can't edit"),
        ({"image": file(halves())}, {"model": "none"}, "model", "no model 'none'"),
        ({"image": file(halves())}, {"strength": "0"}, "strength", "more than 0"),
        ({"image": file(halves())}, {"strength": "0.1"}, "strength", "at least one"),
        ({"image": file(halves())}, {"size": "512x512"}, "size", "one of"),
        ({"image": file(halves())}, {"n": "many"}, "n", "n"),
        ({"image": file(halves())}, {"prompt": ""}, "prompt", "empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_named_and_nothing_is_stored(
    client: httpx.Client, studio: Site, files: dict[str, bytes], fields: dict[str, str], param: str, words: str
) -> None:
    """In OpenAI's form."""
    before = (client.get("/v1/jobs").json()["data"][:1], studio.call(_owners(studio)))
    parts = {name: (name, data, "image/png") for name, data in files.items()} or {"other": ("x", b"", "text/plain")}
    response = client.post(PATH, files=parts, data={"prompt": "a star"} | fields)
    assert response.status_code in (400, 404), response.text
    error = response.json()["error"]
    assert (set(error), error["param"]) == ({"message", "type", "param", "code"}, param)
    assert words in error["message"]
    assert (client.get("/v1/jobs").json()["data"][:1], studio.call(_owners(studio))) == before


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("https://example.org/a.png", "not fetched"),
        ("file:///etc/passwd", "not fetched"),
        ("data:text/html;base64,AAAA", "image/png"),
        ("data:image/png;base64,@@@", "base64"),
        ({"file_id": "file-1"}, "not kept"),
        (7, "data: URL"),
    ],
)
def test_nothing_is_fetched_from_elsewhere(client: httpx.Client, value: object, words: str) -> None:
    """What isn't in the body isn't taken."""
    shape = value if isinstance(value, dict) else {"image_url": value}
    response = client.post(PATH, json={"prompt": "a star", "images": [shape]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "images")
    assert words in response.json()["error"]["message"]


def test_several_pictures_are_refused_with_words(client: httpx.Client) -> None:
    """The pipelines begin from one."""
    files = [("image[]", ("a", file(halves()), "image/png")), ("image[]", ("b", file(halves()), "image/png"))]
    response = client.post(PATH, files=files, data={"prompt": "both"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "image")
    assert "one alone" in response.json()["error"]["message"]
    for name in ("images", "image"):
        listed = client.post(PATH, json={"prompt": "both", name: [data_url(file(halves()))] * 2})
        assert (listed.status_code, listed.json()["error"]["param"]) == (400, name)
        drawn = client.post(PATH, json={"prompt": "both", name: [data_url(file(halves()))], "markup": "AAAA"})
        assert (drawn.status_code, drawn.json()["error"]["param"]) == (400, "markup")
    alone = client.post(PATH, files=files[:1], data={"prompt": "one", "dimensions[team]": "web", "adapters[]": "ink"})
    assert alone.status_code == 200
    job = client.get(f"/v1/jobs/{alone.json()['safelight']['job_id']}").json()
    assert (job["dimensions"], list(job["request"]["adapters"])) == ({"team": "web"}, ["ink"])


def test_bodies_are_bounded_and_of_two_kinds(client: httpx.Client) -> None:
    """Larger than a submit's, and no larger than the settings say."""
    assert edit(client, bytes(400_000)).status_code == 413
    assert client.post(PATH, content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    broken = client.post(PATH, content=b"--x\r\n", headers={"content-type": "multipart/form-data; boundary=x"})
    assert broken.status_code == 400
    assert set(broken.json()["error"]) == {"message", "type", "param", "code"}


@pytest.fixture
def crowded(studio: Site) -> Iterator[PixelWork]:
    """No room for a further upload or answer."""
    pixels = studio.services.pixels
    rooms = (pixels.bodies, pixels.small_bodies, pixels.answers)
    assert not any(room.used for room in rooms)
    for room in rooms:
        room.used, room._wait_s = room._most, 0.01
    yield pixels
    for room in rooms:
        room.used, room._wait_s = room.used - room._most, 10.0
    assert not any(room.used for room in rooms)


def test_uploads_and_answers_take_turns_for_memory(client: httpx.Client, crowded: PixelWork) -> None:
    """Whoever finds no room in time is told when to come again, and makes no job by an edit."""
    edit = client.post(PATH, files={"image": ("picture", file(halves()), "image/png")}, data={"prompt": "a star"})
    jobs = [
        client.post("/v1/jobs", json={"prompt": "a star", "image": data_url(image)})
        for image in (grain(), file(halves()))
    ]
    answer = client.post("/v1/images/generations", json={"prompt": "a star"})
    for refused in (edit, *jobs, answer):
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["code"] == "unavailable"


@pytest.mark.parametrize("bound", ["_READ_S", "_SILENT_S"])
def test_an_upload_that_does_not_come_is_given_up(
    client: httpx.Client, studio: Site, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """It would hold its room for ever: what goes silent sooner than what is slow."""
    monkeypatch.setattr(f"api.beginning.{bound}", 0.05)

    def body() -> Iterator[bytes]:
        yield b"{"
        time.sleep(0.5)

    slow = client.post(PATH, content=body(), headers={"content-type": "application/json"})
    assert (slow.status_code, slow.json()["error"]["code"]) == (408, "upload_too_slow")
    assert studio.services.pixels.bodies.used == 0


@pytest.mark.parametrize("cancels", [False, True])
def test_pictures_have_room_until_they_are_stored(
    client: httpx.Client, studio: Site, monkeypatch: pytest.MonkeyPatch, cancels: bool
) -> None:
    """However long the outputs take; what waits for a render then holds none."""
    room, put = studio.services.pixels.prepared, studio.outputs.put
    held: list[tuple[int, int]] = []

    async def noted(key: str, data: bytes, media_type: str) -> None:
        if key.startswith("inputs/"):
            held.append((room.used, len(data)))
        await put(key, data, media_type)

    async def waited(*args: Any) -> Job:
        held.append((room.used, 0))
        return await wait_for_end(*args)

    monkeypatch.setattr(studio.outputs, "put", noted)
    monkeypatch.setattr("api.openai.replying.wait_for_end", waited)
    fields = {"prompt": "kept a while", "cancel_on_disconnect": str(cancels)}
    assert client.post(PATH, files={"image": ("a", file(halves()), "image/png")}, data=fields).status_code == 200
    submitted(client, prompt="kept a while, too", image=data_url(file(halves())))
    assert len(held) == 3
    assert all(used == size for used, size in held)
    room.used, room._wait_s = room._most, 0.01
    refused = client.post("/v1/jobs", json={"prompt": "a star", "image": data_url(file(halves()))})
    room.used, room._wait_s = room.used - room._most, 10.0
    assert (refused.status_code, room.used) == (503, 0)


def grain(side: int = 160) -> bytes:
    """A picture's file that is larger than other bodies may be."""
    return file(Image.frombytes("RGB", (side, side), random.Random(side).randbytes(3 * side * side)))


def submitted(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    """The job of a submit, once it has ended."""
    response = client.post("/v1/jobs", json={"prompt": "a green star"} | fields, headers={"Prefer": "wait=10"})
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_a_job_begins_from_a_picture_as_an_edit_does(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """With the same size, strength and fingerprint: what the one has rendered, the other finds in the cache."""
    picture, mask = file(halves(size=(300, 150))), file(halves("RGBA", (300, 150)))
    for hole in (None, mask):
        first = edit(client, picture, hole, prompt="a job like this", seed="77").json()
        fields = {"image": data_url(picture)} | ({} if hole is None else {"mask": base64.b64encode(hole).decode()})
        job = submitted(client, prompt="a job like this", seed=77, **fields)
        assert (job["cache"], job["request"]["size"]) == ("hit", "128x64")
        told = client.get(f"/v1/jobs/{first['safelight']['job_id']}").json()["request"]
        assert {name: job["request"][name] for name in ("image", "mask", "strength")} == {
            name: told[name] for name in ("image", "mask", "strength")
        }
    job = submitted(client, image=data_url(grain()), strength=0.5, size="64x64", cache="off", n=2)
    assert len(job["images"]) == 2
    own = next(known for known in painter.jobs if str(known.id) == job["id"])
    assert decode(studio.call(get_input(studio.outputs, own.id, str(own.request.image)))).size == (64, 64)
    assert (own.request.strength, own.request.mask, own.batch_key.endswith(":image")) == (0.5, None, True)


NOT_BEGUN: list[tuple[dict[str, Any], str, str]] = [
    ({"image": "nonsense!"}, "image", "not base64"),
    ({"image": data_url(b"nonsense")}, "image", "not a PNG, JPEG or WebP"),
    ({"image": "https://example.org/a.png"}, "image", "not fetched"),
    ({"image": 7}, "image", "data: URL"),
    ({"image": ""}, "image", "data: URL"),
    ({"image": data_url(bomb())}, "image", "pixels"),
    ({"image": data_url(file(halves())), "model": "unknown"}, "image", "begins from no picture"),
    ({"image": data_url(file(halves())), "model": "none"}, "model", "no model"),
    ({"image": data_url(file(halves())), "mask": data_url(file(halves("RGBA", (9, 9))))}, "mask", "as large"),
    ({"image": data_url(file(halves())), "mask": "data:text/html;base64,AAAA"}, "mask", "image/png"),
    ({"image": data_url(file(halves())), "strength": 0.1}, "strength", "at least one"),
    ({"image": data_url(file(halves())), "strength": 0}, "strength", "more than 0"),
    ({"image": data_url(file(halves())), "size": "512x512"}, "size", "one of"),
    ({"mask": data_url(file(halves("RGBA")))}, "mask", "goes with an image"),
    ({"strength": 0.5}, "strength", "goes with an image"),
]


def test_what_a_job_cannot_begin_from_is_named_and_nothing_is_stored(client: httpx.Client, studio: Site) -> None:
    """No job, and no picture in the outputs."""
    before = (client.get("/v1/jobs").json()["data"][:1], studio.call(_owners(studio)))
    for fields, field, words in NOT_BEGUN:
        response = client.post("/v1/jobs", json={"prompt": "a star"} | fields)
        assert (response.status_code, response.json()["field"]) == (404 if field == "model" else 400, field), fields
        assert words in response.json()["detail"]
    assert (client.get("/v1/jobs").json()["data"][:1], studio.call(_owners(studio))) == before


def test_only_bodies_with_pictures_may_be_large(client: httpx.Client) -> None:
    """As large as an edit's, and they say so beforehand."""
    body = msgspec.json.encode({"prompt": "large", "image": data_url(grain())})
    assert 50_000 < len(body) < 300_000
    kind = {"content-type": "application/json"}
    too_large = msgspec.json.encode({"prompt": "large", "image": data_url(grain(400))})
    unannounced = (body[at : at + 9000] for at in range(0, len(body), 9000))
    for refused in (too_large, unannounced, msgspec.json.encode({"prompt": "x" * 60_000})):
        response = client.post("/v1/jobs", content=refused, headers=kind)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
    assert client.post("/v1/jobs", content=body, headers=kind).status_code == 202


def test_a_repeated_job_is_known_by_its_pictures(client: httpx.Client, studio: Site) -> None:
    """The same file finds the job, whatever it is written in; another one is another request. No copy is left."""
    picture = file(halves())
    headers = {"Idempotency-Key": "begun-once"}

    def tried(image: str) -> httpx.Response:
        return client.post("/v1/jobs", json={"prompt": "once more", "image": image}, headers=headers)

    first = tried(data_url(picture))
    before = studio.call(_owners(studio))
    again = tried(base64.b64encode(picture).decode())
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (first.json()["id"], "true")
    assert tried(data_url(file(halves(size=(9, 9))))).status_code == 422
    assert studio.call(_owners(studio)) <= before
