"""A Safelight of real processes that may die at any time: whoever is missing is started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psycopg
from psycopg import sql

from tests.chaos.member import Member, url_of
from tests.chaos.servers import Servers
from tests.chaos.triggers import FOLDER, SKEW, STEP_LIMIT
from tests.e2e.processes import REPOSITORY, free_port, wait_for

_SETTINGS = """
[server]
shutdown_grace_s = 2.0
[worker]
lanes = ["{lane}"]
slots = {slots}
device = "{device}"
lease_s = {lease_s}
beat_s = {beat_s}
sweep_s = {beat_s}
ring_again_s = 1.0
max_rescues = {max_rescues}
shutdown_grace_s = 0.5
metrics_port = 0
[engine]
checkpoint_every_s = {checkpoint_s}
[jobs]
max_steps = 1000
[models.scenes]
model = "{model}"
family = "flux"
dtype = "float32"
max_sequence_length = 24
lane = "{lane}"
steps = 2
guidance = 0.0
sizes = ["64x64"]
price = "{price}"
[log]
level = "info"
"""
_PAUSE_S = 0.3  # before a process that died is started again
_LIMIT_S = 60.0
PRICE = "0.01"
OPEN_STATES = ("scheduled", "queued", "running")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the house is made of; times in seconds. Without a ``model`` the device is simulated, else it is the CPU.

    ``more`` are further lines of the settings.
    """

    apis: int = 1
    workers: int = 2
    slots: int = 2
    lease_s: float = 2.0
    step_s: float = 0.005
    max_rescues: int = 3
    checkpoint_s: float = 0.3
    model: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A job that was running when a fault struck its worker, at that instant of this machine's clock."""

    fault: str
    job_id: uuid.UUID
    at: datetime


@dataclass(slots=True)
class House:
    """API and worker processes with a database, a lane and a folder for outputs of their own."""

    servers: Servers
    folder: Path
    plan: Plan
    members: list[Member] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    lane: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:12]}")
    _keepers: list[threading.Thread] = field(default_factory=list)
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> House:
        """Start everybody and wait until all are there."""
        self.triggers.mkdir()
        with psycopg.connect(self.servers.postgres.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.lane)))
        settings = self.folder / "safelight.toml"
        settings.write_text(self._settings())
        for number in range(self.plan.apis):
            self._move_in(f"api{number}", port=free_port())
        self.wait_ready()
        for number in range(self.plan.workers):
            self._move_in(f"worker{number}")
        self.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill everybody."""
        self._leaving.set()
        for member in self.members:
            member.wanted = False
            member.send(signal.SIGKILL)
        for keeper in self._keepers:
            keeper.join(30)

    @property
    def triggers(self) -> Path:
        """Where the triggers look for their files."""
        return self.folder / "triggers"

    @property
    def outputs(self) -> Path:
        """Where the pictures lie."""
        return self.folder / "outputs"

    @property
    def apis(self) -> list[Member]:
        """The processes that serve the API."""
        return [member for member in self.members if member.port]

    @property
    def workers(self) -> list[Member]:
        """The processes that render."""
        return [member for member in self.members if not member.port]

    def connect(self) -> psycopg.Connection[dict[str, Any]]:
        """A connection of an observer, past the proxy."""
        url = self.servers.direct_url(self.lane)
        return psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row, connect_timeout=10)

    def rows(self, query: str, arguments: Sequence[object] = ()) -> list[dict[str, Any]]:
        """What a query gives."""
        with self.connect() as connection:
            return connection.execute(query.encode(), arguments).fetchall()

    def make_keys(self, count: int) -> list[str]:
        """Secrets of new API keys; from now on every request wants one."""
        command = [sys.executable, "-m", "safelight", "keys", "create"]
        return [
            subprocess.run(
                [*command, f"tenant{number}"],
                cwd=REPOSITORY,
                env={**os.environ, **self._environment()},
                check=True,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
            ).stdout.strip()
            for number in range(count)
        ]

    def add_api(self, name: str) -> Member:
        """Another API process, on a port of its own."""
        return self._move_in(name, port=free_port())

    def add_worker(self, name: str, skew_s: float = 0.0) -> Member:
        """Another worker, whose time of day is wrong by ``skew_s``."""
        return self._move_in(name, skew_s=skew_s)

    def move_out(self, member: Member) -> None:
        """Stop a member for good."""
        member.wanted = False
        member.send(signal.SIGTERM)
        assert member.popen is not None
        member.popen.wait(_LIMIT_S)
        self.members.remove(member)

    def holds(self, pid: int) -> list[uuid.UUID]:
        """The jobs that a worker process holds, though it may be dead."""
        query = "SELECT job.id FROM job JOIN worker ON worker.id = worker_id WHERE pid = %s AND state = 'running'"
        return [row["id"] for row in self.rows(query, [pid])]

    def busy_worker(self, chance: random.Random) -> Member:
        """A worker that holds a job, if there is one; any other else."""
        workers = chance.sample(self.workers, len(self.workers))
        with suppress(psycopg.OperationalError):  # another fault has taken the database away
            return next((worker for worker in workers if self.holds(worker.pid)), workers[0])
        return workers[0]

    def holder(self, job_id: object) -> Member | None:
        """The worker process that holds a job."""
        query = "SELECT pid FROM job JOIN worker ON worker.id = worker_id WHERE job.id = %s AND state = 'running'"
        pids = {row["pid"] for row in self.rows(query, [job_id])}
        return next((member for member in self.workers if member.pid in pids), None)

    def note_hits(self, fault: str, pid: int, at: datetime) -> None:
        """Remember which jobs a fault took from a worker, to see how soon they run again."""
        with suppress(psycopg.OperationalError):  # another fault has taken the database away: nothing is measured
            self.hits += [Hit(fault, job_id, at) for job_id in self.holds(pid)]

    def wait_ready(self) -> None:
        """Wait until every API answers and every worker beats."""
        for member in list(self.members):
            probe = self._api_ready if member.port else self._worker_ready
            wait_for(f"{member.name} to be ready", lambda m=member, p=probe: p(m), _LIMIT_S)  # type: ignore[misc]

    def heal(self) -> None:
        """Take back every fault and wait until all are there."""
        self.servers.restore()
        for file in self.triggers.iterdir():
            if file.suffix == "":
                file.unlink(missing_ok=True)
        self.wait_ready()

    def _api_ready(self, member: Member) -> bool:
        try:
            return httpx.get(f"{url_of(member)}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def _worker_ready(self, member: Member) -> bool:
        query = "SELECT 1 FROM worker WHERE pid = %s AND seen_at > clock_timestamp() - make_interval(secs => %s)"
        return member.alive and bool(self.rows(query, [member.pid, self.plan.lease_s]))

    def _settings(self) -> str:
        return (
            _SETTINGS.format(
                lane=self.lane,
                slots=self.plan.slots,
                device="cpu" if self.plan.model else f"simulated:step_s={self.plan.step_s}",
                model=self.plan.model or "nobody/simulated",
                checkpoint_s=self.plan.checkpoint_s,
                lease_s=self.plan.lease_s,
                beat_s=self.plan.lease_s / 6,
                max_rescues=self.plan.max_rescues,
                price=PRICE,
            )
            + self.plan.more
        )

    def _environment(self, skew_s: float = 0.0) -> dict[str, str]:
        return {
            "SAFELIGHT_CONFIG": str(self.folder / "safelight.toml"),
            "SAFELIGHT_HOME": str(self.folder / "home"),
            "SAFELIGHT_STORE": self.servers.store_url(self.lane),
            "SAFELIGHT_BROKER": self.servers.broker_url,
            "SAFELIGHT_OUTPUTS": self.outputs.as_uri(),
            FOLDER: str(self.triggers),
            SKEW: str(skew_s),
            STEP_LIMIT: "30" if self.plan.model else "1",
            "OMP_NUM_THREADS": "1",
        }

    def _move_in(self, name: str, *, port: int = 0, skew_s: float = 0.0) -> Member:
        arguments = ["api", "--port", str(port)] if port else ["worker"]
        member = Member(name, arguments, self._environment(skew_s), self.folder / f"{name}.log", port=port)
        member.live()
        self.members.append(member)
        keeper = threading.Thread(target=self._keep, args=(member,), name=f"keep-{name}", daemon=True)
        keeper.start()
        self._keepers.append(keeper)
        return member

    def _keep(self, member: Member) -> None:
        """Start a member again whenever it dies, as a supervisor does."""
        while member.popen is not None:
            member.popen.wait()
            if not member.wanted or self._leaving.wait(_PAUSE_S):
                return
            member.live()


def now() -> datetime:
    """This machine's time, which is that of its database too."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)
