"""Jobs a second that are submitted, and claimed and finished, beside procrastinate on the same PostgreSQL.

Each side does what it does for its users, through its own library, with as many workers (coroutines with a connection
each, in one process) and commits that reach the disk. Procrastinate stores a task's arguments and its status; Safelight
also keeps events, pictures, a cache entry and the ledger, and joins identical requests. The sides take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import procrastinate
from procrastinate.jobs import Job, Status
from rich.progress import Progress

from bench.store.jobs import database, finished, new_job, new_worker
from jobstore.postgres.store import PostgresStore

Work = Callable[[int], Awaitable[bool]]
Rates = dict[str, float]


async def rate(work: Work, workers: int) -> float:
    """Times a second that ``work`` succeeds when so many workers do it until it has nothing left to do."""
    start = time.perf_counter()

    async def run(worker: int) -> int:
        done = 0
        while await work(worker):
            done += 1
        return done

    done = sum(await asyncio.gather(*(run(worker) for worker in range(workers))))
    return done / (time.perf_counter() - start)


async def safelight(url: str, workers: int, jobs: int) -> Rates:
    """Our rates."""
    store = PostgresStore(url, max_connections=workers)
    await store.open()
    try:
        await store.migrate()
        made = iter([new_job(number) for number in range(jobs)])
        hands = [new_worker() for _ in range(workers)]

        async def submit(_worker: int) -> bool:
            new = next(made, None)
            return new is not None and bool(await store.submit(new))

        async def render(worker: int) -> bool:
            lease = await store.claim(hands[worker], hands[worker].lanes)
            return lease is not None and bool(await store.finish(lease.token, finished(lease)))

        return {"submit": await rate(submit, workers), "claim and finish": await rate(render, workers)}
    finally:
        await store.close()


async def peer(url: str, workers: int, jobs: int) -> Rates:
    """Procrastinate's rates."""
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=workers, max_size=workers)
    app = procrastinate.App(connector=connector)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        manager = app.job_manager
        made = iter(range(jobs))
        hands = [await manager.register_worker() for _ in range(workers)]

        async def submit(_worker: int) -> bool:
            number = next(made, None)
            if number is None:
                return False
            return bool(await manager.defer_job_async(_task(number)))

        async def render(worker: int) -> bool:
            job = await manager.fetch_job(None, hands[worker])
            if job is None:
                return False
            await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
            return True

        return {"submit": await rate(submit, workers), "claim and finish": await rate(render, workers)}


def _task(number: int) -> Job:
    return Job(
        id=None,
        queue="default",
        lock=None,
        queueing_lock=None,
        task_name="render",
        task_kwargs={"prompt": f"a red circle, number {number}", "width": 128, "height": 128, "seed": number},
    )


def measure(server: str, workers: int, jobs: int, rounds: int, progress: Progress) -> tuple[Rates, Rates]:
    """Medians of both sides' rates, ours first."""
    task = progress.add_task(f"{workers} workers", total=2 * rounds)
    ours: list[Rates] = []
    theirs: list[Rates] = []
    for _ in range(rounds):
        for side, rates in ((safelight, ours), (peer, theirs)):
            with database(server) as url:
                rates.append(asyncio.run(side(url, workers, jobs)))
            progress.advance(task)
    return _medians(ours), _medians(theirs)


def _medians(rates: list[Rates]) -> Rates:
    return {name: median(rate[name] for rate in rates) for name in rates[0]}
