"""``safelight api``: one of any number of processes that serve the API."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from safelight.cli.consoles import err
from safelight.cli.exits import reported
from safelight.cli.options import ConfigOption, HostOption, PortOption, settings_for
from safelight.config import Settings


def api(
    host: HostOption = None,
    port: PortOption = None,
    migrate: Annotated[bool, typer.Option("--migrate/--no-migrate", help="Apply missing migrations first.")] = True,
    config: ConfigOption = None,
) -> None:
    """Serve the API over PostgreSQL and RabbitMQ; run any number of these behind a load balancer."""
    with reported():
        run(settings_for(config, host, port), migrate=migrate)


def run(settings: Settings, *, migrate: bool) -> None:
    """Serve until a signal comes. Raises CommandError, ConfigError."""
    import asyncio

    from actors.bell import BrokerBell
    from actors.progress import make_progress_channel
    from jobstore.registry import open_store
    from safelight.cli.server.distributed import broker_of, require_servers
    from safelight.cli.server.edge import check_edge
    from safelight.cli.server.http import address_of, bind
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.site import outputs_of, prepare, serve_api
    from safelight.cli.server.stopping import StopSignal
    from safelight.telemetry.traces import start_tracing

    require_servers(settings)
    configure_for(settings.log)
    stop = StopSignal()
    with ExitStack() as stack:
        stack.callback(start_tracing(settings.telemetry, "safelight-api"))
        check_edge(settings.server)
        listener = bind(settings.server.host, settings.server.port)
        stack.callback(listener.close)
        broker = broker_of(settings)
        stack.callback(broker.close)
        asyncio.run(prepare(settings.store, settings.server.host, migrate=migrate))
        progress = make_progress_channel(settings.broker)
        stack.callback(progress.close)
        bell = BrokerBell(broker)
        stack.callback(bell.stop)
        bell.start()
        http = serve_api(settings, open_store(settings.store), outputs_of(settings), bell, progress, listener)
        stack.callback(http.stop)
        http.start()
        err().print(f"API at {address_of(listener, settings.server)}", markup=False)
        stop.wait()
