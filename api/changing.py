"""Changes to a job that is resolved and not yet submitted, on all its routes alike."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from jobstore.fingerprint import batch_key, cache_scope, fingerprints
from jobstore.job import AnswerForm, JobRequest, NewJob
from safelight.config import Settings


def with_answer(new: NewJob, form: AnswerForm) -> NewJob:
    """The job with the form of its answer, which decides no pixel."""
    routes = tuple(replace(route, request=replace(route.request, answer=form)) for route in new.fallbacks)
    return replace(new, request=replace(new.request, answer=form), fallbacks=routes)


def with_inputs(new: NewJob, settings: Settings, *, image: str, mask: str | None, strength: float) -> NewJob:
    """The job, to begin from a picture. Routes to models that take none, or would do no step on it, are left out."""
    scope = cache_scope(settings.jobs.cache_scope, new.key_id, new.team)

    def begun(request: JobRequest) -> dict[str, Any]:
        request = replace(request, image=image, mask=mask, strength=strength)
        model = settings.models[request.model]
        exact, seedless = fingerprints(request, model, scope)
        return {
            "request": request,
            "fingerprint": exact,
            "seedless_fingerprint": seedless,
            "batch_key": batch_key(request, model),
        }

    def able(request: JobRequest) -> bool:
        return settings.models[request.model].takes_images and int(request.steps * strength) >= 1

    routes = tuple(replace(route, **begun(route.request)) for route in new.fallbacks if able(route.request))
    return replace(new, **begun(new.request), fallbacks=routes)
