"""One request, one fingerprint: a hash of what decides the pixels, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from jobstore.job import JobRequest
from safelight.config import ModelSettings


def fingerprints(request: JobRequest, model: ModelSettings) -> tuple[str, str]:
    """The fingerprint of a resolved request, and the same without its seed (both SHA-256, hex).

    In it: the model's id, revision, variant, dtype, family and family version, text length, the prompt to the letter,
    size, steps, guidance, n and seed. Not in it: file format, priority, dimensions, deadline, the name a model goes by.
    """
    look: dict[str, Any] = {
        "model": model.identity,
        "revision": model.revision,
        "variant": model.variant,
        "dtype": model.dtype,
        "family": model.traits.name,
        "family_version": model.traits.version,
        "max_sequence_length": model.max_sequence_length,
        "adapters": [],
        "prompt": request.prompt,
        "negative_prompt": request.negative_prompt,
        "width": request.width,
        "height": request.height,
        "steps": request.steps,
        "guidance": None if request.guidance is None else float(request.guidance),
        "n": request.n,
    }
    return _digest({**look, "seed": request.seed}), _digest(look)


def batch_key(request: JobRequest, model: ModelSettings) -> str:
    """What must be equal for two requests to share a forward pass, as a readable key (docs/engine.md)."""
    return (
        f"{model.identity}@{model.revision}:{model.dtype}:{request.width}x{request.height}:t{model.max_sequence_length}"
    )


def _digest(value: dict[str, Any]) -> str:
    """SHA-256 over canonical JSON (RFC 8785 in spirit: sorted keys, no blanks, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
