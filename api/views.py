"""From the store's structs to those of the wire."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal

from api.backpressure import Backpressure
from api.live import LiveProgress
from api.price_schemas import PricingView
from api.schemas import (
    CostView,
    ImageView,
    JobView,
    LaneView,
    ModelList,
    ModelView,
    PreviewView,
    ProgressView,
    QueueView,
    RequestView,
)
from api.services import Services
from api.webhook_views import webhook_view
from jobstore.job import Job, JobRequest, JobState
from jobstore.keys import ApiKey
from jobstore.live import Preview, Progress
from jobstore.protocol import Lane
from safelight.config import ModelSettings, Settings


def job_view(job: Job, services: Services, *, with_path: bool = True) -> JobView:
    """The job as clients see it; without ``with_path`` its webhook's address is no more than the host."""
    return JobView(
        id=job.id,
        state=job.state,
        model=job.request.model,
        fallback_for=job.request.fallback_for,
        canary_for=job.request.canary_for,
        request=_request_view(job.request),
        progress=_progress_of(job, services.live),
        queue=_queue_of(job, services.backpressure),
        images=_images_of(job),
        cache=job.cache,
        cost=cost_view(job),
        attempts=job.attempts,
        error=job.error,
        warnings=job.warnings,
        dimensions=job.dimensions,
        cancel_requested=job.cancel_requested,
        webhook=webhook_view(job, with_path=with_path),
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def cost_view(job: Job) -> CostView:
    """What the job costs, as clients see it."""
    return CostView(
        currency=job.currency,
        reserved=plain_amount(job.reserved),
        charged=plain_amount(job.charged),
        gpu_seconds=plain_amount(job.gpu_seconds),
    )


def progress_view(progress: Progress) -> ProgressView:
    """Progress as clients see it."""
    return ProgressView(step=progress.step, steps=progress.steps, fraction=progress.fraction)


def preview_view(preview: Preview) -> PreviewView:
    """A preview as clients see it."""
    image = f"data:{preview.media_type};base64,{b64encode(preview.image).decode()}"
    return PreviewView(index=preview.index, step=preview.step, steps=preview.steps, image=image)


def model_list(settings: Settings, key: ApiKey | None = None) -> ModelList:
    """The models of the settings that ``key`` may use; all where none is needed."""
    return ModelList(
        data=tuple(
            ModelView(
                id=name,
                aliases=model.aliases,
                sizes=model.sizes,
                default_size=model.usual_size,
                min_side=min(_sides(model)),
                max_side=max(_sides(model)),
                size_multiple=model.traits.size_multiple,
                default_steps=model.default_steps,
                default_guidance=model.default_guidance,
                negative_prompt=model.traits.negative_prompt,
                takes_images=model.takes_images,
                adapters=tuple(sorted(model.adapters)),
                adapter_weights={name: adapter.weight for name, adapter in sorted(model.adapters.items())},
                default=name == settings.default_model,
                pricing=_pricing_of(model, settings.jobs.currency),
                lossy=model.lossy or None,
            )
            for name, model in settings.models.items()
            if key is None or key.may_use(name)
        )
    )


def _sides(model: ModelSettings) -> tuple[int, ...]:
    """The sides that a picture may have: of the sizes there are, or the bounds where any will do."""
    listed = tuple(int(side) for size in model.sizes for side in size.split("x"))
    return listed or (model.min_side, model.max_side)


def _pricing_of(model: ModelSettings, currency: str) -> PricingView:
    pricing = model.prices
    width, height = (int(side) for side in model.usual_size.split("x"))
    return PricingView(
        currency=currency,
        per_image=pricing.per_image,
        per_megapixel=pricing.per_megapixel,
        per_megapixel_step=pricing.per_megapixel_step,
        per_adapter=pricing.per_adapter,
        minimum=pricing.minimum,
        sizes=pricing.sizes,
        gpu_hour=pricing.gpu_hour,
        max_per_image=pricing.max_per_image,
        usual=plain_amount(pricing.per_picture(width, height, model.default_steps)),
    )


def lane_view(lane: Lane) -> LaneView:
    """A lane as administrators see it."""
    return LaneView(
        name=lane.name,
        paused=lane.paused_at is not None,
        paused_at=lane.paused_at,
        reason=lane.reason,
        scheduled=lane.scheduled,
        queued=lane.queued,
        running=lane.running,
        oldest_s=round(lane.oldest_s, 1),
        waiting_s=round(lane.waiting_s, 1),
        devices=lane.devices,
        drain_s=_tenths(lane.drain_s),
    )


def _request_view(request: JobRequest) -> RequestView:
    return RequestView(
        model=request.model,
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        size=f"{request.width}x{request.height}",
        n=request.n,
        steps=request.steps,
        guidance=request.guidance,
        adapters=dict(request.adapters),
        seed=request.seed,
        priority=request.priority,
        cache=request.cache,
        format=request.format,
        deadline_s=request.deadline_s,
        start_deadline_s=request.start_deadline_s,
        start_at=request.start_at,
        previews=request.previews,
        image=request.image,
        mask=request.mask,
        strength=request.strength,
    )


def _queue_of(job: Job, backpressure: Backpressure) -> QueueView:
    return QueueView(
        position=job.queue_position,
        eta_s=_tenths(job.eta_s),
        paused=job.state is JobState.QUEUED and backpressure.is_paused(job.lane),
    )


def _progress_of(job: Job, live: LiveProgress) -> ProgressView:
    steps = job.request.steps
    if job.state is JobState.SUCCEEDED:
        return ProgressView(step=steps, steps=steps, fraction=1.0)
    progress = live.of(job)
    return progress_view(progress) if progress else ProgressView(step=0, steps=steps, fraction=0.0)


def _images_of(job: Job) -> tuple[ImageView, ...]:
    return tuple(
        ImageView(
            index=picture.index,
            url=f"/v1/jobs/{job.id}/images/{picture.index}",
            seed=picture.seed,
            width=picture.width,
            height=picture.height,
            sha256=picture.sha256,
        )
        for picture in job.pictures
    )


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def plain_amount(amount: Decimal) -> str:
    """A decimal without an exponent, and without noughts at its end."""
    return format(amount.normalize(), "f") if amount else "0"
