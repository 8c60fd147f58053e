"""A real API process in a thread: HTTP on a port of its own, PostgreSQL behind it, a recorded bell."""

from __future__ import annotations

import asyncio
import hashlib
import io
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID, uuid4

import msgspec
import uvicorn
from litestar import Litestar
from PIL import Image

from actors.previewing import encoded
from api.app import bare_app, furnish
from api.services import Services
from jobstore.job import JobRequest, Picture, PictureFormat
from jobstore.live import Message, Preview, Progress
from jobstore.outputs import Outputs, picture_key
from jobstore.pictures import encode
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import Finish, Lease, Settled, Worker
from safelight.config import JobSettings, ModelSettings, ServerSettings, Settings
from safelight.config.settings import AdapterSettings

T = TypeVar("T")
LIMIT_S = 20.0

SETTINGS = Settings(
    default_model="scenes",
    models={
        "scenes": ModelSettings(
            model="/models/scenes", family="flux", revision="r1", steps=8, guidance=0.0,
            sizes=("128x128", "64x64"), price="0.01", aliases=("shapes",),
            adapters={"watercolor": AdapterSettings(path="/loras/w", weight=0.7), "ink": AdapterSettings(path="a/i")},
        ),
        "wide": ModelSettings(model="/models/wide", family="sdxl", revision="r1", lane="big", price="0.002"),
    },
    server=ServerSettings(body_limit_bytes=50_000, max_streams=600),
    jobs=JobSettings(max_prompt_chars=2_000, max_steps=100),
)  # fmt: skip


class RecordedBell:
    """Remembers which lanes were rung."""

    def __init__(self) -> None:
        """Silent so far."""
        self.rung: list[str] = []
        self.away = False

    def ring(self, lane: str) -> None:
        """Note it."""
        self.rung.append(lane)


class Channel:
    """Progress within the process."""

    def __init__(self) -> None:
        """Nobody listens."""
        self._listeners: list[Callable[[Message], None]] = []

    def publish(self, message: Message) -> None:
        """Tell everyone."""
        for listener in [*self._listeners]:
            listener(message)

    def listen(self, listener: Callable[[Message], None]) -> Callable[[], None]:
        """Add a listener; the result removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


_SPARE: defaultdict[ServerSettings, list[Litestar]] = defaultdict(list)


def _borrowed(server: ServerSettings) -> Litestar:
    """An application that nobody uses at the moment: making its routes takes longer than most tests."""
    spare = _SPARE[server]
    return spare.pop() if spare else bare_app(server)


class _Server(uvicorn.Server):
    """Tells when all that is behind it is open."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class Site:
    """The application with all that is behind it."""

    def __init__(self, database: str, outputs: Outputs, settings: Settings = SETTINGS) -> None:
        """Nothing runs before ``serve``."""
        self.settings = settings
        self.outputs = outputs
        self.bell = RecordedBell()
        self.channel = Channel()
        self.app = _borrowed(settings.server)
        furnish(
            self.app, settings, store=PostgresStore(database), outputs=outputs, bell=self.bell, progress=self.channel
        )
        self.services: Services = self.app.state.services
        self.url = ""
        self.server: _Server
        self._loop: asyncio.AbstractEventLoop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, run in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    @contextmanager
    def serve(self) -> Iterator[Site]:
        """Serve in a thread until the block ends; leaving must take a bounded time."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(self.app, log_config=None, lifespan="on", timeout_graceful_shutdown=10)
        self.server = _Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(listener)), daemon=True)
        thread.start()
        assert self.server.up.wait(LIMIT_S), "the server did not start"
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self.services.tail.close)
            self.server.should_exit = True
            thread.join(LIMIT_S)
            assert not thread.is_alive(), "the server did not leave"
            _SPARE[self.settings.server].append(self.app)

    async def _serve(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        await self.server.serve([listener])


class Driver:
    """Does to the store what a worker would do."""

    def __init__(self, site: Site, lanes: tuple[str, ...] = ("default",)) -> None:
        """A worker of ``lanes``."""
        self._site = site
        self._worker = Worker(id=uuid4(), host="test", pid=1, device="cpu", lanes=lanes)

    def claim(self) -> Lease:
        """The next job; there must be one."""
        lease = self._site.call(self._site.services.store.claim(self._worker, self._worker.lanes))
        assert lease is not None
        return lease

    def step(self, job_id: UUID, step: int, steps: int = 8, *, attempt: int = 0) -> None:
        """Say that a step is done."""
        self._site.channel.publish(
            Progress(job_id=job_id, step=step, steps=steps, fraction=step / (steps + 1), attempt=attempt)
        )

    def preview(self, job_id: UUID, step: int, index: int = 0, *, attempt: int = 0, colour: str = "red") -> None:
        """Show how far an image is."""
        image = encoded(Image.new("RGB", (32, 32), colour))
        message = Preview(
            job_id=job_id, attempt=attempt, index=index, step=step, steps=8, image=image, media_type="image/jpeg"
        )
        self._site.channel.publish(message)

    def finish(self, lease: Lease) -> Settled:
        """Put one-coloured pictures in the outputs and settle."""
        request = lease.job.request
        pictures = tuple(self._picture(lease, index, seed, request.format) for index, seed in enumerate(request.seeds))
        result = Finish(pictures=pictures, gpu_seconds=Decimal("0.5"), device="cpu")
        settled = self._site.call(self._site.services.store.finish(lease.token, result))
        assert settled is not None
        return settled

    def render(self) -> Lease:
        """Claim and finish the next job."""
        lease = self.claim()
        self.finish(lease)
        return lease

    def image(self, request: JobRequest, index: int, seed: int) -> Image.Image:
        """What comes of a seed."""
        return Image.new("RGB", (request.width, request.height), (seed % 256, index, 7))

    def _picture(self, lease: Lease, index: int, seed: int, picture_format: PictureFormat) -> Picture:
        request = lease.job.request
        image = self.image(request, index, seed)
        data = encode(image, picture_format, f"{request.prompt}\nSeed: {seed}")
        key = picture_key(lease.job.id, lease.token, index, picture_format)
        self._site.call(self._site.outputs.put(key, data, picture_format.media_type))
        return Picture(
            index=index, key=key, seed=seed, width=request.width, height=request.height,
            sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), media_type=picture_format.media_type,
        )  # fmt: skip


def with_server(settings: Settings, **changes: Any) -> Settings:
    """The same settings with other ones for the server."""
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, **changes))


def with_jobs(settings: Settings, **changes: Any) -> Settings:
    """The same settings with other ones for jobs."""
    return msgspec.structs.replace(settings, jobs=msgspec.structs.replace(settings.jobs, **changes))


def image_of(data: bytes) -> Image.Image:
    """The picture in a response's body."""
    return Image.open(io.BytesIO(data))
