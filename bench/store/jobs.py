"""Jobs and databases for the measurements."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from jobstore.ids import uuid7
from jobstore.job import JobRequest, NewJob, Picture
from jobstore.protocol import Finish, Lease, Worker

LANE = "default"


@contextmanager
def database(server: str) -> Iterator[str]:
    """The URL of a fresh database on that server, dropped at the end."""
    name = f"safelight_bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    try:
        yield _named(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _named(server: str, name: str) -> str:
    parts = conninfo_to_dict(make_conninfo(server, dbname=name))
    query = "&".join(f"{key}={value}" for key, value in parts.items() if key != "dbname")
    return f"postgresql:///{name}?{query}"


def new_job(number: int, lane: str = LANE) -> NewJob:
    """A job that nothing else joins, with a key-less client's usual request."""
    request = JobRequest(
        model="scenes", prompt=f"a red circle, number {number}", width=128, height=128, steps=8, seed=number
    )
    return NewJob(
        id=uuid7(),
        request=request,
        lane=lane,
        batch_key="scenes/128x128",
        fingerprint=f"{number:064x}",
        seedless_fingerprint=f"{number:064x}",
        price=Decimal("0.002"),
        currency="USD",
    )


def new_worker(lane: str = LANE) -> Worker:
    """A worker process of its own."""
    return Worker(id=uuid.uuid4(), host="bench", pid=1, device="bench", lanes=(lane,))


def finished(lease: Lease) -> Finish:
    """One picture, half a second of device time."""
    job = lease.job
    picture = Picture(
        index=0,
        key=f"jobs/{job.id}/{lease.token}/0.png",
        seed=job.request.seed,
        width=128,
        height=128,
        sha256=f"{job.request.seed:064x}",
        size_bytes=20_000,
        media_type="image/png",
    )
    return Finish(pictures=(picture,), gpu_seconds=Decimal("0.5"), device="bench")
