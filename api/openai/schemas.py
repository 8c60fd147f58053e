"""What OpenAI's image endpoints take and give. Field names are theirs; docs/openai.md tells what each does here."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.schemas import CostView, SubmitRequest
from jobstore.job import CacheOutcome, PictureFormat

Quality = Literal["auto", "low", "medium", "high", "standard", "hd"]
ResponseFormat = Literal["url", "b64_json"]


class GenerationRequest(SubmitRequest, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A request for pictures as OpenAI's clients make it; fields of a submit may stand beside theirs.

    Fields that nobody knows are ignored, and so is null. ``size`` may be ``auto``. ``quality`` decides the steps where
    ``steps`` is not given. ``background``, ``moderation``, ``style`` and ``user`` are taken and have no effect.
    """

    quality: Quality = "auto"
    response_format: ResponseFormat | None = None
    output_format: PictureFormat | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    background: Literal["auto", "opaque", "transparent"] = "auto"
    moderation: Literal["auto", "low"] = "auto"
    style: Annotated[str, Meta(max_length=100)] | None = None
    user: Annotated[str, Meta(max_length=1000)] | None = None
    stream: bool = False
    partial_images: Annotated[int, Meta(ge=0, le=3)] = 0
    cancel_on_disconnect: bool = False


class PriceRequest(SubmitRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submit to be priced, or OpenAI's words for one: ``size`` may be ``auto``, and where ``quality`` is named and
    ``steps`` is not, it decides the steps."""

    quality: Quality | None = None


class EditRequest(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A request for an edit of a picture. ``strength`` is the share of the steps that are taken from the picture on.

    ``pictures`` is not sent: it holds the digests of the picture and the mask that came along.
    """

    strength: Annotated[float, Meta(gt=0, le=1)] | None = None
    pictures: tuple[str, ...] = ()


class ImageData(Struct, frozen=True, kw_only=True):
    """One picture: its file in base64, or a link to it; never both."""

    b64_json: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class TokenDetails(Struct, frozen=True, kw_only=True):
    """Nothing here is counted in tokens."""

    text_tokens: int = 0
    image_tokens: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """OpenAI's tokens, all 0: what a job cost is told under ``safelight``."""

    input_tokens: int = 0
    input_tokens_details: TokenDetails = TokenDetails()
    output_tokens: int = 0
    total_tokens: int = 0


class Behind(Struct, frozen=True, kw_only=True):
    """The job behind an answer: what OpenAI's form has no word for."""

    job_id: UUID
    model: str
    seeds: tuple[int, ...]
    steps: int
    cache: CacheOutcome
    cost: CostView
    warnings: tuple[str, ...]


class ImagesAnswer(Struct, frozen=True, kw_only=True):
    """The pictures. ``created`` is Unix time."""

    created: int
    data: tuple[ImageData, ...]
    background: Literal["opaque"] = "opaque"
    output_format: PictureFormat
    quality: str
    size: str
    usage: Usage = Usage()
    safelight: Behind


class PendingAnswer(Struct, frozen=True, kw_only=True):
    """The pictures are not there yet: ask again under ``Location``, or with ``x-bf-async-id: <id>``.

    ``created`` and the empty ``data`` are for clients that read every answer as one with pictures.
    """

    id: UUID
    object: Literal["job"] = "job"
    status: Literal["pending", "processing"]
    created: int
    created_at: str
    data: tuple[ImageData, ...] = ()


class ErrorMembers(Struct, frozen=True, kw_only=True):
    """An error in OpenAI's form."""

    message: str
    type: str
    param: str | None
    code: str


class AsyncAnswer(Struct, frozen=True, kw_only=True):
    """A job in Bifrost's form. Times are RFC 3339; ``result`` or ``error`` is there once it has ended."""

    id: UUID
    status: Literal["pending", "processing", "completed", "failed"]
    created_at: str
    completed_at: str | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    status_code: int | UnsetType = UNSET
    result: ImagesAnswer | UnsetType = UNSET
    error: ErrorMembers | UnsetType = UNSET


class ImageEvent(Struct, frozen=True, kw_only=True):
    """An event of a stream: a preview (with its number, from 0) or a picture (with its usage).

    ``image_index`` is beside OpenAI's own members: which of the ``n`` pictures it is, or is a preview of, from 0.
    """

    type: str
    b64_json: str
    created_at: int
    size: str
    quality: str
    background: Literal["opaque"] = "opaque"
    output_format: PictureFormat
    image_index: int
    partial_image_index: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
