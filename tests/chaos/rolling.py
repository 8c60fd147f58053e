"""What stands around a rolling replacement: a load balancer, and clients who hold every answer against it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
from httpx_sse import connect_sse

from tests.chaos.house import House
from tests.chaos.member import Member
from tests.chaos.proxy import Proxy, Streams, to_port

_LIMIT_S = 40.0
_PAUSE_S = 0.2  # of a client between two jobs: the processes that start want the cores too
_LONG_EVERY = 4  # one in so many jobs is still being rendered when its worker is told to leave
_STEPS = {True: 150, False: 2}


class Balancer:
    """Shares out connections in turn. One that is refused goes to the next process; nothing else is tried again."""

    def __init__(self, apis: Collection[Member]) -> None:
        """Sends to ``apis``, once started."""
        self._ports = [api.port for api in apis]
        self._turn = count()
        self._proxy = Proxy(self._connect)

    def start(self) -> str:
        """The URL."""
        return f"http://127.0.0.1:{self._proxy.start()}"

    def stop(self) -> None:
        """Close everything."""
        self._proxy.stop()

    def replace(self, old: Member, new: Member) -> None:
        """Send new connections to another process; those that are open stay."""
        self._ports = [*(port for port in self._ports if port != old.port), new.port]

    async def _connect(self) -> Streams:
        ports, first = self._ports, next(self._turn)
        for place in range(len(ports)):
            try:
                return await to_port(ports[(first + place) % len(ports)])()
            except ConnectionRefusedError:
                continue
        raise ConnectionRefusedError("no process listens")


@dataclass(slots=True)
class Clients:
    """Each submits a job, follows its events to the end, reads it, and begins again; no failed request is sent again.

    An event stream that ends before its job is taken up at its last event, as browsers do.
    """

    url: str
    accepted: list[uuid.UUID] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    resumed: int = 0
    requests: int = 0
    _leaving: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self, clients: int) -> Iterator[None]:
        """So many clients, until the body is done and each has seen its last job to the end."""
        threads = [threading.Thread(target=self._work, name=f"client{number}") for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._leaving.set()
            for thread in threads:
                thread.join(_LIMIT_S)

    def _work(self) -> None:
        # A balancer of connections: what is kept open would stay with a process that leaves.
        with httpx.Client(base_url=self.url, headers={"Connection": "close"}, timeout=_LIMIT_S) as http:
            try:
                while not self._leaving.wait(_PAUSE_S):
                    self._one(http)
            except (httpx.TransportError, AssertionError) as error:
                self.broken.append(f"{type(error).__name__}: {error}")

    def _one(self, http: httpx.Client) -> None:
        number = len(self.accepted)
        key = str(uuid.uuid4())
        body = {"prompt": "a red circle", "seed": uuid.uuid4().int % 2**31, "steps": _STEPS[number % _LONG_EVERY == 0]}
        body["dimensions"] = {"submit": key}
        job = self._asked(http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key}), 202)
        self.accepted.append(uuid.UUID(job["id"]))
        last = ""
        while (end := self._follow(http, job["id"], last)) is not None:
            last = end
            self.resumed += 1
        found = self._asked(http.get(f"/v1/jobs/{job['id']}"), 200)
        assert found["state"] == "succeeded", found

    def _follow(self, http: httpx.Client, job_id: str, last: str) -> str | None:
        """The last event's id of a stream that ended before its job; None at the job's end."""
        headers = {"Last-Event-ID": last} if last else {}
        self.requests += 1
        with connect_sse(http, "GET", f"/v1/jobs/{job_id}/events", headers=headers) as stream:
            assert stream.response.status_code == 200, stream.response.status_code
            for event in stream.iter_sse():
                last = event.id or last
                if event.event == "done":
                    return None
        return last

    def _asked(self, answer: httpx.Response, status: int) -> dict[str, Any]:
        self.requests += 1
        assert answer.status_code == status, f"{answer.status_code} {answer.text[:300]}"
        return dict(answer.json())


def blue_green(house: House, balancer: Balancer) -> None:
    """Start all new processes beside the old ones, and once they are ready replace those one after another.

    An API gets no more connections before it is told to leave; a worker drains, and leaves of itself with 0.
    """
    apis, workers = house.apis, house.workers
    new_apis = [house.add_api(f"{old.name}-next") for old in apis]
    for old in workers:
        house.add_worker(f"{old.name}-next")
    house.wait_ready()
    for old, new in zip(apis, new_apis, strict=True):
        balancer.replace(old, new)
        house.move_out(old)
    for old in workers:
        house.move_out(old)
        assert old.popen is not None
        assert old.popen.returncode == 0
