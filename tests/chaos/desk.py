"""Where the tests of single faults hand in jobs: it remembers what was accepted, for the audit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.audit import Findings, audit
from tests.chaos.house import House
from tests.chaos.member import url_of
from tests.e2e.processes import wait_for

LIMIT_S = 40.0
_TERMINAL = ("succeeded", "failed", "canceled", "dead")


@dataclass(slots=True)
class Desk:
    """The clients of one test; they talk to whichever API answers."""

    house: House
    accepted: dict[uuid.UUID, Collection[str]] = field(default_factory=dict)

    def submit(self, prompt: str = "a red circle", ends: Collection[str] = ("succeeded",), **fields: Any) -> str:
        """The id of a new job that nothing in the cache answers, and that is to end in one of ``ends``."""
        body = {"prompt": prompt, "seed": uuid.uuid4().int % 2**31, **fields}
        answer = self._call("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        assert answer.status_code == 202, answer.text
        job_id = str(answer.json()["id"])
        self.accepted[uuid.UUID(job_id)] = ends
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """The job as an API tells it."""
        return dict(self._call("GET", f"/v1/jobs/{job_id}").raise_for_status().json())

    def wait(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of the states; at its end, where none is named."""
        wanted = states or _TERMINAL

        def probe() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["state"] in wanted else None

        return wait_for(f"the job to be {' or '.join(wanted)}", probe, LIMIT_S)

    def running(self, job_id: str) -> None:
        """Wait until the job runs; a short one may have ended before anybody looked."""
        self.wait(job_id, "running", *_TERMINAL)

    def facts(self, job_id: str) -> dict[str, Any]:
        """What the API doesn't tell: rescues, and how often the job was claimed."""
        query = """
            SELECT rescues, attempts, (
                SELECT count(*) FROM job_event
                WHERE job_id = job.id AND kind = 'state' AND data ->> 'state' = 'running'
            ) AS claims FROM job WHERE id = %s
        """
        return self.house.rows(query, [job_id])[0]

    def audit(self) -> Findings:
        """What became of all that was accepted."""
        for job_id in self.accepted:
            self.wait(str(job_id))
        with self.house.connect() as connection:
            return audit(connection, self.house.outputs, self.accepted)

    def _call(self, method: str, path: str, **request: Any) -> httpx.Response:
        end = time.monotonic() + LIMIT_S
        while True:
            for api in self.house.apis:
                try:
                    answer = httpx.request(method, url_of(api) + path, timeout=10, **request)
                except httpx.TransportError:
                    continue
                if answer.status_code < 500:
                    return answer
            assert time.monotonic() < end, f"no API answers {method} {path}"
            time.sleep(0.1)
