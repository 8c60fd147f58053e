"""The settings: one TOML file, typed. Every table of ``safelight.toml`` is a struct here, every key a field."""

from __future__ import annotations

import dataclasses
import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from safelight.config.base import Base
from safelight.config.families import FAMILIES, Family, guess_family
from safelight.config.keys import KeySettings
from safelight.config.parallel import ParallelSettings
from safelight.config.pricing import MOST, PricingSettings, Size, amount, by_image
from safelight.config.providers import ProviderSettings
from safelight.config.queueing import LimitSettings, Positive, RetentionSettings, ScalingSettings
from safelight.config.telemetry import TelemetrySettings
from safelight.config.webhooks import WebhookSettings

Port = Annotated[int, Meta(ge=0, le=65535)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")]
Lane = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z")]
Dtype = Literal["auto", "float32", "float16", "bfloat16"]
CacheSetting = Literal["use", "any", "refresh", "off"]


class ServerSettings(Base, frozen=True, kw_only=True):
    """Where the API listens and how much it takes in.

    ``sync_wait_s`` is how long an answer is held back until its pictures are there: less than the 60 seconds after
    which proxies give up. ``public_url`` is where clients find the server, for the links that it hands out; the
    request's own host else. ``url_lifetime_s`` is how long such a link to a picture counts. ``signing_secret`` signs
    them: all API processes need the same; where none is set, one is made and kept in the data folder.
    ``trusted_proxies`` are the addresses and networks whose word counts for who their clients are and whether those
    came over https. ``tls_cert`` and ``tls_key`` are PEM files, the whole chain and its private key. ``grpc_port`` is
    where the same is served over gRPC, up to ``grpc_max_calls`` at a time.
    """

    host: str = "127.0.0.1"
    port: Port = 8080
    body_limit_bytes: Annotated[int, Meta(ge=1024)] = 1_000_000
    upload_limit_bytes: Annotated[int, Meta(ge=1024, le=1_000_000_000)] = 32_000_000
    max_streams: Annotated[int, Meta(ge=1)] = 2_000
    shutdown_grace_s: Positive = 10.0
    sync_wait_s: Positive = 50.0
    public_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?\Z")] = ""
    url_lifetime_s: Annotated[float, Meta(ge=1, le=604_800)] = 3_600.0
    signing_secret: Annotated[str, Meta(pattern=r"^(\S{32,256})?\Z")] = ""
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    tls_cert: str = ""
    tls_key: str = ""
    grpc_port: Port | Literal["off"] = "off"
    grpc_message_limit_bytes: Annotated[int, Meta(ge=1024, le=1_000_000_000)] = 4_000_000
    grpc_max_calls: Annotated[int, Meta(ge=1, le=100_000)] = 500

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key go together: set both, or neither")
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise ValueError(f"trusted_proxies: {error}; name addresses or networks, such as 10.0.0.0/8") from None


class WorkerSettings(Base, frozen=True, kw_only=True):
    """How a worker process takes jobs. ``lease_s`` is how long a silent worker keeps them."""

    lanes: tuple[Lane, ...] = ("default",)
    slots: Annotated[int, Meta(ge=1, le=256)] | Literal["auto"] = "auto"  # auto: a full batch, and two that wait
    device: str = "auto"
    beat_s: Positive = 1.0
    lease_s: Positive = 15.0
    sweep_s: Positive = 2.0
    ring_again_s: Positive = 30.0
    look_s: Positive = 5.0  # how often a worker with a free slot looks for jobs that no bell told of
    max_attempts: Annotated[int, Meta(ge=1, le=20)] = 3
    max_rescues: Annotated[int, Meta(ge=1, le=20)] = 3
    shutdown_grace_s: Positive = 30.0
    metrics_host: str = "127.0.0.1"
    metrics_port: Port = 9091


class EngineSettings(Base, frozen=True, kw_only=True):
    """How the engine batches, compiles and uses memory. docs/engine.md explains each.

    ``max_batch`` is how many pictures step together at most; ``open_groups`` how many batch keys take turns;
    ``patience_s`` how long a request of another key waits before an open group takes no more in.
    """

    max_batch: Annotated[int, Meta(ge=1, le=256)] = 8
    open_groups: Annotated[int, Meta(ge=1, le=16)] = 2
    patience_s: Positive = 10.0
    loaded_models: Annotated[int, Meta(ge=1, le=64)] = 2
    embed_cache_mb: Annotated[int, Meta(ge=0, le=1_000_000)] = 256
    compile: Literal["auto", "off", "regional"] = "auto"  # auto: off on a CPU, where compiling takes a minute
    graphs: Literal["auto", "off"] = "auto"
    graphs_mb: Annotated[int, Meta(ge=0, le=1_000_000)] = 4096
    memory: Literal["auto", "resident", "staged", "grouped"] = "auto"
    knee: Literal["stored", "measure", "off"] = "stored"
    preview_every: Annotated[int, Meta(ge=0, le=1000)] = 0  # denoising steps; 0: no previews
    checkpoint_every_s: Positive | Literal["never"] = 30.0


class AdapterSettings(Base, frozen=True, kw_only=True):
    """A LoRA adapter that requests may name: ``[models.NAME.adapters.ADAPTER]``.

    ``path`` is a safetensors file, a folder that holds one, or a hub id; ``weight`` what a request gets
    that names none.
    """

    path: str
    file: str | None = None  # the file's name in a folder or a hub repository of several
    weight: Annotated[float, Meta(ge=-10, le=10)] = 1.0
    revision: str = ""

    @property
    def identity(self) -> tuple[str, str | None, str]:
        """What the adapter is, wherever it lies: its hub id or last name, its file there, its revision."""
        path = self.path.rstrip("/")
        return (path.rsplit("/", 1)[-1] if path.startswith("/") else path), self.file, self.revision


class JobSettings(Base, frozen=True, kw_only=True):
    """Limits and defaults that hold for every job."""

    cache: CacheSetting = "use"
    seedless_cache: CacheSetting = "use"  # what a request that names neither seed nor cache gets
    cache_scope: Literal["team", "key", "all"] = "team"  # who finds whose pictures, and joins whose renders
    max_prompt_chars: Annotated[int, Meta(ge=1, le=100_000)] = 32_000
    max_images: Annotated[int, Meta(ge=1, le=10)] = 10
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 150
    max_deadline_s: Positive = 86_400.0
    idempotency_s: Positive = 86_400.0
    sdk_retry_window_s: Positive = 600.0
    picture_metadata: bool = True
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")] = "USD"
    # Start-time order: one step of priority counts as much as this many seconds of waiting.
    priority_quantum_s: Positive = 60.0


class QualitySettings(Base, frozen=True, kw_only=True):
    """Denoising steps of the qualities that OpenAI's clients name: ``[models.NAME.quality]``.

    What is not set comes from the model's usual steps: half of them, these, and twice as many.
    """

    low: Annotated[int, Meta(ge=1, le=1000)] | None = None
    medium: Annotated[int, Meta(ge=1, le=1000)] | None = None
    high: Annotated[int, Meta(ge=1, le=1000)] | None = None


class ModelSettings(Base, frozen=True, kw_only=True):
    """One model that the service offers: ``[models.NAME]``.

    ``model`` is a folder in diffusers format (relative to the settings file) or a hub id; all else has defaults. A
    remote model has a ``provider`` instead. ``fallbacks`` are models that take its place, in this order, when its
    renders fail for good or its jobs have waited ``fallback_after_s`` seconds. A canary takes a ``share`` (0 to 1) of
    the jobs of ``canary_of``.
    ``price`` is in the currency of ``[jobs]`` for one picture, a decimal in quotes, so that no cent is rounded; it is
    short for a ``pricing`` that has nothing else.
    ``sizes`` lists the sizes allowed ("WxH"); empty means any multiple of the family's ``size_multiple`` between
    ``min_side`` and ``max_side``. ``max_sequence_length`` is the text encoder's length in tokens.
    """

    model: str = ""
    family: str = ""
    revision: str = ""
    variant: str | None = None
    dtype: Dtype = "auto"
    lane: Lane = ""  # "default", or "remote" for a remote model
    steps: Annotated[int, Meta(ge=1, le=1000)] | None = None
    guidance: Annotated[float, Meta(ge=0, le=100)] | None = None
    sizes: tuple[Size, ...] = ()
    default_size: Size | None = None
    min_side: Annotated[int, Meta(ge=8)] = 256
    max_side: Annotated[int, Meta(ge=8, le=8192)] = 2048
    max_sequence_length: Annotated[int, Meta(ge=1, le=4096)] | None = None
    price: str = "0"
    pricing: PricingSettings | None = None
    aliases: tuple[Name, ...] = ()
    adapters: dict[Name, AdapterSettings] = field(default_factory=dict)
    quantize: Literal["none", "int8", "float8", "layerwise-float8"] = "none"
    memory: Literal["auto", "resident", "staged", "grouped"] | None = None  # None: what [engine] says
    max_batch: Annotated[int, Meta(ge=1, le=256)] | None = None
    fps: Annotated[int, Meta(ge=1, le=120)] = 16  # frames a second of a video pipeline
    quality: QualitySettings = field(default_factory=QualitySettings)
    parallel: ParallelSettings | None = None

    provider: ProviderSettings | None = None
    fallbacks: Annotated[tuple[Name, ...], Meta(max_length=8)] = ()
    fallback_after_s: Positive = 60.0
    canary_of: str = ""
    share: Annotated[float, Meta(ge=0, le=1)] = 0.05

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        if not self.lane:
            msgspec.structs.force_setattr(self, "lane", "default" if self.provider is None else "remote")
        if self.provider is None and not self.model:
            raise ValueError("the key 'model' is missing")
        if self.provider is not None and self.prices.rate is not None:
            raise ValueError("gpu_hour is for models that are rendered here: a provider's device time isn't known")
        if self.provider is not None and (self.model or self.adapters):
            stray = "model" if self.model else "adapters"
            raise ValueError(f"{stray} is for models that are rendered here; [models.NAME.provider] says what is asked")
        if self.family and self.family not in FAMILIES:
            raise ValueError(f"family {self.family!r} is unknown; known are {', '.join(sorted(FAMILIES))}")
        self._check_prices()
        self._check_parallel()
        if self.sizes and self.default_size and self.default_size not in self.sizes:
            raise ValueError(f"default_size {self.default_size} is not in sizes")

    @property
    def traits(self) -> Family:
        """The family's traits; guessed from the model's name where the settings don't say."""
        family = FAMILIES[self.family or guess_family(self._called)]
        if self.provider is None or self.provider.extra:
            return family
        return dataclasses.replace(family, negative_prompt=False)  # it isn't sent

    @property
    def _called(self) -> str:
        return self.model if self.provider is None else self.provider.model

    @property
    def lossy(self) -> str:
        """How its pictures come about where they differ from those of one device by more than rounding; else empty."""
        return "" if self.parallel is None else self.parallel.look

    @property
    def takes_images(self) -> bool:
        """True where a render may begin from a picture: on our own devices, in a family that is known to."""
        return self.provider is None and self.traits.takes_images

    @property
    def identity(self) -> str:
        """The model's id without the place where it lies: the hub id, a folder's last name, or the provider's."""
        if self.provider is not None:
            return self.provider.identity
        return self.model.rsplit("/", 1)[-1] if self.model.startswith("/") else self.model

    @property
    def default_steps(self) -> int:
        """Denoising steps when a request names none."""
        if self.steps is not None:
            return self.steps
        return 4 if "schnell" in self._called.lower() or "turbo" in self._called.lower() else self.traits.steps

    @property
    def default_guidance(self) -> float | None:
        """Guidance scale when a request names none; None leaves it to the pipeline."""
        if self.guidance is not None or self.provider is not None:
            return self.guidance
        return 0.0 if "schnell" in self.model.lower() else self.traits.guidance

    @property
    def usual_size(self) -> str:
        """The size ("WxH", pixels) when a request names none."""
        if self.default_size:
            return self.default_size
        if self.sizes:
            return self.sizes[0]
        side = min(1024, self.max_side)
        return f"{side}x{side}"

    def _check_parallel(self) -> None:
        if self.parallel is None:
            return
        if self.provider is not None:
            raise ValueError("parallel is for models that are rendered here")
        if self.adapters:
            raise ValueError("adapters: a model on several devices takes none; offer it once more without parallel")
        if self.memory == "grouped":
            raise ValueError("memory: grouped streams a denoiser into one device; with parallel: resident or staged")
        self.parallel.check_family(self.traits.name)

    def _check_prices(self) -> None:
        if amount("price", self.price) and self.pricing is not None:
            raise ValueError("price is short for pricing.per_image: write one of them")
        if self.sizes and (strays := [size for size in self.prices.sizes if size not in self.sizes]):
            raise ValueError(f"pricing.sizes: {', '.join(strays)} is not in sizes")
        sides = [[int(side) for side in size.split("x")] for size in (*self.sizes, *self.prices.sizes)]
        for width, height in (*sides, (self.max_side, self.max_side)):
            if self.prices.per_picture(width, height, 1000, 4) > MOST:
                raise ValueError(f"pricing: a picture of {width}x{height} in 1000 steps comes to more than a million")

    @property
    def prices(self) -> PricingSettings:
        """What its pictures cost."""
        return self.pricing or by_image(self.price)


class LogSettings(Base, frozen=True, kw_only=True):
    """Logs are JSON lines on standard error; ``console`` is for people at a terminal."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class Settings(Base, frozen=True, kw_only=True):
    """Everything that can be set. URLs and the data folder can be overridden by the environment.

    ``store``: ``embedded``, ``postgresql://…`` or ``sqlite:///…`` · ``broker``: ``memory`` or ``amqp://…`` ·
    ``outputs``: empty (a folder below ``home``), ``file://…`` or ``s3://bucket/prefix``.
    """

    home: str = ".safelight"
    store: str = "embedded"
    broker: str = "memory"
    outputs: str = ""
    model: str | None = None  # a hub id or path: shorthand for a [models.*] table with nothing but defaults
    default_model: str | None = None
    server: ServerSettings = field(default_factory=ServerSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    log: LogSettings = field(default_factory=LogSettings)
    keys: KeySettings = field(default_factory=KeySettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    models: dict[Name, ModelSettings] = field(default_factory=dict)

    @property
    def knees_file(self) -> Path:
        """Where measured batch sizes are kept."""
        return Path(self.home) / "knees.json"

    def find_model(self, name: str) -> tuple[str, ModelSettings] | None:
        """The model of that name or alias, with its own name."""
        if name in self.models:
            return name, self.models[name]
        return next(((own, model) for own, model in self.models.items() if name in model.aliases), None)

    @property
    def slots(self) -> int:
        """How many jobs a worker holds at once: enough to fill the largest batch while two more come and go.

        And as many as its providers are asked for at once.
        """
        if self.worker.slots != "auto":
            return self.worker.slots
        served = [model for model in self.models.values() if model.lane in self.worker.lanes]
        remote = sum(model.provider.max_concurrency for model in served if model.provider is not None)
        own = max([self.engine.max_batch, *(model.max_batch or 0 for model in served)]) + 2
        return min(256, own * self.renders + remote)

    @property
    def renders(self) -> bool:
        """True unless all that a worker serves is remote: then it needs no device."""
        served = [model for model in self.models.values() if model.lane in self.worker.lanes]
        return not served or any(model.provider is None for model in served)

    @property
    def lanes(self) -> tuple[str, ...]:
        """All lanes that a model is served in, sorted."""
        return tuple(sorted({model.lane for model in self.models.values()}))

    @property
    def remote_lanes(self) -> tuple[str, ...]:
        """Those with remote models."""
        return tuple(sorted({model.lane for model in self.models.values() if model.provider is not None}))

    def with_remote_lanes(self) -> Settings:
        """The same for a process that is everything in one: its worker serves the lanes of remote models too."""
        lanes = tuple(dict.fromkeys((*self.worker.lanes, *self.remote_lanes)))
        return msgspec.structs.replace(self, worker=msgspec.structs.replace(self.worker, lanes=lanes))
