"""The API in a process of its own, with one more route: a POST that does nothing.

``python -m bench.submit.site PORT`` serves on loopback with the store of ``SAFELIGHT_STORE`` until it is stopped.
"""

from __future__ import annotations

import signal
import sys
import threading

from litestar import post

from actors.bell import BrokerBell
from actors.broker import make_broker
from actors.progress import make_progress_channel
from api.app import create_app
from jobstore.registry import open_outputs, open_store
from safelight.cli.server.http import HttpServer, bind
from safelight.config import load_settings
from safelight.telemetry.logs import configure_logging


@post("/nothing", status_code=202)
async def nothing(data: dict[str, object]) -> dict[str, str]:
    """The least that a handler of this application can do with such a body."""
    del data
    return {"id": "none"}


def main() -> None:
    """Serve."""
    settings = load_settings()
    configure_logging(settings.log)
    broker = make_broker(settings.broker)
    bell = BrokerBell(broker)
    bell.start()
    app = create_app(
        settings,
        store=open_store(settings.store),
        outputs=open_outputs(settings.outputs),
        bell=bell,
        progress=make_progress_channel(settings.broker),
    )
    app.register(nothing)
    server = HttpServer(app, bind("127.0.0.1", int(sys.argv[1])), settings.server, app.state.services.tail.close)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    server.start()
    stopping.wait()
    server.stop()
    bell.stop()


if __name__ == "__main__":
    main()
