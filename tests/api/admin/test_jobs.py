"""The pages of jobs: what they let in, whom they let act, and that nothing of a job becomes markup."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from msgspec import Struct

from api.admin.advice import ADVICE, OTHER, advice_for
from api.admin.job_filter import Asked, in_words
from api.operating.filters import FILTERS
from jobstore.ids import uuid7
from jobstore.job import JobError, JobState
from jobstore.operating.jobs import JobFilter
from tests.api.admin.conftest import token
from tests.api.site import Driver, Site, image_of

JOBS = "/admin/jobs"
EVIL = "<script>alert(1)</script>"


class Queue(Struct):
    """A site with jobs, by their prompts."""

    site: Site
    ids: dict[str, str]

    def state(self, prompt: str) -> JobState:
        """Where the job stands."""
        return self.site.call(self.site.services.store.get(UUID(self.ids[prompt]))).state


@pytest.fixture
def queue(site: Site, secrets: dict[str, str]) -> Queue:
    """Jobs of ann's: one that failed, one that died, two that wait; one of them wears markup everywhere."""
    ids: dict[str, str] = {}
    headers = {"authorization": f"Bearer {secrets['plain']}"}
    with httpx.Client(base_url=site.url, headers=headers, timeout=20) as ann:

        def submit(prompt: str, **fields: Any) -> None:
            answer = ann.post("/v1/jobs", json={"prompt": prompt, **fields})
            assert answer.status_code == 202, answer.text
            ids[prompt] = answer.json()["id"]

        worker = Driver(site)
        for code in ("invalid_request", "out_of_memory"):
            submit(code)
            lease = worker.claim()
            error = JobError(code=code, message=f"it broke: {EVIL}")
            site.call(site.services.store.fail(lease.token, error))
        submit("one that waits", dimensions={"team": "red"})
        submit(EVIL, dimensions={"team": EVIL})
    return Queue(site=site, ids=ids)


def audited(site: Site) -> list[str]:
    """What was written down of jobs, oldest first."""
    entries = site.call(site.services.store.list_audit()).entries
    return [entry.action for entry in reversed(entries) if entry.action.startswith("jobs.")]


def confirmation(client: httpx.Client, path: str) -> dict[str, str]:
    """The fields of the form that asks."""
    text = client.get(path).text
    return {name: text.split(f'name="{name}" value="')[1].split('"')[0] for name in ("csrf", "expected", "as_of")}


def test_nothing_of_a_job_becomes_markup(queue: Queue, signed_in: httpx.Client) -> None:
    """Prompts, dimensions and errors are text, on every page that shows them."""
    paths = [f"{JOBS}/{queue.ids[EVIL]}", f"{JOBS}/{queue.ids['out_of_memory']}", JOBS, f"{JOBS}?text=%3Cscript%3E"]
    paths.append(f"{JOBS}/cancel?text=%3Cscript%3E")
    for path in paths:
        answer = signed_in.get(path)
        assert answer.status_code == 200
        assert "&lt;script&gt;" in answer.text
        assert "<script>" not in answer.text


def test_the_list_takes_every_filter_of_the_api(queue: Queue, signed_in: httpx.Client) -> None:
    """Alone and together; what is left empty isn't asked, and the address goes on without it."""
    assert Asked.__struct_fields__ == FILTERS
    [ann] = [key for key in queue.site.call(queue.site.services.store.list_keys()) if key.name == "ann"]
    future = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")
    shown = {
        "state=failed": 2, "state=failed&state=queued": 4, "model=scenes": 4, "model=shapes": 4, "lane=big": 0,
        f"key={ann.id}": 4, f"worker={uuid7()}": 0, "host=test": 2, "dimension=team:red": 1, "text=WAITS": 1,
        f"text={queue.ids['one that waits']}": 1, "error_code=out_of_memory": 1,
        f"created_after={future}": 0, f"created_before={future}": 4, f"state=queued&key={ann.id}&dimension=team:red": 1,
    }  # fmt: skip
    counted = {query: signed_in.get(f"{JOBS}?{query}").text.count('<th scope="row">') for query in shown}
    assert counted == shown
    answer = signed_in.get(f"{JOBS}?state=failed&text=&model=&dimension=")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{JOBS}?state=failed")
    assert signed_in.get(f"{JOBS}?text=").headers["location"] == JOBS


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=lost", "state"), ("key=7", "key"), ("model=%00", "model"), ("lane=A+b", "lane"),
        ("dimension=red", "dimension"), ("text=" + "x" * 201, "text"), ("text=a%00b", "text"),
        ("created_after=yesterday", "created_after"), ("cursor=%C3%A9", "cursor"), ("cursor=abc", "cursor"),
        ("nodel=flux", "nodel"), ("host=" + "x" * 256, "host"), ("error_code=A", "error_code"),
        ("&".join(f"dimension=a{number}:b" for number in range(17)), "dimension"),
    ],
)  # fmt: skip
def test_what_a_filter_can_not_be_is_refused_in_words(signed_in: httpx.Client, query: str, field: str) -> None:
    """On a page, naming the field."""
    answer = signed_in.get(f"{JOBS}?{query}")
    assert answer.status_code == 400
    assert field in answer.text.lower()
    assert "Traceback" not in answer.text


def test_pages_go_on_by_their_cursor(queue: Queue, signed_in: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job once, and the count is of all pages."""
    monkeypatch.setattr("api.admin.jobs._A_PAGE", 3)
    first = signed_in.get(f"{JOBS}?model=scenes").text
    assert "<strong>4</strong>" in first
    rest = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    second = signed_in.get(rest).text
    assert "<strong>4</strong>" in second
    assert (first.count('<th scope="row">'), second.count('<th scope="row">')) == (3, 1)


def test_what_is_counted_is_canceled(queue: Queue, signed_in: httpx.Client) -> None:
    """Those that wait, of the filter's; audited; what came later is left alone."""
    path = f"{JOBS}/cancel?dimension=team:red"
    asked = confirmation(signed_in, path)
    assert asked["expected"] == "1"
    answer = signed_in.post(path, data=asked)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{JOBS}?dimension=team%3Ared")
    assert "1 job canceled" in signed_in.get(answer.headers["location"]).text
    assert (queue.state("one that waits"), queue.state(EVIL)) == (JobState.CANCELED, JobState.QUEUED)
    assert audited(queue.site) == ["jobs.canceled"]
    assert "nothing to do" in signed_in.get(path).text


def test_more_than_was_confirmed_is_left_alone(queue: Queue, signed_in: httpx.Client) -> None:
    """A 409 that tells both numbers; so for a redrive."""
    for path in (f"{JOBS}/cancel?model=scenes", f"{JOBS}/redrive?state=failed"):
        asked = {**confirmation(signed_in, path), "expected": "1"}
        answer = signed_in.post(path, data=asked)
        assert answer.status_code == 409
        assert "2 jobs match by now, and 1 did when they were counted: nothing was changed" in answer.text
    assert audited(queue.site) == []


def test_what_could_not_be_counted_is_confirmed_in_so_many_words(
    queue: Queue, signed_in: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where counting stopped, the number alone confirms nothing; even where none was found before it stopped."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.finding.LOOKED_AT", 1)
    for path, words in (
        (f"{JOBS}/cancel?model=scenes", "Cancel at least 1 job?"),
        (f"{JOBS}/cancel?text=waits", "Cancel as many jobs as match?"),
    ):
        asked = confirmation(signed_in, path)
        page = signed_in.get(path).text
        assert words in page
        assert 'name="all"' in page
        answer = signed_in.post(path, data={**asked, "expected": "10000"})
        assert answer.status_code == 409
        assert "counting stopped at" in answer.text.lower()
    assert audited(queue.site) == []
    assert signed_in.post(path, data={**asked, "all": "yes"}).status_code == 303
    assert (queue.state("one that waits"), queue.state(EVIL)) == (JobState.CANCELED, JobState.QUEUED)


def test_letters_are_redriven(queue: Queue, signed_in: httpx.Client) -> None:
    """By all that a search goes by; audited, and workers hear of it."""
    path = f"{JOBS}/redrive?error_code=out_of_memory&text=Of_Memory&finished_after=2020-01-01T00:00"
    queue.site.bell.rung.clear()
    answer = signed_in.post(path, data=confirmation(signed_in, path))
    assert answer.status_code == 303
    assert (queue.state("out_of_memory"), queue.state("invalid_request")) == (JobState.QUEUED, JobState.FAILED)
    assert audited(queue.site) == ["jobs.redriven"]
    assert "default" in queue.site.bell.rung


def test_many_are_done_round_after_round(
    queue: Queue, signed_in: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until none is left; where time runs out, it says that there are more."""
    monkeypatch.setattr("api.admin.many_jobs._A_ROUND", 1)
    path = f"{JOBS}/cancel?model=scenes"
    signed_in.post(path, data=confirmation(signed_in, path))
    assert (queue.state("one that waits"), queue.state(EVIL)) == (JobState.CANCELED, JobState.CANCELED)
    monkeypatch.setattr("api.admin.many_jobs._LONGEST_S", 0.0)
    path = f"{JOBS}/redrive?state=failed"
    answer = signed_in.post(path, data=confirmation(signed_in, path))
    assert "redrive again to go on" in signed_in.get(answer.headers["location"]).text
    assert [queue.state(prompt) for prompt in ("invalid_request", "out_of_memory")] == ["queued", "failed"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("cancel", "name something in the filter"), ("redrive", "name something in the filter"),
        ("cancel?state=failed", "be canceled"), ("redrive?state=queued", "be redriven"),
        ("cancel?modle=scenes", "modle"),
    ],
)  # fmt: skip
def test_what_would_reach_too_much_is_refused(queue: Queue, signed_in: httpx.Client, path: str, words: str) -> None:
    """No filter, a misspelt one, states that can't be meant; when it is asked, and when it is confirmed."""
    form = {"csrf": token(signed_in, "/admin"), "expected": "9", "as_of": datetime.now(UTC).isoformat()}
    for answer in (signed_in.get(f"{JOBS}/{path}"), signed_in.post(f"{JOBS}/{path}", data=form)):
        assert answer.status_code == 400
        assert words in answer.text.replace("&#39;", "'").lower()
    assert audited(queue.site) == []


@pytest.mark.parametrize("fields", [{}, {"expected": "1"}, {"expected": "-1", "as_of": "2030-01-01T00:00:00Z"},
    {"expected": "1", "as_of": "2030-01-01T00:00:00"}, {"expected": "x", "as_of": "2030-01-01T00:00:00Z"}])  # fmt: skip
def test_a_confirmation_tells_what_was_seen(queue: Queue, signed_in: httpx.Client, fields: dict[str, str]) -> None:
    """Without it nothing is done."""
    form = {"csrf": token(signed_in, "/admin"), **fields}
    assert signed_in.post(f"{JOBS}/cancel?model=scenes", data=form).status_code == 400
    assert queue.state(EVIL) is JobState.QUEUED


def test_one_job_is_canceled_and_one_retried(queue: Queue, signed_in: httpx.Client) -> None:
    """Both audited; a second time it says why not."""
    waits, failed = (f"{JOBS}/{queue.ids[prompt]}" for prompt in (EVIL, "out_of_memory"))
    form = {"csrf": token(signed_in, waits)}
    assert signed_in.post(f"{waits}/cancel", data=form).headers["location"] == waits
    assert queue.state(EVIL) is JobState.CANCELED
    signed_in.post(f"{waits}/cancel", data=form)
    assert "ended by now" in signed_in.get(waits).text
    signed_in.post(f"{failed}/retry", data=form)
    assert queue.state("out_of_memory") is JobState.QUEUED
    answer = signed_in.post(f"{failed}/retry", data=form)
    assert answer.status_code == 409
    assert "Only failed or dead jobs can be retried" in answer.text
    assert audited(queue.site) == ["jobs.canceled", "jobs.redriven"]
    assert queue.state("one that waits") is JobState.QUEUED


def test_who_may_only_look_sees_all_and_changes_nothing(queue: Queue, observer: httpx.Client) -> None:
    """Foreign jobs too, their pictures as well; no button, and each post is a 403."""
    job = f"{JOBS}/{queue.ids[EVIL]}"
    form = {"csrf": token(observer, "/admin")}
    for path in (JOBS, f"{JOBS}?state=failed", job, f"{JOBS}/cancel?model=scenes"):
        page = observer.get(path)
        assert page.status_code == 200
        assert "<dialog" not in page.text.replace('<dialog id="many"', "")
        assert 'hx-get="/admin/jobs/cancel' not in page.text
        assert 'name="expected"' not in page.text
    for path in (f"{job}/cancel", f"{job}/retry", f"{JOBS}/cancel?model=scenes", f"{JOBS}/redrive?state=failed"):
        assert observer.post(path, data=form).status_code == 403
    assert queue.state(EVIL) is JobState.QUEUED


def test_nothing_is_done_without_the_token(queue: Queue, signed_in: httpx.Client) -> None:
    """Of the form, that is."""
    job = f"{JOBS}/{queue.ids[EVIL]}"
    for path in (f"{job}/cancel", f"{job}/retry", f"{JOBS}/cancel?model=scenes", f"{JOBS}/redrive?state=failed"):
        asked = {"expected": "9", "as_of": datetime.now(UTC).isoformat()}
        assert signed_in.post(path, data=asked).status_code == 403
    assert queue.state(EVIL) is JobState.QUEUED


def test_a_webhook_is_told_without_its_token(site: Site, secrets: dict[str, str], observer: httpx.Client) -> None:
    """Receivers put tokens into the path and the query; what was sent is a link."""
    hook = "https://hooks.example.com/jobs/s3cret?token=s3cret"
    headers = {"authorization": f"Bearer {secrets['plain']}"}
    answer = httpx.post(f"{site.url}/v1/jobs", json={"prompt": "a fox", "webhook": hook}, headers=headers)
    assert answer.status_code == 202, answer.text
    Driver(site).render()
    page = observer.get(f"{JOBS}/{answer.json()['id']}").text
    assert "https://hooks.example.com/…" in page
    assert "s3cret" not in page
    assert "/admin/webhooks/deliveries/" in page


NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize("job_id", ["7", NOBODY, "nothing", "%00", NOBODY.replace("-", "")])
def test_a_job_that_is_not_there_is_told_in_words(signed_in: httpx.Client, job_id: str) -> None:
    """On each of its pages."""
    form = {"csrf": token(signed_in, "/admin")}
    pages = [signed_in.get(f"{JOBS}/{job_id}"), signed_in.get(f"{JOBS}/{job_id}/images/0")]
    pages += [signed_in.post(f"{JOBS}/{job_id}/{act}", data=form) for act in ("cancel", "retry")]
    for answer in pages:
        assert answer.status_code == 404
        assert "no job with" in answer.text.lower()


def test_pictures_load_for_a_session(site: Site, secrets: dict[str, str], observer: httpx.Client) -> None:
    """The bytes of the API, within the pages' policy; nobody else's. The browser asks each time whether they hold."""
    headers = {"authorization": f"Bearer {secrets['plain']}"}
    with httpx.Client(base_url=site.url, headers=headers, timeout=20) as ann:
        job = ann.post("/v1/jobs", json={"prompt": "a red circle"}).json()["id"]
        assert observer.get(f"{JOBS}/{job}/images/0").status_code == 409
        Driver(site).render()
        original = ann.get(f"/v1/jobs/{job}/images/0")
    answer = observer.get(f"{JOBS}/{job}/images/0")
    assert answer.content == original.content
    for name in ("content-type", "etag", "content-disposition"):
        assert answer.headers[name] == original.headers[name]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    small = observer.get(f"{JOBS}/{job}/images/0/small")
    assert (small.headers["content-type"], image_of(small.content).size) == ("image/webp", (96, 96))
    for path in (f"{JOBS}/{job}/images/0", f"{JOBS}/{job}/images/0/small"):
        kept = observer.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (kept.status_code, kept.content) == (304, b"")
        assert kept.headers["cache-control"] == observer.get(path).headers["cache-control"] == "private, no-cache"
        assert httpx.get(f"{site.url}{path}").status_code == 303
    for missing in (f"{JOBS}/{job}/images/1", f"{JOBS}/{job}/images/x", f"{JOBS}/{job}/images/1/small"):
        assert observer.get(missing).status_code == 404


def test_every_error_has_advice() -> None:
    """Each code that jobs end with."""
    told = JobError.__doc__ or ""
    codes = {part for part in told.split("``") if "_" in part and part.islower()}
    assert len(codes) > 10
    assert codes <= set(ADVICE)
    assert advice_for("unheard_of") == OTHER


def test_a_filter_is_told_in_words() -> None:
    """All of it, for whoever is asked to confirm."""
    key, at = uuid7(), datetime(2030, 1, 31, 12, tzinfo=UTC)
    where = JobFilter(
        states=(JobState.QUEUED, JobState.RUNNING), key_id=key, dimensions={"team": "red"}, created_before=at
    )
    assert in_words(where, {key: "ann"}) == [
        ("state", "queued or running"), ("key", "ann"), ("dimension team", "red"),
        ("submitted before", "2030-01-31T12:00:00"),
    ]  # fmt: skip
