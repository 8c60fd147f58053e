"""Pictures that another job left in the cache while this one waited."""

from __future__ import annotations

from jobstore.cached import find_pictures
from jobstore.job import CacheOutcome
from jobstore.outputs import Outputs
from jobstore.protocol import Finish, JobStore, Lease


async def find_finish(store: JobStore, outputs: Outputs, lease: Lease) -> Finish | None:
    """The finish of a job whose pictures exist already, in its own file format; None if it must be rendered."""
    cached = await find_pictures(store, outputs, lease.job, lease.token)
    return None if cached is None else Finish(pictures=cached.pictures, cache=CacheOutcome.HIT)
