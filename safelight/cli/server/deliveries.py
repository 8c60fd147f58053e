"""``safelight worker --webhooks-only``: a process that delivers webhooks and renders nothing."""

from __future__ import annotations

from contextlib import ExitStack

from safelight.cli.exits import StartError
from safelight.config import Settings

_HEALTH_EVERY_S = 2.0


def run(settings: Settings) -> None:
    """Deliver until a signal comes. Raises CommandError, ConfigError."""
    import asyncio

    from actors.broker import BrokerSetupError
    from actors.webhooks.process import DeliveryProcess, DeliveryStartError
    from jobstore.registry import open_store
    from safelight.cli.server.distributed import broker_of, require_servers
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.site import prepare
    from safelight.cli.server.stopping import StopSignal
    from safelight.cli.server.worker import serve_metrics

    require_servers(settings)
    configure_for(settings.log)
    stop = StopSignal()
    with ExitStack() as stack:
        broker = broker_of(settings)
        stack.callback(broker.close)
        asyncio.run(prepare(settings.store, None))
        process = DeliveryProcess(settings, lambda: open_store(settings.store), broker)
        stack.callback(process.stop)
        try:
            process.start()
        except (BrokerSetupError, DeliveryStartError) as error:
            raise StartError(str(error)) from error
        serve_metrics(settings.worker, stack)
        while stop.wait(_HEALTH_EVERY_S) is None:
            pass
