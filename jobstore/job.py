"""What a job is."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct, field, structs

from jobstore.quotas import QuotaStatus

SEED_LIMIT = 2**53  # seeds below it are exact in every JSON parser


class JobState(StrEnum):
    """Where a job stands. docs/job-states.md draws the transitions."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD = "dead"

    @property
    def terminal(self) -> bool:
        """True when the job changes no more by itself (a failed or dead one can be redriven)."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.DEAD)


class CacheMode(StrEnum):
    """How a request wants the cache: use it, take any seed's picture, render anew and replace, or leave it alone."""

    USE = "use"
    ANY = "any"
    REFRESH = "refresh"
    OFF = "off"

    @property
    def reads(self) -> bool:
        """True when an earlier picture may answer the request."""
        return self in (CacheMode.USE, CacheMode.ANY)

    @property
    def writes(self) -> bool:
        """True when the picture may answer later requests."""
        return self is not CacheMode.OFF


class CacheOutcome(StrEnum):
    """How a job got its pictures: rendered, found, or by joining an identical render in flight."""

    MISS = "miss"
    HIT = "hit"
    JOINED = "joined"


class PictureFormat(StrEnum):
    """File formats of pictures."""

    PNG = "png"
    JPEG = "jpeg"
    WEBP = "webp"

    @property
    def media_type(self) -> str:
        """The MIME type, e.g. ``image/png``."""
        return f"image/{self.value}"


class AnswerForm(Struct, frozen=True, kw_only=True):
    """How a client that waits for pictures, or asks for them later, wants them told. It decides no pixel.

    ``format`` and ``compression``, 0 to 100, are what the file is turned into; None leaves it as it is. ``quality`` is
    what the request called the steps. ``keep_s`` is for how many seconds from the end of the job the answer can be had.
    """

    links: bool = False
    format: PictureFormat | None = None
    compression: int | None = None
    quality: str = "medium"
    keep_s: int = 3600


class JobRequest(Struct, frozen=True, kw_only=True):
    """A request as resolved: every parameter that a render needs, no default left open.

    ``width`` and ``height`` are in pixels; image ``i`` of ``n`` is drawn with seed ``(seed + i) mod 2^53``.
    ``guidance`` None leaves the guidance scale to the pipeline. ``adapters`` are LoRA adapters of the model's settings
    by name, each with its weight, sorted by name. ``deadline_s`` bounds the time from submit to the end,
    ``start_deadline_s`` that from submit to the first start, both in seconds. ``previews`` is how many denoising steps
    lie between two previews, 0 for none.

    ``image`` is what the render begins from: the SHA-256 of a PNG file that lies among the job's inputs
    (``jobstore.inputs``), and ``mask`` that of another, white where the picture is to change. ``strength`` is the share
    of the steps that are taken from there. ``answer`` is for whoever waits for the pictures. ``fallback_for`` is the
    model that was asked for, where another takes its place, and ``canary_for`` that, where its canary renders.
    """

    model: str
    prompt: str
    negative_prompt: str | None = None
    width: int
    height: int
    n: int = 1
    steps: int
    guidance: float | None = None
    adapters: tuple[tuple[str, float], ...] = ()
    seed: int
    priority: int = 5
    cache: CacheMode = CacheMode.USE
    format: PictureFormat = PictureFormat.PNG
    deadline_s: float | None = None
    start_deadline_s: float | None = None
    start_at: datetime | None = None
    previews: int = 0
    image: str | None = None
    mask: str | None = None
    strength: float | None = None
    answer: AnswerForm | None = None
    fallback_for: str | None = None
    canary_for: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The digests of all pictures that the request brings along."""
        return tuple(digest for digest in (self.image, self.mask) if digest is not None)

    @property
    def first_step(self) -> int:
        """The step that a render begins at: one that begins from a picture leaves out those before it."""
        return 0 if self.strength is None else self.steps - int(self.steps * self.strength)

    @property
    def seeds(self) -> tuple[int, ...]:
        """One seed an image."""
        return tuple((self.seed + index) % SEED_LIMIT for index in range(self.n))


class Picture(Struct, frozen=True, kw_only=True):
    """A picture that lies in the outputs under ``key``."""

    index: int
    key: str
    seed: int
    width: int
    height: int
    sha256: str
    size_bytes: int
    media_type: str


_WHATEVER_THE_MODEL = frozenset(
    {"deadline_exceeded", "invalid_request", "content_filtered", "outputs_unavailable", "canceled"}
)


class JobError(Struct, frozen=True, kw_only=True):
    """Why a job did not succeed.

    ``code`` is stable and for programs: ``deadline_exceeded``, ``out_of_memory``, ``bad_output``,
    ``model_unavailable``, ``outputs_unavailable``, ``invalid_request``, ``content_filtered``, ``adapter_unusable``,
    ``render_failed``, ``worker_lost``, ``provider_busy``, ``provider_unreachable``, ``provider_refused``.
    ``message`` is for people and holds no secret.
    """

    code: str
    message: str

    @property
    def concerns_render(self) -> bool:
        """True when every job that waits for the same pixels would meet the same error."""
        return self.code != "deadline_exceeded"

    @property
    def concerns_model(self) -> bool:
        """True when another model might give what this one could not."""
        return self.code not in _WHATEVER_THE_MODEL


class Replay(Struct, frozen=True, kw_only=True):
    """What makes a repeated submit answer with the job of the first one.

    ``key`` is the client's Idempotency-Key, or one made of the request for clients that retry without; it belongs to
    the API key, and is kept for ``keep_s`` seconds. ``body_sha256`` tells another request under the same key. With
    ``renew`` the submit is a first try: it makes a job, whatever the key made before, and later tries find that one.
    ``instead_of`` names the job in whose place it makes one, if the key still stands for that: of any number of such
    submits one makes the job, and the others find it.
    """

    key: str
    body_sha256: str
    keep_s: float = 86_400.0
    renew: bool = False
    instead_of: UUID | None = None


class Route(Struct, frozen=True, kw_only=True):
    """Another way to render a job, all resolved: what it becomes when the model that was asked for can't.

    A job that has waited ``wait_s`` seconds in its lane takes the route, where somebody serves that.
    """

    request: JobRequest
    lane: str
    batch_key: str
    fingerprint: str
    seedless_fingerprint: str
    price: Decimal
    rate: Decimal | None = None
    wait_s: float = 60.0


class JobWebhook(Struct, frozen=True, kw_only=True):
    """Where a job's own messages go. ``origin`` is the URL's scheme, host and port; ``signed`` tells of a secret."""

    url: str
    origin: str
    events: tuple[str, ...]
    signed: bool = False


class NewJob(Struct, frozen=True, kw_only=True):
    """All that the store needs to accept a job. ``price`` is for the whole job, in ``currency``.

    With a ``rate``, the price of an hour of device time, the job is charged what it took, and ``price`` is the most
    that it is charged. ``weight`` is the share of a lane that the job's API key has beside those of weight 1.
    ``team`` and ``customer`` are those of the key. ``fallbacks`` are taken in order, each once. ``traceparent`` is
    the W3C trace context of the request that made the job. ``warnings`` are told to the user with those of the render.
    ``webhook_secret`` signs what goes to the job's own ``webhook``.
    """

    id: UUID
    request: JobRequest
    lane: str
    batch_key: str
    fingerprint: str
    seedless_fingerprint: str
    price: Decimal
    currency: str
    priority_quantum_s: float = 60.0
    max_attempts: int = 3
    dimensions: dict[str, str] = field(default_factory=dict)
    key_id: UUID | None = None
    team: str | None = None
    customer: str | None = None
    weight: float = 1.0
    replay: Replay | None = None
    rate: Decimal | None = None
    fallbacks: tuple[Route, ...] = ()
    traceparent: str | None = None
    warnings: tuple[str, ...] = ()
    webhook: JobWebhook | None = None
    webhook_secret: str | None = None

    @property
    def lanes(self) -> frozenset[str]:
        """Those that it may come into."""
        return frozenset([self.lane, *(route.lane for route in self.fallbacks)])

    @property
    def stored_webhook(self) -> dict[str, Any] | None:
        """The job's webhook as a store keeps it: with its secret, which no Job brings back."""
        return None if self.webhook is None else structs.asdict(self.webhook) | {"secret": self.webhook_secret}

    @property
    def ceiling(self) -> Decimal:
        """The most that the job can come to, on whatever route."""
        return max([self.price, *(route.price for route in self.fallbacks)])


class Job(Struct, frozen=True, kw_only=True):
    """A job as the store holds it.

    ``leader_id`` names the job whose render this one waits for (``cache`` is then ``joined``).
    ``queue_position`` counts from 1, and ``eta_s`` is how many seconds the lane's devices will need for what stands
    before the job (None when no worker serves the lane); both are told for queued jobs alone, and only as far back as a
    store counts. ``expected_s`` is the device time, in seconds, that the job itself was expected to take at the submit.
    ``gpu_seconds`` is the device time that all its attempts took. ``fallbacks`` are the routes it has not taken yet.
    ``quotas`` are those of its key, team and customer as its submit left them; whoever reads the job is not told.
    """

    id: UUID
    state: JobState
    request: JobRequest
    lane: str
    batch_key: str
    fingerprint: str
    seedless_fingerprint: str
    cache: CacheOutcome
    leader_id: UUID | None = None
    key_id: UUID | None = None
    team: str | None = None
    customer: str | None = None
    dimensions: dict[str, str] = field(default_factory=dict)
    currency: str
    reserved: Decimal = Decimal(0)
    charged: Decimal = Decimal(0)
    gpu_seconds: Decimal = Decimal(0)
    attempts: int = 0
    rescues: int = 0
    max_attempts: int = 3
    cancel_requested: bool = False
    error: JobError | None = None
    warnings: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    queue_position: int | None = None
    eta_s: float | None = None
    expected_s: float = 0.0
    worker_id: UUID | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    start_at: datetime | None = None
    start_by: datetime | None = None
    deadline_at: datetime | None = None
    fallbacks: tuple[Route, ...] = ()
    traceparent: str | None = None
    webhook: JobWebhook | None = None
    quotas: tuple[QuotaStatus, ...] = ()


class JobEvent(Struct, frozen=True, kw_only=True):
    """A durable event of one job. ``seq`` grows with every event of the same job, and is the SSE ``id:``.

    ``kind`` is ``state`` for every change of state and ``done`` for the one that ends the job; ``data`` always holds
    ``state``, and whatever else the change has to tell (``attempt``, ``error``, ``reason``).
    """

    seq: int
    job_id: UUID
    kind: Literal["state", "done"]
    data: dict[str, Any]
    at: datetime
