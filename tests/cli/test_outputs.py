"""The command that finds pictures which nothing points at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from jobstore.checkpoints import checkpoint_key
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.cli.running import run_safelight
from tests.contract.making import new_job, new_worker, rendered


async def test_checkpoints_of_jobs_that_ended_are_orphans(
    settings: dict[str, str], database: str, store: PostgresStore, outputs: Outputs, tmp_path: Path
) -> None:
    """One that a job may go on from stays."""
    waiting, canceled = await store.submit(new_job()), await store.submit(new_job())
    await store.cancel(canceled.id)
    keys = [checkpoint_key(job.id) for job in (waiting, canceled)]
    day_ago = time.time() - 90_000
    for key in keys:
        await outputs.put(key, b"x", "application/octet-stream")
        os.utime(tmp_path / "outputs" / key, (day_ago, day_ago))
    environment = {**settings, "SAFELIGHT_STORE": database, "SAFELIGHT_OUTPUTS": (tmp_path / "outputs").as_uri()}
    deleted = run_safelight("outputs", "orphans", "--delete", environment=environment)
    assert (deleted.returncode, deleted.stdout.split()) == (0, [keys[1]]), deleted.stderr
    assert [await outputs.exists(key) for key in keys] == [True, False]


async def test_orphans_are_listed_and_deleted(
    settings: dict[str, str], database: str, store: PostgresStore, outputs: Outputs, tmp_path: Path
) -> None:
    """What a job points at stays, and what is new; the rest goes when it is asked for."""
    await store.submit(new_job())
    picture = (await rendered(store, new_worker())).pictures[0]
    keys = [picture.key, "jobs/dead/1/0.png", "jobs/young/1/0.png"]
    for key in keys:
        await outputs.put(key, b"picture", "image/png")
    day_ago = time.time() - 90_000
    for key in keys[:2]:
        os.utime(tmp_path / "outputs" / key, (day_ago, day_ago))
    environment = {**settings, "SAFELIGHT_STORE": database, "SAFELIGHT_OUTPUTS": (tmp_path / "outputs").as_uri()}

    listed = run_safelight("outputs", "orphans", environment=environment)
    assert (listed.returncode, listed.stdout.split()) == (0, ["jobs/dead/1/0.png"]), listed.stderr
    assert "--delete" in listed.stderr
    assert await outputs.exists("jobs/dead/1/0.png")

    deleted = run_safelight("outputs", "orphans", "--delete", "--json", environment=environment)
    assert json.loads(deleted.stdout) == {"keys": ["jobs/dead/1/0.png"], "deleted": True}
    assert [await outputs.exists(key) for key in keys] == [True, False, True]

    again = run_safelight("outputs", "orphans", environment=environment)
    assert (again.stdout, "Every picture" in again.stderr) == ("", True)
