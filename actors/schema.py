"""Watches whether the store's schema still has room for this program: a newer release may close it under a worker."""

from __future__ import annotations

import asyncio

from actors.leases import Leases
from jobstore.errors import MigrationError
from jobstore.protocol import JobStore
from safelight.telemetry import get_logger

_log = get_logger(__name__)


class SchemaWatch:
    """Belongs to the event loop of the actors. A worker that the schema is too new for drains."""

    def __init__(self, store: JobStore, leases: Leases, every_s: float) -> None:
        """Looks every ``every_s`` seconds."""
        self._store = store
        self._leases = leases
        self._every_s = every_s
        self._outgrown = False

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def look(self) -> None:
        """Look once. A store that doesn't answer says nothing about its schema."""
        try:
            await self._store.schema()
        except MigrationError as error:
            if not self._outgrown:
                _log.error("the worker drains: its program is too old", action="schema.outgrown", reason=str(error))
            self._outgrow(True)
        except Exception as error:  # the driver's errors differ by store; the beat tells of them too
            _log.debug("schema not read", action="schema.unread", error=type(error).__name__)
        else:
            self._outgrow(False)

    def _outgrow(self, outgrown: bool) -> None:
        if outgrown is not self._outgrown:
            self._outgrown = outgrown
            self._leases.outgrow(outgrown)
