"""What goes over the wire. Field names are the API; docs/api.md explains them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.price_schemas import PricingView
from api.webhook_schemas import Url, WebhookRequest, WebhookView
from jobstore.job import CacheMode, CacheOutcome, JobError, JobState, PictureFormat
from safelight.config.settings import Name

DimensionName = Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
DimensionValue = Annotated[str, Meta(max_length=256)]
Adapters = (
    Annotated[dict[Name, Annotated[float, Meta(ge=-10, le=10)]], Meta(max_length=4)]
    | Annotated[list[Name], Meta(max_length=4)]
)
Seed = int | Annotated[str, Meta(pattern=r"^(-1|0|[1-9][0-9]{0,15})\Z")]


class SubmitRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for pictures. Whatever is left out gets the model's default; unknown fields are refused.

    ``size`` is "WxH" in pixels. ``seed`` is 0 to 2^53-1, as a number or a string; absent, null or -1 draws one.
    ``cache``: ``use`` an earlier picture of the same request, ``any`` with whatever seed, ``refresh`` or ``off``.
    ``deadline_s`` bounds the time from acceptance to the end, ``start_deadline_s`` that to the first start, both in
    seconds. ``start_at`` is RFC 3339 with a time zone. ``adapters`` are LoRA adapters of the model: names with weights,
    or names alone. ``previews`` asks for small pictures of the render under way: yes or no, or every so many steps.
    ``webhook`` is told of the job: a URL, or what it is to be told too.
    """

    later: ClassVar[tuple[str, ...]] = ("adapters", "previews", "webhook")
    """Fields that came later: where they aren't sent, the digest of a request is what it was without them."""

    prompt: Annotated[str, Meta(min_length=1)]
    model: str | None = None
    negative_prompt: str | None = None
    size: str | None = None
    n: Annotated[int, Meta(ge=1, le=10)] = 1
    steps: Annotated[int, Meta(ge=1, extra_json_schema={"maximum": 1000})] | None = None
    guidance: Annotated[float, Meta(ge=0, le=100)] | None = None
    adapters: Adapters | None = None
    seed: Seed | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 5
    cache: CacheMode | None = None
    format: PictureFormat = PictureFormat.PNG
    dimensions: Annotated[dict[DimensionName, DimensionValue], Meta(max_length=16)] = {}
    deadline_s: Annotated[float, Meta(gt=0)] | None = None
    start_deadline_s: Annotated[float, Meta(gt=0)] | None = None
    start_at: Annotated[datetime, Meta(tz=True)] | None = None
    previews: bool | Annotated[int, Meta(ge=0, le=1000)] | None = None
    webhook: WebhookRequest | Url | None = None


class JobSubmit(SubmitRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submit of a job. With an ``image``, a PNG, JPEG or WebP file as a data URL or in base64, the render begins from
    there: it is scaled to the size, or the size is the model's nearest to its shape. ``mask`` is a file as large, and
    transparent where the picture is to change; without one, transparent parts of the picture are what changes, or all
    of it. ``strength`` is the share of the steps that are taken from there.
    """

    later: ClassVar[tuple[str, ...]] = (*SubmitRequest.later, "image", "mask", "strength")

    image: Annotated[str, Meta(min_length=1)] | None = None
    mask: Annotated[str, Meta(min_length=1)] | None = None
    strength: Annotated[float, Meta(gt=0, le=1)] | None = None


class RequestView(Struct, frozen=True, kw_only=True):
    """The request as resolved: no default left open.

    ``image`` and ``mask`` are the SHA-256 of the pictures that it began from, as they were brought to its size.
    """

    model: str
    prompt: str
    negative_prompt: str | None
    size: str
    n: int
    steps: int
    guidance: float | None
    adapters: dict[str, float]
    seed: int
    priority: int
    cache: CacheMode
    format: PictureFormat
    deadline_s: float | None
    start_deadline_s: float | None
    start_at: datetime | None
    previews: int
    image: str | None
    mask: str | None
    strength: float | None


class PreviewView(Struct, frozen=True, kw_only=True):
    """A small approximate picture of image ``index`` after ``step`` of ``steps`` denoising steps, as a data URL."""

    index: int
    step: int
    steps: int
    image: str


class ProgressView(Struct, frozen=True, kw_only=True):
    """``step`` of ``steps`` denoising steps; ``fraction`` of the whole job, 1.0 only when it succeeded."""

    step: int
    steps: int
    fraction: float


class QueueView(Struct, frozen=True, kw_only=True):
    """``position`` counts from 1, null when the job doesn't wait. ``eta_s``: seconds until it probably starts, null
    when nobody serves its lane. ``paused``: its lane is, and nothing of it is started until it is resumed."""

    position: int | None
    eta_s: float | None
    paused: bool


class ImageView(Struct, frozen=True, kw_only=True):
    """A picture of a job; ``url`` is relative to the server, ``width`` and ``height`` are in pixels."""

    index: int
    url: str
    seed: int
    width: int
    height: int
    sha256: str


class CostView(Struct, frozen=True, kw_only=True):
    """Decimals as strings, so that no cent is rounded. ``gpu_seconds`` is the job's share of the device's time."""

    currency: str
    reserved: str
    charged: str
    gpu_seconds: str


class JobView(Struct, frozen=True, kw_only=True):
    """A job as clients see it. ``model`` renders it; ``fallback_for`` is the one that was asked for, where that is
    another, and ``canary_for`` that, where its canary renders."""

    id: UUID
    object: Literal["job"] = "job"
    state: JobState
    model: str
    fallback_for: str | None
    canary_for: str | None
    request: RequestView
    progress: ProgressView
    queue: QueueView
    images: tuple[ImageView, ...]
    cache: CacheOutcome
    cost: CostView
    attempts: int
    error: JobError | None
    warnings: tuple[str, ...]
    dimensions: dict[str, str]
    cancel_requested: bool
    webhook: WebhookView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobList(Struct, frozen=True, kw_only=True):
    """Jobs, newest first. ``next_cursor`` asks for the next page; null on the last.

    ``stopped_early`` says that the search had looked at as many jobs as it may before the page was full.
    """

    object: Literal["list"] = "list"
    data: tuple[JobView, ...]
    next_cursor: str | None
    stopped_early: bool


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the lane is paused, for whoever looks at it."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class LaneView(Struct, frozen=True, kw_only=True):
    """A lane. ``oldest_s`` is the age of the job that waits longest, ``waiting_s`` the device time that what is queued
    will take, both in seconds; ``devices`` counts live workers that aren't draining, and ``drain_s`` is how many
    seconds they will need to start what is queued now, null without any."""

    name: str
    object: Literal["lane"] = "lane"
    paused: bool
    paused_at: datetime | None
    reason: str
    scheduled: int
    queued: int
    running: int
    oldest_s: float
    waiting_s: float
    devices: int
    drain_s: float | None


class LaneList(Struct, frozen=True, kw_only=True):
    """The lanes of the settings, and those that hold jobs all the same."""

    object: Literal["list"] = "list"
    data: tuple[LaneView, ...]


class ModelView(Struct, frozen=True, kw_only=True):
    """A model in OpenAI's form, and what a form for it needs to know. ``created`` is 0: it isn't known.

    ``aliases`` are other names that it may be asked for by. Where ``sizes`` is empty, any size will do whose sides are
    multiples of ``size_multiple`` from ``min_side`` to ``max_side``; else those are the shortest and the longest side
    of ``sizes``. ``default_guidance`` is null where the pipeline
    decides. ``adapter_weights`` are what the adapters get where a request says nothing else. ``takes_images`` tells
    whether a render may begin from a picture. ``lossy`` is null where a picture depends on its request alone, up to
    rounding; else it says how several devices make it in less time, and not quite the same.
    """

    id: str
    aliases: tuple[str, ...]
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "safelight"
    sizes: tuple[str, ...]
    default_size: str
    min_side: int
    max_side: int
    size_multiple: int
    default_steps: int
    default_guidance: float | None
    negative_prompt: bool
    takes_images: bool
    adapters: tuple[str, ...]
    adapter_weights: dict[str, float]
    default: bool
    pricing: PricingView
    lossy: str | None


class ModelList(Struct, frozen=True, kw_only=True):
    """The models on offer."""

    object: Literal["list"] = "list"
    data: tuple[ModelView, ...]


class PartHealth(Struct, frozen=True, kw_only=True):
    """One part. ``detail`` says what fails, without internals."""

    name: str
    ok: bool
    detail: str


class Health(Struct, frozen=True, kw_only=True):
    """``ok`` when every part is."""

    status: Literal["ok", "failing"]
    version: str
    parts: tuple[PartHealth, ...]


class WorkerHealth(Struct, frozen=True, kw_only=True):
    """A worker that gave a sign of life within its lease."""

    host: str
    device: str
    lanes: tuple[str, ...]


class LaneHealth(Struct, frozen=True, kw_only=True):
    """How many jobs of a lane have not ended."""

    lane: str
    scheduled: int = 0
    queued: int = 0
    running: int = 0


class Overview(Health, frozen=True, kw_only=True):
    """Health with the live workers and the backlog; ``warnings`` tell what wants a person, though nothing fails."""

    workers: tuple[WorkerHealth, ...]
    backlog: tuple[LaneHealth, ...]
    warnings: tuple[str, ...]
