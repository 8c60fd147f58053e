"""The Litestar application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from api.admin.rendering import template_config
from api.admin.routes import admin_routes
from api.admin.sessions import Sessions
from api.assets import read_asset
from api.audit import list_audit
from api.auth import needs_key
from api.backpressure import Backpressure
from api.canaries import Canaries
from api.canary_routes import CANARY_ROUTES
from api.costs import COST_ROUTES
from api.deliveries import DELIVERY_ROUTES
from api.events import watch_job
from api.frame import Application
from api.gauges import StoreGauges
from api.health import healthz, livez, metrics, readyz
from api.images import read_image
from api.jobs import cancel_job, list_models, read_job, retry_job, submit_job
from api.keyring import KeyRing, require_keys, warn_without_pepper
from api.keys import change_key, create_key, list_keys, read_key, revoke_key, rotate_key
from api.lanes import list_lanes, pause_lane, resume_lane
from api.live import LiveProgress
from api.me import read_me
from api.openai.edits import edit_images
from api.openai.generations import generate_images, generate_later, poll_images, poll_later
from api.openai.linked import read_linked
from api.openai.links import LinkSigner
from api.openai.models import read_model
from api.openapi import ApiDocument
from api.operating.routes import OPERATING_ROUTES
from api.pages import asset, documentation, openapi_document
from api.playground import PLAYGROUND_ROUTES
from api.prices import price_job
from api.problems import EXCEPTION_HANDLERS
from api.quota_problems import QUOTA_HANDLERS
from api.quotas import change_quota, create_quota, delete_quota, list_quotas, read_quota
from api.services import Services
from api.shutdown import on_termination
from api.tail import Tail
from api.watching import watch_jobs
from api.webhooks import WEBHOOK_ROUTES
from jobstore.janitor import Janitor
from jobstore.live import Bell, Message, Progress, ProgressChannel
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore
from jobstore.sweeper import Sweeper
from safelight.config import ConfigError, ServerSettings, Settings


def create_app(
    settings: Settings,
    *,
    store: JobStore,
    outputs: Outputs,
    bell: Bell,
    progress: ProgressChannel,
    own_secret: str | None = None,
) -> Litestar:
    """The API over an unopened ``store``: its lifespan opens it, listens to ``progress``, and closes both again.

    ``app.state.services.tail.close()`` ends all event streams; SIGTERM and SIGINT do so by themselves when the
    application runs in the main thread. ``own_secret`` is an admin's key that lives in this process's memory alone: who
    owns the store needs no leave to use it. Starting raises ConfigError where ``require_keys`` does.
    """
    app = bare_app(settings.server)
    furnish(app, settings, store=store, outputs=outputs, bell=bell, progress=progress, own_secret=own_secret)
    return app


def bare_app(server: ServerSettings) -> Litestar:
    """The routes with nothing behind them yet: ``furnish`` it before it serves."""
    document = ApiDocument(lambda: _described(server))
    app = Application(
        route_handlers=[
            *_described(server),
            *PLAYGROUND_ROUTES,
            asset,
            documentation,
            openapi_document,
            read_asset,
            admin_routes(server.body_limit_bytes),
        ],
        dependencies={
            "services": Provide(lambda: app.state.services, sync_to_thread=False),
            "gauges": Provide(lambda: app.state.gauges, sync_to_thread=False),
            "document": Provide(lambda: document, sync_to_thread=False),
        },
        exception_handlers={**EXCEPTION_HANDLERS, **QUOTA_HANDLERS},
        lifespan=[_lifespan],
        openapi_config=None,
        template_config=template_config(),
        request_max_body_size=server.body_limit_bytes,
        logging_config=None,
    )
    return app


def furnish(
    app: Litestar,
    settings: Settings,
    *,
    store: JobStore,
    outputs: Outputs,
    bell: Bell,
    progress: ProgressChannel,
    own_secret: str | None = None,
) -> None:
    """Put all that ``create_app`` names behind a bare application that doesn't serve."""
    keys = KeyRing(store, settings.server.host, own_secret, settings.keys.pepper)
    app.state.services = Services(
        settings=settings,
        store=store,
        outputs=outputs,
        bell=bell,
        live=LiveProgress(),
        tail=Tail(store, settings.server.max_streams),
        keys=keys,
        backpressure=Backpressure(store, settings.limits),
        canaries=Canaries(store, settings),
        links=LinkSigner(settings),
        sessions=Sessions(settings, keys),
    )
    app.state.gauges = StoreGauges(store, outputs, bell, settings)
    app.state.progress = progress


def _described(server: ServerSettings) -> list[ControllerRouterHandler]:
    """The routes that are the API; the rest are pages."""
    most = server.upload_limit_bytes  # of bodies that may hold pictures
    with_pictures = [
        Router("/images", route_handlers=[edit_images], request_max_body_size=most),
        Router("/jobs", route_handlers=[submit_job], request_max_body_size=most),
    ]
    v1 = Router(
        "/v1",
        before_request=needs_key,
        security=[{"key": []}, {}],
        route_handlers=[
            read_job, cancel_job, retry_job, watch_job, watch_jobs, read_image,
            list_models, list_lanes, pause_lane, resume_lane, price_job,
            list_quotas, create_quota, read_quota, change_quota, delete_quota, read_me,
            list_keys, create_key, read_key, change_key, rotate_key, revoke_key, list_audit,
            generate_images, poll_images, generate_later, poll_later, read_model, *with_pictures,
            *WEBHOOK_ROUTES, *DELIVERY_ROUTES, *COST_ROUTES, *OPERATING_ROUTES, *CANARY_ROUTES,
        ],
    )  # fmt: skip
    return [v1, read_linked, livez, readyz, healthz, metrics]


@asynccontextmanager
async def _lifespan(app: Litestar) -> AsyncIterator[None]:
    """Everything that is open while the application serves, closed in reverse order."""
    services: Services = app.state.services
    progress: ProgressChannel = app.state.progress
    loop = asyncio.get_running_loop()

    def hear(message: Message) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody watches any more
            loop.call_soon_threadsafe(_note, services, message)

    async with AsyncExitStack() as stack:
        await services.store.open()
        stack.push_async_callback(services.store.close)
        await require_keys(services.settings.server.host, services.store)
        await warn_without_pepper(services.store, services.settings.keys.pepper)
        stack.callback(services.pixels.close)
        stack.callback(progress.listen(hear))
        await services.backpressure.refresh()
        stack.push_async_callback(services.backpressure.close)
        for name, run in _beside(services).items():
            stack.push_async_callback(_stop, asyncio.create_task(run(), name=name))
        await _serve_grpc(app, services, stack)
        stack.callback(services.tail.close)
        stack.enter_context(on_termination(services.tail.close))
        yield


async def _serve_grpc(app: Litestar, services: Services, stack: AsyncExitStack) -> None:
    """Serve gRPC beside, where the settings say so; it is not even imported else. Raises ConfigError."""
    if services.settings.server.grpc_port == "off":
        return
    try:
        from api.grpc.server import GrpcServer
    except ImportError as error:
        raise ConfigError(
            f"[server] grpc_port is set and {error.name} is missing: pip install 'safelight[grpc]'"
        ) from error
    server = GrpcServer(app, services)
    await server.start()
    stack.push_async_callback(server.stop)
    services.tail.on_close(server.leave)
    app.state.grpc_port = server.port


def _beside(services: Services) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """What runs beside the requests until the process ends, by name."""
    sweeper = Sweeper(services.store, services.bell, services.settings.worker)
    janitor = Janitor(services.store, services.outputs, services.settings.retention)
    beside = {"event-tail": services.tail.run, "sweeper": sweeper.run, "janitor": janitor.run}
    return {**beside, "canaries": services.canaries.run}


def _note(services: Services, message: Message) -> None:
    if isinstance(message, Progress):
        services.live.note(message)
    services.tail.note(message)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
