"""The pages of workers, and where the overview's problems lead."""

from __future__ import annotations

import httpx
from msgspec.structs import replace

from api.operating.problems import Standing, problems_of
from jobstore.ids import uuid7
from jobstore.operating.workers import WorkerStatus
from jobstore.protocol import Worker
from tests.api.admin.conftest import token
from tests.api.site import Site
from tests.api.test_operators import BUSY, NOW, QUIET, WORKER

WORKERS = "/admin/workers"
EVIL = "<script>alert(1)</script>"


def beaten(site: Site, host: str) -> WorkerStatus:
    """How a worker stands that has beaten once."""
    worker = Worker(id=uuid7(), host=host, pid=1, device=EVIL, lanes=("default",))
    site.call(site.services.store.beat(worker))
    return site.call(site.services.store.worker_status(worker.id))


def test_a_worker_drains_for_an_admin(site: Site, signed_in: httpx.Client) -> None:
    """With the token; resumed likewise, audited both; what a worker tells of itself is text."""
    worker = beaten(site, EVIL)
    path = f"{WORKERS}/{worker.id}"
    for page in (signed_in.get(WORKERS), signed_in.get(path)):
        assert "&lt;script&gt;" in page.text
        assert "<script>" not in page.text
    assert signed_in.post(f"{path}/drain").status_code == 403
    form = {"csrf": token(signed_in, path)}
    assert signed_in.post(f"{path}/drain", data=form).headers["location"] == path
    assert site.call(site.services.store.worker_status(worker.id)).state == "drained"
    signed_in.post(f"{path}/resume", data=form)
    assert site.call(site.services.store.worker_status(worker.id)).state == "serving"
    actions = [entry.action for entry in site.call(site.services.store.list_audit()).entries]
    assert actions[:2] == ["worker.resumed", "worker.drained"]


def test_who_may_only_look_drains_nothing(site: Site, observer: httpx.Client) -> None:
    """No button, and a 403."""
    worker = beaten(site, "gpu-1")
    form = {"csrf": token(observer, "/admin")}
    for path in (WORKERS, f"{WORKERS}/{worker.id}"):
        assert "<dialog" not in observer.get(path).text
    for act in ("drain", "resume"):
        assert observer.post(f"{WORKERS}/{worker.id}/{act}", data=form).status_code == 403
    assert site.call(site.services.store.worker_status(worker.id)).state == "serving"


def test_a_worker_that_left_is_told_in_words(signed_in: httpx.Client) -> None:
    """Whatever is asked of it."""
    form = {"csrf": token(signed_in, "/admin")}
    for name in ("7", str(uuid7())):
        for answer in (signed_in.get(f"{WORKERS}/{name}"), signed_in.post(f"{WORKERS}/{name}/drain", data=form)):
            assert answer.status_code == 404
            assert "There is no such worker" in answer.text


def test_problems_lead_to_pages_that_show_them(site: Site, signed_in: httpx.Client) -> None:
    """Those about jobs and workers: the page is there, with the filter that is meant."""
    worker = beaten(site, "gpu-1")
    silent = replace(worker, state="silent", alive=False, held=2)
    standings = [
        Standing(figures=QUIET, lanes=[], workers=[silent]),
        Standing(figures=QUIET, lanes=[], workers=[replace(worker, state="draining")]),
        Standing(figures=QUIET, lanes=[BUSY], workers=[]),
        Standing(figures=QUIET, lanes=[replace(BUSY, oldest_s=700.0)], workers=[WORKER]),
        Standing(figures=replace(QUIET, dead=1, letter_at=NOW), lanes=[], workers=[]),
    ]
    links = [problem.link for standing in standings for problem in problems_of(standing) if problem.link]
    assert len(links) == 5
    for link in links:
        assert signed_in.get(link).status_code == 200
    assert 'value="dead" checked' in signed_in.get(links[4]).text
    page = signed_in.get(links[3]).text
    assert 'value="queued" checked' in page
    assert 'name="lane" value="default"' in page
