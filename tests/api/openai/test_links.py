"""Links to pictures: they open without a key, for a while, and no other does."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import httpx
import msgspec
import pytest

from api.openai.links import Link, LinkSigner
from safelight.config import Settings
from tests.api.openai.painter import until
from tests.api.site import Site, image_of, with_server

PATH = "/v1/images/generations"
JOB = UUID("01920000-0000-7000-8000-000000000000")


def link_to(client: httpx.Client, **fields: object) -> str:
    """The url of a fresh picture."""
    response = client.post(PATH, json={"prompt": "a link", "response_format": "url", **fields})
    (image,) = response.json()["data"]
    assert list(image) == ["url"]
    return str(image["url"])


def test_a_link_is_absolute_and_opens_bare(client: httpx.Client, studio: Site) -> None:
    """By the host that the client knows, for whoever has it, on pages of other sites too."""
    url = link_to(client)
    assert url.startswith(studio.url)
    answer = httpx.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert image_of(answer.content).size == (128, 128)


def test_a_link_gives_the_format_and_quality_that_were_asked_for(client: httpx.Client) -> None:
    """Turned into it when it is fetched."""
    sizes = []
    for compression in (1, 100):
        answer = httpx.get(link_to(client, seed=4, output_format="jpeg", output_compression=compression))
        assert answer.headers["content-type"] == "image/jpeg"
        assert image_of(answer.content).format == "JPEG"
        sizes.append(len(answer.content))
    assert sizes[0] < sizes[1]


def test_a_client_of_a_link_that_hangs_up_leaves_no_work(client: httpx.Client, studio: Site) -> None:
    """What is asked for behind links waits apart, and is dropped with who asked."""
    url = link_to(client, seed=4, output_format="webp", output_compression=7)
    pixels, release = studio.services.pixels, threading.Event()
    pixels._linked.submit(release.wait)
    try:
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(url, timeout=0.3)
        until(lambda: pixels._links == 0)
        turned = {"prompt": "a link", "seed": 4, "output_format": "webp", "output_compression": 7}
        assert client.post(PATH, json=turned).status_code == 200
    finally:
        release.set()
    assert httpx.get(url).headers["content-type"] == "image/webp"


def test_models_named_after_dall_e_answer_with_links(client: httpx.Client) -> None:
    """Where nothing is asked for; their clients expect it."""
    answer = client.post(PATH, json={"prompt": "a link", "model": "dall-e-3"}).json()
    assert list(answer["data"][0]) == ["url"]
    asked = client.post(PATH, json={"prompt": "a link", "model": "dall-e-3", "response_format": "b64_json"}).json()
    assert list(asked["data"][0]) == ["b64_json"]


@pytest.mark.parametrize(
    "change",
    [
        {"signature": ["0" * 64]},
        {"signature": []},
        {"signature": ["é"]},
        {"expires": ["99999999999"]},
        {"expires": ["soon"]},
        {"expires": []},
        {"format": ["webp"]},
        {"compression": ["1"]},
    ],
)
def test_a_link_that_was_changed_does_not_open(client: httpx.Client, change: dict[str, list[str]]) -> None:
    """Whatever of it."""
    parts = urlsplit(link_to(client))
    query = {**parse_qs(parts.query), **change}
    answer = httpx.get(parts._replace(query=urlencode(query, doseq=True)).geturl())
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "invalid_link")
    other = httpx.get(parts._replace(path=parts.path[:-1] + "1").geturl())
    assert other.status_code == 403


def test_a_link_is_kept_no_longer_than_it_counts(client: httpx.Client, studio: Site) -> None:
    """By whoever keeps pictures for its owner: an hour at most."""
    path = urlsplit(link_to(client, seed=9)).path
    job_id = UUID(path.split("/")[-2])
    signer = studio.services.links
    for lifetime_s, most in ((30.0, 30), (100_000.0, 3600)):
        signer._lifetime_s, usual = lifetime_s, signer._lifetime_s
        answer = client.get(studio.call(signer.path(job_id, 0)))
        signer._lifetime_s = usual
        caching, _, age = answer.headers["cache-control"].rpartition("=")
        assert (answer.status_code, caching) == (200, "private, max-age")
        assert most - 20 <= int(age) <= most


async def test_a_link_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its time has passed; one of another secret never began."""
    settings = with_server(Settings(home=str(tmp_path)), url_lifetime_s=60.0)
    signer = LinkSigner(settings)
    signature = parse_qs(urlsplit(await signer.path(JOB, 0)).query)
    link = Link(job_id=JOB, index=0, expires=int(signature["expires"][0]))
    assert await signer.counts(link, signature["signature"][0])
    assert await LinkSigner(settings).counts(link, signature["signature"][0])  # another process, the same folder
    stranger = LinkSigner(with_server(settings, signing_secret="x" * 32))
    assert not await stranger.counts(link, signature["signature"][0])
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert not await signer.counts(link, signature["signature"][0])


async def test_the_secret_is_kept_for_the_owner_alone(tmp_path: Path) -> None:
    """In the data folder; one that can't be read serves this process alone."""
    await LinkSigner(Settings(home=str(tmp_path / "home"))).path(JOB, 0)
    file = tmp_path / "home" / "signing.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    file.write_bytes(b"cut")
    signer = LinkSigner(Settings(home=str(tmp_path / "home")))
    assert await signer.path(JOB, 0)
    assert await signer.path(JOB, 0) != await LinkSigner(Settings(home=str(tmp_path / "home"))).path(JOB, 0)


def test_a_public_url_goes_before_the_host(studio: Site, client: httpx.Client) -> None:
    """A proxy may pass on a host of its own."""
    services = studio.services
    changed = with_server(services.settings, public_url="https://images.example.org/sl/")
    own = services.settings
    object.__setattr__(services, "settings", changed)
    try:
        assert link_to(client).startswith("https://images.example.org/sl/v1/linked-images/")
    finally:
        object.__setattr__(services, "settings", own)
    assert msgspec.structs.asdict(changed.server)["public_url"]
