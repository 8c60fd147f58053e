"""One request, one fingerprint: a hash of what decides the pixels, and of nothing else."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import msgspec

from jobstore.job import JobRequest
from safelight.config import ModelSettings


def cache_scope(setting: str, key_id: UUID | None, team: str | None) -> str | None:
    """Among whose jobs a job finds pictures, and joins a render: its team's, its key's; None for everybody's.

    ``setting`` is ``jobs.cache_scope``. A key without a team is alone; what comes without a key shares with its like.
    """
    if setting == "all" or key_id is None:
        return None
    return f"team:{team}" if setting == "team" and team is not None else f"key:{key_id}"


def fingerprints(request: JobRequest, model: ModelSettings, scope: str | None) -> tuple[str, str]:
    """The fingerprint of a resolved request, and the same without its seed (both SHA-256, hex).

    ``scope`` is what ``cache_scope`` says: of different scopes, equal requests have different fingerprints.

    In it: the model's id, revision, variant, dtype, quantization, family and family version, text length, adapters with
    their weights and what they are, the prompt to the letter, size, steps, guidance, n and seed, and the picture and
    the mask that the render begins from, with its strength, and how several devices share in it where that is lossy.
    Not in it: file format, priority, dimensions, deadline, previews, the name a model goes by.
    """
    look: dict[str, Any] = {
        "model": model.identity,
        "revision": model.revision,
        "variant": model.variant,
        "dtype": model.dtype,
        "family": model.traits.name,
        "family_version": model.traits.version,
        "max_sequence_length": model.max_sequence_length,
        "adapters": _adapters(request, model),
        "prompt": request.prompt,
        "negative_prompt": request.negative_prompt,
        "width": request.width,
        "height": request.height,
        "steps": request.steps,
        "guidance": None if request.guidance is None else float(request.guidance),
        "n": request.n,
    }
    if model.quantize != "none":  # left out else: pictures that were rendered before there was such a thing stay known
        look["quantize"] = model.quantize
    if model.lossy:
        look["parallel"] = model.lossy
    if scope is not None:
        look["scope"] = scope
    if request.image is not None:
        look |= {"image": request.image, "mask": request.mask, "strength": request.strength}
    return _digest({**look, "seed": request.seed}), _digest(look)


def batch_key(request: JobRequest, model: ModelSettings) -> str:
    """What must be equal for two requests to share a forward pass, as a readable key (docs/engine.md).

    The engine's own key, as far as it is known without the model. What is usual is not written, so that the keys of
    jobs that wait stay what they are when there is something new to tell.
    """
    parts = [
        f"{model.identity}@{model.revision}",
        model.dtype,
        f"{request.width}x{request.height}",
        f"t{model.max_sequence_length}",
    ]
    if model.quantize != "none":
        parts.append(model.quantize)
    if model.traits.negative_prompt and request.guidance is not None and request.guidance <= 1:
        parts.append("unguided")
    if request.image is not None:
        parts.append("inpaint" if request.mask is not None else "image")  # through a pipeline of its own
    parts += [f"{name}={weight:g}@{_digest(what)[:12]}" for name, weight, what in _adapters(request, model)]
    return ":".join(parts)


def _adapters(request: JobRequest, model: ModelSettings) -> list[list[Any]]:
    """Each adapter's name, weight, and what the settings say it is: a name may come to mean another."""
    return [
        [name, float(weight), list(model.adapters[name].identity) if name in model.adapters else None]
        for name, weight in request.adapters
    ]


def _digest(value: Any) -> str:
    """SHA-256 over canonical JSON (RFC 8785 in spirit: sorted keys, no blanks, UTF-8)."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
