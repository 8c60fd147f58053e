"""Prometheus metrics. Labels are bounded: models and lanes come from the settings, never from a request's text.

docs/metrics.md lists them all. A counter whose first sample is already 1 tells Prometheus of no increase, so what
alerts count is there at 0 from the start: by words here, by model from ``begin_models`` on.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from safelight import __version__

_RENDER_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
# Finer than a factor of two: a fifth more is to be seen.
_COMPLETION_BUCKETS = (
    0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 80, 120, 160, 240, 360, 600, 900, 1800, 3600, 14400,
)  # fmt: skip


def _worded(name: str, documentation: str, label: str, words: Iterable[str]) -> Counter:
    """A counter by the words of one label, each at 0 from the start."""
    counter = Counter(name, documentation, (label,))
    for word in words:
        counter.labels(word)
    return counter


BUILD_INFO = Gauge("safelight_build_info", "1; the labels tell what runs.", ("version", "python"))
BUILD_INFO.labels(__version__, platform.python_version()).set(1)

JOBS_SUBMITTED = Counter(
    "safelight_jobs_submitted_total", "Jobs accepted, by how the cache answered.", ("model", "cache")
)
SUBMITS_REFUSED = _worded(
    "safelight_submits_refused_total",
    "Submits refused because too many jobs wait or a quota has no room, by the limit reached.",
    "limit",
    ("max_queued", "max_queued_per_lane", "max_queued_per_key", "quota_spend", "quota_requests", "quota_concurrency"),
)
SUBMITS_REPLAYED = Counter(
    "safelight_submits_replayed_total",
    "Repeated submits that got the first one's job, by what told: key, sdk.",
    ("by",),
)
JOBS_FINISHED = Counter("safelight_jobs_finished_total", "Jobs that a worker settled.", ("model", "state"))
JOBS_UNFINISHED = Gauge("safelight_jobs_unfinished", "Jobs not yet at their end.", ("lane", "state"))
QUEUE_OLDEST_SECONDS = Gauge(
    "safelight_queue_oldest_wait_seconds", "Age of the queued job that waits longest, in seconds.", ("lane",)
)
QUEUE_EXPECTED_SECONDS = Gauge(
    "safelight_queue_expected_seconds", "Device time that the queued jobs are expected to take together.", ("lane",)
)
LANE_WANTED = Gauge("safelight_lane_wanted_workers", "Workers that the lane should have.", ("lane",))
LANE_WORKERS = Gauge("safelight_lane_workers", "Workers that beat lately and take jobs of the lane.", ("lane",))
LANE_PAUSED = Gauge("safelight_lane_paused", "1 while the lane is paused.", ("lane",))
BUDGET_USED = Gauge(
    "safelight_budget_used_ratio",
    "What of a quota is used or held in its present window; 1 is all of it. The fullest 100.",
    ("owner_kind", "owner", "kind", "currency", "window"),
)
PART_UP = Gauge("safelight_part_up", "1 while the part answers, as an API process sees it.", ("part",))
COMPLETION_SECONDS = Histogram(
    "safelight_job_completion_seconds",
    "From accepted to succeeded, in seconds; jobs that a worker rendered.",
    ("model",),
    buckets=_COMPLETION_BUCKETS,
)
PICTURES = Counter("safelight_pictures_total", "Pictures of jobs that a worker brought to success.", ("model",))
CHARGED = Counter(
    "safelight_charged_total",
    "What jobs were charged at their end, about: the ledger has the amounts.",
    ("model", "currency"),
)
RENDER_SECONDS = Histogram(
    "safelight_render_seconds", "From claim to settled, in seconds.", ("model",), buckets=_RENDER_BUCKETS
)
QUEUE_WAIT_SECONDS = Histogram(
    "safelight_queue_wait_seconds", "From accepted to claimed, in seconds.", ("model",), buckets=_RENDER_BUCKETS
)
DEVICE_SECONDS = Counter("safelight_device_seconds_total", "Seconds that the device rendered.", ("model", "device"))
STEPS = Counter("safelight_denoising_steps_total", "Denoising steps done, each image counted.", ("model", "device"))
STEP_SECONDS = Histogram(
    "safelight_engine_step_seconds",
    "One denoising step of one batch, in seconds.",
    ("model", "size"),
    buckets=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10),
)
BATCH_ROWS = Histogram(
    "safelight_engine_batch_rows",
    "Pictures that took a step together.",
    ("model",),
    buckets=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256),
)
BATCH_ROOM = Counter(
    "safelight_engine_batch_room_rows_total", "Pictures that could have taken the steps together.", ("model",)
)
PADDED_ROWS = Counter("safelight_engine_padded_rows_total", "Rows of no use that went along in steps.", ("model",))
ADMISSION_SECONDS = Histogram(
    "safelight_engine_admission_seconds",
    "From handed to the engine to its first step, in seconds.",
    ("model",),
    buckets=(0.01, 0.05, *_RENDER_BUCKETS[1:]),
)
DEVICE_BUSY = Counter("safelight_engine_busy_seconds_total", "Seconds that the device was at work.")
GRAPH_EVENTS = Counter(
    "safelight_engine_graph_events_total", "CUDA graphs: capture, replay, fallback, evict.", ("model", "event")
)
EMBEDS = Counter(
    "safelight_engine_embeds_total", "Prompts by whether their embeds were in memory: hit, miss.", ("model", "outcome")
)
BATCHES_HALVED = Counter(
    "safelight_engine_batches_halved_total", "Batches that were halved for want of memory.", ("model",)
)
FALLBACKS = Counter(
    "safelight_fallbacks_total", "Jobs sent on to another model: lane_down, lane_full, or an error's code.", ("cause",)
)
CANARY_SHARE = Gauge(
    "safelight_canary_share", "Which share of a model's jobs its canary takes, from 0 to 1.", ("canary_of", "model")
)
PROVIDER_SECONDS = Histogram(
    "safelight_provider_seconds",
    "From asking a provider to its pictures (ok), or to its error by code, in seconds.",
    ("model", "outcome"),
    buckets=_RENDER_BUCKETS,
)
SLOTS_BUSY = Gauge("safelight_worker_slots_busy", "Jobs that this worker holds.")
WORKER_SLOTS = Gauge("safelight_worker_slots", "Jobs that this worker can hold at once.", ("device",))
WORKER_BEAT = Gauge(
    "safelight_worker_last_beat_timestamp_seconds",
    "When the store last took this worker's beat, by the worker's clock.",
    ("device",),
)
CLAIMS = _worded(
    "safelight_claims_total",
    "Tries to take a job: claimed, empty, failed (the store or the engine is beyond reach).",
    "outcome",
    ("claimed", "empty", "failed"),
)
BELLS = _worded(
    "safelight_bells_total",
    "Bells by what became of them: rung, dropped, empty.",
    "outcome",
    ("rung", "dropped", "empty"),
)
SWEPT = _worded(
    "safelight_swept_total",
    "What sweeps changed.",
    "change",
    ("rescued", "dead", "expired", "staged", "canceled"),
)
PURGED = Counter("safelight_purged_total", "What was deleted by age.", ("kind",))
CHECKPOINTS = Counter(
    "safelight_checkpoints_total", "Checkpoints by what became of them: written, fetched, failed.", ("outcome",)
)
LEASES_LOST = Counter("safelight_leases_lost_total", "Leases that were gone when the worker wanted to write.")
SPANS = Counter("safelight_spans_total", "Spans by what became of them: ended, exported, failed.", ("outcome",))
WEBHOOK_DELIVERIES = _worded(
    "safelight_webhook_deliveries_total",
    "Tries to deliver a webhook, by what came of them: delivered, retried, failed.",
    "outcome",
    ("delivered", "retried", "failed"),
)
WEBHOOK_SECONDS = Histogram(
    "safelight_webhook_seconds",
    "From the start of a try to the receiver's answer, in seconds.",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
)
WEBHOOKS_PENDING = Gauge("safelight_webhooks_pending", "Deliveries of webhooks that are not over.")
WEBHOOK_OLDEST_SECONDS = Gauge("safelight_webhook_oldest_pending_seconds", "Age of the oldest of them, in seconds.")
STREAMS_OPEN = Gauge("safelight_event_streams_open", "Open SSE streams.")
REQUEST_SECONDS = Histogram(
    "safelight_http_request_seconds",
    "From request to the answer's end, in seconds; streams count whole.",
    ("method", "route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)


def begin_models(models: Iterable[str], currency: str) -> None:
    """Let the counters of these models' jobs be there at 0: for a worker that may render them."""
    for model in models:
        for state in ("succeeded", "failed", "canceled", "dead"):
            JOBS_FINISHED.labels(model, state)
        COMPLETION_SECONDS.labels(model)
        PICTURES.labels(model)
        CHARGED.labels(model, currency)
        BATCHES_HALVED.labels(model)
