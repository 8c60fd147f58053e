"""The numbers of all fields on the wire, and what a field is called where a struct's form has no match in protobuf.

A number that was ever given stays: to its field, or in ``RETIRED``. A new field of a struct takes the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, inspect

from api.grpc.calls import CancelRequest, GetRequest, ListModelsRequest, StateChange, WatchEvent, WatchRequest
from api.price_schemas import PricingView
from api.schemas import (
    CostView,
    ImageView,
    JobSubmit,
    JobView,
    ModelList,
    ModelView,
    PreviewView,
    ProgressView,
    QueueView,
    RequestView,
)
from api.webhook_schemas import WebhookRequest, WebhookView
from jobstore.job import JobError

MESSAGES: Mapping[str, type[Struct]] = {
    "SubmitRequest": JobSubmit,
    "WebhookRequest": WebhookRequest,
    "GetRequest": GetRequest,
    "CancelRequest": CancelRequest,
    "WatchRequest": WatchRequest,
    "ListModelsRequest": ListModelsRequest,
    "Job": JobView,
    "JobRequest": RequestView,
    "Progress": ProgressView,
    "Queue": QueueView,
    "Image": ImageView,
    "Cost": CostView,
    "JobError": JobError,
    "Webhook": WebhookView,
    "WatchEvent": WatchEvent,
    "StateChange": StateChange,
    "Preview": PreviewView,
    "ModelList": ModelList,
    "Model": ModelView,
    "Pricing": PricingView,
}
"""Each message with the struct that it is made from; its fields are the struct's, a constant ``object`` left out."""

VARIANTS: Mapping[tuple[str, str], Mapping[str, type[inspect.Type]]] = {
    ("SubmitRequest", "adapters"): {"adapters": inspect.DictType, "adapter_names": inspect.ListType},
    ("SubmitRequest", "seed"): {"seed": inspect.IntType},  # the string is for JavaScript, whose numbers are too small
    ("SubmitRequest", "previews"): {"previews": inspect.BoolType, "previews_every": inspect.IntType},
    ("SubmitRequest", "webhook"): {"webhook": inspect.StructType, "webhook_url": inspect.StrType},
}
"""Fields that take values of several kinds: each kind has a field of its own, and a message at most one of them."""

NUMBERS: Mapping[str, Mapping[str, int]] = {
    "SubmitRequest": {
        "prompt": 1, "model": 2, "negative_prompt": 3, "size": 4, "n": 5, "steps": 6, "guidance": 7, "adapters": 8,
        "adapter_names": 9, "seed": 10, "priority": 11, "cache": 12, "format": 13, "dimensions": 14,
        "deadline_s": 15, "start_deadline_s": 16, "start_at": 17, "previews": 18, "previews_every": 19,
        "webhook": 20, "webhook_url": 21, "image": 22, "mask": 23, "strength": 24,
    },
    "WebhookRequest": {"url": 1, "events": 2, "secret": 3},
    "GetRequest": {"id": 1},
    "CancelRequest": {"id": 1},
    "WatchRequest": {"id": 1, "last_event_id": 2},
    "ListModelsRequest": {},
    "Job": {
        "id": 1, "state": 2, "model": 3, "fallback_for": 4, "request": 5, "progress": 6, "queue": 7, "images": 8,
        "cache": 9, "cost": 10, "attempts": 11, "error": 12, "warnings": 13, "dimensions": 14,
        "cancel_requested": 15, "webhook": 16, "created_at": 17, "started_at": 18, "finished_at": 19,
        "canary_for": 20,
    },
    "JobRequest": {
        "model": 1, "prompt": 2, "negative_prompt": 3, "size": 4, "n": 5, "steps": 6, "guidance": 7, "adapters": 8,
        "seed": 9, "priority": 10, "cache": 11, "format": 12, "deadline_s": 13, "start_deadline_s": 14,
        "start_at": 15, "previews": 16, "image": 17, "mask": 18, "strength": 19,
    },
    "Progress": {"step": 1, "steps": 2, "fraction": 3},
    "Queue": {"position": 1, "eta_s": 2, "paused": 3},
    "Image": {"index": 1, "url": 2, "seed": 3, "width": 4, "height": 5, "sha256": 6},
    "Cost": {"currency": 1, "reserved": 2, "charged": 3, "gpu_seconds": 4},
    "JobError": {"code": 1, "message": 2},
    "Webhook": {"url": 1, "events": 2, "signed": 3},
    "WatchEvent": {"event": 1, "id": 2, "state": 3, "progress": 4, "preview": 5, "done": 6},
    "StateChange": {"state": 1, "at": 2, "attempt": 3, "reason": 4, "error": 5, "details": 6},
    "Preview": {"index": 1, "step": 2, "steps": 3, "image": 4},
    "ModelList": {"data": 1},
    "Model": {
        "id": 1, "aliases": 2, "created": 3, "owned_by": 4, "sizes": 5, "default_size": 6, "min_side": 7,
        "max_side": 8, "size_multiple": 9, "default_steps": 10, "default_guidance": 11, "negative_prompt": 12,
        "takes_images": 13, "adapters": 14, "adapter_weights": 15, "default": 16, "pricing": 17, "lossy": 18,
    },
    "Pricing": {
        "currency": 1, "per_image": 2, "per_megapixel": 3, "per_megapixel_step": 4, "per_adapter": 5, "minimum": 6,
        "sizes": 7, "gpu_hour": 8, "max_per_image": 9, "usual": 10,
    },
}  # fmt: skip

RETIRED: Mapping[str, Mapping[str, int]] = {}
"""Fields that are gone: their numbers and names are reserved."""


def fields_of(name: str) -> Mapping[str, str]:
    """Of each field in a message of that name the struct's field that it is, where the names differ."""
    return {
        own: field for (message, field), kinds in VARIANTS.items() if message == name for own in kinds if own != field
    }
