"""``safelight worker``: one of any number of processes that render, one a device."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from safelight.cli.exits import RefusedError, StartError, reported
from safelight.cli.options import ConfigOption, settings_for
from safelight.config import Settings, WorkerSettings

if TYPE_CHECKING:
    from actors.worker import WorkerProcess
    from safelight.cli.server.stopping import StopSignal

_HEALTH_EVERY_S = 2.0


def worker(
    lanes: Annotated[
        str | None,
        typer.Option(help="Lanes to serve, separated by commas.", show_default="[worker] lanes in the settings"),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=256, help="Jobs to hold at once.", show_default="[worker] slots, auto")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda:0, mps, cpu or auto.", show_default="[worker] device, auto")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the worker's Prometheus metrics; 0 for none. Where it is taken, a free one.",
            show_default="[worker] metrics_port, 9091",
        ),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Stay idle once drained, instead of ending with exit code 0.")
    ] = False,
    webhooks_only: Annotated[
        bool, typer.Option("--webhooks-only", help="Render nothing: deliver webhooks, beside no device.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Render jobs from PostgreSQL and RabbitMQ; run one for each GPU, on any number of machines."""
    with reported():
        given = {"lanes": lanes and lanes.split(","), "slots": slots, "device": device, "metrics_port": metrics_port}
        settings = with_worker(
            settings_for(config), {name: value for name, value in given.items() if value is not None}
        )
        if webhooks_only:
            from safelight.cli.server.deliveries import run as deliver

            deliver(settings)
        else:
            run(settings, stay=stay)


def with_worker(settings: Settings, given: dict[str, object]) -> Settings:
    """The settings with options of the command line in ``[worker]``. Raises RefusedError."""
    merged = {**msgspec.structs.asdict(settings.worker), **given}
    try:
        changed = msgspec.convert(merged, WorkerSettings)
    except msgspec.ValidationError as error:
        raise RefusedError(f"--lanes: {error}") from error
    unserved = set(changed.lanes) - set(settings.lanes)
    if unserved:
        raise RefusedError(
            f"no model is in lane {', '.join(sorted(unserved))}; lanes of the settings: {', '.join(settings.lanes)}"
        )
    return msgspec.structs.replace(settings, worker=changed)


def run(settings: Settings, *, stay: bool = False) -> None:
    """Render until a signal comes, then settle within the grace. Raises CommandError, ConfigError.

    A worker that an operator drains ends by itself, unless it is to ``stay``.
    """
    from safelight.cli.server.distributed import require_servers
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stopping import StopSignal
    from safelight.telemetry.traces import start_tracing

    require_servers(settings)
    configure_for(settings.log)
    stop = StopSignal()
    with ExitStack() as stack:
        stack.callback(start_tracing(settings.telemetry, "safelight-worker"))
        process = start_worker(settings, stack)
        serve_metrics(settings.worker, stack)
        _watch(process, stop, stay=stay)


def start_worker(settings: Settings, stack: ExitStack) -> WorkerProcess:
    """A worker that takes jobs; ``stack`` stops it. Raises StartError."""
    import asyncio

    from actors.bell import BrokerBell
    from actors.broker import BrokerSetupError
    from actors.engine import EngineError
    from actors.lifespan import WorkerStartError
    from actors.progress import make_progress_channel
    from actors.worker import WorkerProcess
    from jobstore.registry import open_store
    from safelight.cli.server.distributed import broker_of
    from safelight.cli.server.site import outputs_of, prepare

    broker = broker_of(settings)
    stack.callback(broker.close)
    asyncio.run(prepare(settings.store, None))
    progress = make_progress_channel(settings.broker)
    stack.callback(progress.close)
    bell = BrokerBell(broker)
    stack.callback(bell.stop)
    bell.start()
    outputs = outputs_of(settings)
    process = WorkerProcess(settings, lambda: open_store(settings.store), outputs, broker, bell, progress)
    stack.callback(process.stop)
    try:
        process.start()
    except (EngineError, BrokerSetupError, WorkerStartError) as error:
        raise StartError(str(error)) from error
    except ImportError as error:
        raise StartError(f"a package is missing: {error}", "pip install 'safelight[worker]'") from error
    return process


def serve_metrics(settings: WorkerSettings, stack: ExitStack) -> int | None:
    """Serve Prometheus metrics on the wanted port, or a free one where it is taken; the port, None for none."""
    from prometheus_client import start_http_server

    from safelight.telemetry import get_logger

    log = get_logger(__name__)
    if not settings.metrics_port:
        return None
    try:
        server, _thread = start_http_server(settings.metrics_port, settings.metrics_host)
    except OSError as error:
        log.warning(
            "metrics port taken, using a free one",
            action="worker.metrics_port_taken",
            port=settings.metrics_port,
            error=str(error),
        )
        server, _thread = start_http_server(0, settings.metrics_host)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    port = int(server.server_address[1])
    log.info("metrics served", action="worker.metrics", host=settings.metrics_host, port=port)
    return port


def _watch(process: WorkerProcess, stop: StopSignal, *, stay: bool) -> None:
    """Wait for a signal, or until the worker is drained and isn't to ``stay``.

    Raises StartError when the engine is beyond hope: a fresh process should take its place.
    """
    while stop.wait(_HEALTH_EVERY_S) is None:
        if process.drained and not stay:
            return
        if not process.healthy:
            process.stop(grace_s=0.0)  # nothing that it holds can be finished
            raise StartError("the engine died or hangs; the log says why")
