"""From what a client sent to what the store accepts: defaults, limits, price, fingerprints."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from api.adapters import resolve_adapters
from api.auth import needs_model
from api.canaries import Canaries, with_canary
from api.hooks import resolve_webhook
from api.problems import ProblemError, invalid, model_not_found
from api.quality import steps_of
from api.routes import routes_of
from api.schemas import SubmitRequest
from api.wording import plainly
from jobstore.fingerprint import batch_key, cache_scope, fingerprints
from jobstore.ids import uuid7
from jobstore.job import SEED_LIMIT, CacheMode, JobRequest, NewJob, Replay
from jobstore.keys import ApiKey
from jobstore.pricing import price_of
from safelight.config import ModelSettings, Settings

_SIZE = re.compile(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}", re.ASCII)
_START_LIMIT = timedelta(days=30)
_RANDOM = random.Random()  # noqa: S311 - a seed is no secret
_PREVIEWS = 5  # of a picture, about, where a submit asks for them and neither it nor the settings say how often
_DRAWN_LIMIT = 2**32  # what other tools take, and all that torch's generator on the CPU uses of a seed


def resolve(
    submit: SubmitRequest,
    dimensions: Mapping[str, str],
    key: ApiKey | None,
    settings: Settings,
    replay: Replay | None = None,
    *,
    quality: str | None = None,
    canaries: Canaries | None = None,
) -> NewJob:
    """The job that ``submit`` asks for, for ``key``. Raises ProblemError naming the field that can't be taken.

    Where it names no steps, each model takes those that ``quality`` means for it, or its usual ones. Where one of
    ``canaries`` takes the job, it is the canary's, at the price of the model asked for.
    """
    name, model = _model(submit, settings, key)
    seed = _RANDOM.randrange(_DRAWN_LIMIT) if names_no_seed(submit) else _seed(submit)
    request = _request(submit, name, model, settings, seed, quality)
    _check_start(request)
    key_id, team = (key.id, key.team) if key else (None, None)
    exact, seedless = fingerprints(request, model, cache_scope(settings.jobs.cache_scope, key_id, team))
    price = price_of(request, model)
    webhook, secret = resolve_webhook(submit.webhook, settings.webhooks)
    build = partial(_instead, submit, quality, request, settings)
    routes, warnings = routes_of(request, key, settings, build)
    new = NewJob(
        id=uuid7(),
        request=request,
        lane=model.lane,
        batch_key=batch_key(request, model),
        fingerprint=exact,
        seedless_fingerprint=seedless,
        price=price.most,
        rate=price.rate,
        currency=settings.jobs.currency,
        priority_quantum_s=settings.jobs.priority_quantum_s,
        max_attempts=settings.worker.max_attempts,
        dimensions=dict(dimensions),
        key_id=key_id,
        team=team,
        customer=key.customer if key else None,
        weight=key.weight if key else 1.0,
        replay=replay,
        fallbacks=routes,
        warnings=warnings,
        webhook=webhook,
        webhook_secret=secret,
    )
    return with_canary(new, canaries, settings, build)


def _request(
    submit: SubmitRequest, name: str, model: ModelSettings, settings: Settings, seed: int, quality: str | None
) -> JobRequest:
    """The request as the model has it. Raises ProblemError naming the field that it can't take."""
    auto = quality is not None  # OpenAI's form, in which a size may be auto, always names a quality
    width, height = _size(model.usual_size if submit.size is None else submit.size, model, auto=auto)
    most = settings.jobs.max_steps
    usual = model.default_steps if quality is None else steps_of(quality, model, most)
    steps = _at_most("steps", submit.steps or usual, most)
    return JobRequest(
        model=name,
        prompt=_prompt(submit, settings),
        negative_prompt=_negative_prompt(submit, name, model, settings),
        width=width,
        height=height,
        n=_at_most("n", submit.n, settings.jobs.max_images),
        steps=steps,
        guidance=model.default_guidance if submit.guidance is None else submit.guidance,
        adapters=resolve_adapters(submit.adapters, name, model),
        seed=seed,
        priority=submit.priority,
        cache=_cache(submit, settings),
        format=submit.format,
        deadline_s=_seconds("deadline_s", submit.deadline_s, settings),
        start_deadline_s=_seconds("start_deadline_s", submit.start_deadline_s, settings),
        start_at=_start(submit.start_at),
        previews=_previews(submit, settings, steps),
    )


def _instead(
    submit: SubmitRequest, quality: str | None, asked: JobRequest, settings: Settings, name: str
) -> JobRequest:
    """The request as another model would have it, of the same size where nobody named one and the model has it.

    Raises ProblemError.
    """
    sized = msgspec.structs.replace(submit, size=f"{asked.width}x{asked.height}")
    model = settings.models[name]
    try:
        request = _request(sized, name, model, settings, asked.seed, quality)
    except ProblemError as problem:
        if submit.size is not None or problem.field != "size":
            raise
        request = _request(submit, name, model, settings, asked.seed, quality)
    return msgspec.structs.replace(request, fallback_for=asked.model)


def names_no_seed(submit: SubmitRequest) -> bool:
    """True when the seed is ours to draw."""
    return submit.seed is None or submit.seed in (-1, "-1")


def with_seed(new: NewJob, seed: int, settings: Settings) -> NewJob:
    """The same job with another seed."""
    request = msgspec.structs.replace(new.request, seed=seed)
    scope = cache_scope(settings.jobs.cache_scope, new.key_id, new.team)
    exact, _ = fingerprints(request, settings.models[request.model], scope)
    return msgspec.structs.replace(new, request=request, fingerprint=exact)


def _model(submit: SubmitRequest, settings: Settings, key: ApiKey | None) -> tuple[str, ModelSettings]:
    name = submit.model if submit.model is not None else settings.default_model or ""
    found = settings.find_model(name)
    if found is None:
        raise model_not_found(name, offered_names(settings, key))
    needs_model(key, found[0], settings.models)
    return found


def offered_names(settings: Settings, key: ApiKey | None) -> list[str]:
    """The models that a key may use, with their other names in brackets."""
    return [
        f"{own} ({', '.join(model.aliases)})" if model.aliases else own
        for own, model in settings.models.items()
        if key is None or key.may_use(own)
    ]


def _prompt(submit: SubmitRequest, settings: Settings) -> str:
    if not submit.prompt.strip():
        raise invalid("prompt", "prompt must not be empty")
    return _text("prompt", submit.prompt, settings.jobs.max_prompt_chars)


def _negative_prompt(submit: SubmitRequest, name: str, model: ModelSettings, settings: Settings) -> str | None:
    if not submit.negative_prompt:
        return None
    if not model.traits.negative_prompt:
        raise invalid("negative_prompt", f"the model {name} takes no negative prompt")
    return _text("negative_prompt", submit.negative_prompt, settings.jobs.max_prompt_chars)


def _text(field: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise invalid(field, f"{field} has {len(text)} characters; at most {limit} are taken")
    if "\0" in text:
        raise invalid(field, f"{field} holds the character U+0000")
    return text


def _size(text: str, model: ModelSettings, *, auto: bool) -> tuple[int, int]:
    if model.sizes:
        rule = f"one of {', '.join(model.sizes)}"
        allowed = text in model.sizes
    else:
        multiple = model.traits.size_multiple
        rule = f'"WxH", both multiples of {multiple} from {model.min_side} to {model.max_side} pixels'
        sides = [int(side) for side in text.split("x")] if _SIZE.fullmatch(text) else [0]
        allowed = all(side % multiple == 0 and model.min_side <= side <= model.max_side for side in sides)
    if not allowed:
        raise invalid("size", f"size must be {rule}" + (", or auto" if auto else ""))
    width, height = text.split("x")
    return int(width), int(height)


def _seed(submit: SubmitRequest) -> int:
    seed = int(submit.seed or 0)
    if not 0 <= seed < SEED_LIMIT:
        raise invalid("seed", plainly("seed", ""))
    return seed


def _cache(submit: SubmitRequest, settings: Settings) -> CacheMode:
    if submit.cache is not None:
        return submit.cache
    return CacheMode(settings.jobs.seedless_cache if names_no_seed(submit) else settings.jobs.cache)


def _previews(submit: SubmitRequest, settings: Settings, steps: int) -> int:
    """Denoising steps between two previews; 0 for none."""
    if submit.previews is None:
        return settings.engine.preview_every
    if submit.previews is True:
        return settings.engine.preview_every or max(1, round(steps / _PREVIEWS))
    return int(submit.previews)


def _at_most(field: str, value: int, limit: int) -> int:
    if value > limit:
        raise invalid(field, f"{field} must be at most {limit}")
    return value


def _seconds(field: str, value: float | None, settings: Settings) -> float | None:
    limit = settings.jobs.max_deadline_s
    if value is not None and value > limit:
        raise invalid(field, f"{field} must be at most {limit:g} seconds")
    return value


def _check_start(request: JobRequest) -> None:
    """Both deadlines count from the submit: a start beyond one could only fail."""
    if request.start_at is None:
        return
    wait_s = (request.start_at - datetime.now(UTC)).total_seconds()
    for name, seconds in (("deadline_s", request.deadline_s), ("start_deadline_s", request.start_deadline_s)):
        if seconds is not None and seconds <= wait_s:
            raise invalid(name, f"{name} counts from the submit and would pass before start_at")


def _start(start_at: datetime | None) -> datetime | None:
    """The instant in UTC; one that has passed means now."""
    now = datetime.now(UTC)
    if start_at is None or start_at <= now:
        return None
    if start_at > now + _START_LIMIT:
        raise invalid("start_at", f"start_at must be within {_START_LIMIT.days} days")
    return start_at.astimezone(UTC)
