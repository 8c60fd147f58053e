"""``safelight outputs orphans``: what lies in the outputs and belongs to nothing any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from jobstore.outputs import Outputs
    from jobstore.protocol import JobStore

_PICTURES = "jobs"
_HOUR_S = 3600.0


def orphans(
    hours: Annotated[
        float, typer.Option("--hours", min=1.0, help="Leave alone what was written in the last so many hours.")
    ] = 24.0,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List pictures that nothing points at, and checkpoints of ended jobs: what killed workers left behind."""
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.site import outputs_of
    from safelight.cli.server.stores import with_store

    with reported():
        settings = settings_for(config)
        configure_for(settings.log, quiet_at_terminal=True)
        places = outputs_of(settings)

        async def work(store: JobStore) -> list[str]:
            await store.ping()
            return await _find(store, places, _HOUR_S * hours, delete=delete)

        found = with_store(settings, work)
    if as_json:
        out().print_json(data={"keys": found, "deleted": delete})
        return
    for key in found:
        out().print(key, markup=False, highlight=False)
    err().print(_summary(len(found), delete=delete))


async def _find(store: JobStore, outputs: Outputs, age_s: float, *, delete: bool) -> list[str]:
    """The orphans of that age, pictures first. Each batch is deleted as it is found: nothing will point at it."""
    from jobstore.checkpoints import stale_checkpoints

    found: list[str] = []
    with err().status("Looking through the outputs…") as status:
        async for keys in outputs.walk(_PICTURES, age_s):
            orphaned = await _orphans_of(store, keys)
            if delete:
                await outputs.delete(orphaned)
            found += orphaned
            status.update(f"Looking through the outputs… {len(found)} orphans")
        async for stale in stale_checkpoints(store, outputs, age_s):
            if delete:
                await outputs.delete(stale)
            found += stale
    return found


async def _orphans_of(store: JobStore, keys: Sequence[str]) -> list[str]:
    known = await store.pointed_at(keys) if keys else frozenset()
    return [key for key in keys if key not in known]


def _summary(count: int, *, delete: bool) -> str:
    if not count:
        return "Every picture belongs to something."
    files = "1 file" if count == 1 else f"{count} files"
    return f"{files} deleted." if delete else f"{files} of no use; --delete deletes them."
