"""Reads the bodies of OpenAI's image endpoints, and says the same as a submit and the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from api.openai.schemas import GenerationRequest, PriceRequest
from api.problems import ProblemError, from_decoding, invalid
from api.quality import steps_of
from api.schemas import SubmitRequest
from jobstore.job import AnswerForm, PictureFormat
from safelight.config import Settings

R = TypeVar("R", bound=GenerationRequest)

_QUALITIES = {"auto": "medium", "standard": "medium", "hd": "high"}
_LINKED = "dall-e-"  # clients of these models expect a url where they don't ask for anything


def parse_json(body: bytes) -> dict[str, Any]:
    """The body's members, without those that are null. Raises ProblemError."""
    try:
        members = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProblemError(400, "invalid_json", f"the body is not JSON that can be read: {error}") from error
    if not isinstance(members, dict):
        raise ProblemError(400, "invalid_json", "the body must be a JSON object")
    return {name: value for name, value in members.items() if value is not None}


def read_request(kind: type[R], members: Mapping[str, Any], *, strict: bool = True) -> R:
    """The request that the members tell. Without ``strict``, text stands for numbers, as in forms.

    Raises ProblemError naming the field.
    """
    known = {name: value for name, value in members.items() if name in kind.__struct_fields__ and value is not None}
    try:
        request = msgspec.convert(known, kind, strict=strict)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise from_decoding(error, kind.__struct_fields__) from error
    _check_text(request)
    lossless = (request.output_format or request.format) is PictureFormat.PNG
    if lossless and request.output_compression not in (None, 100):
        raise invalid("output_compression", "output_compression is for jpeg and webp; png loses nothing")
    return request


def _check_text(request: GenerationRequest) -> None:
    """A form may hold what no JSON does."""
    for name in ("prompt", "negative_prompt"):
        try:
            (getattr(request, name) or "").encode()
        except UnicodeEncodeError:
            raise invalid(name, f"{name} is not valid Unicode") from None


def as_submit(request: GenerationRequest, settings: Settings) -> SubmitRequest:
    """The submit that says the same, but for ``quality_of`` it: each model takes its own steps for that."""
    fields = {name: getattr(request, name) for name in SubmitRequest.__struct_fields__}
    if request.size == "auto":
        fields["size"] = None
    found = settings.find_model(request.model if request.model is not None else settings.default_model or "")
    if found is not None and request.stream and request.previews is None:
        steps = request.steps or steps_of(quality_of(request), found[1], settings.jobs.max_steps)
        fields["previews"] = _previews(request.partial_images, steps)
    fields["format"] = PictureFormat.PNG if _is_turned(request) else (request.output_format or request.format)
    return SubmitRequest(**fields)


def as_priced(request: PriceRequest) -> SubmitRequest:
    """The submit that the request stands for, but for its quality."""
    fields = {name: getattr(request, name) for name in SubmitRequest.__struct_fields__}
    if request.size == "auto":
        fields["size"] = None
    return SubmitRequest(**fields)


def answer_form(request: GenerationRequest, settings: Settings, keep_s: int) -> AnswerForm:
    """How the client wants to be answered. Files that are to be squeezed are rendered without loss first."""
    turned = _is_turned(request)
    linked = request.response_format == "url" or (request.response_format is None and _is_linked(request, settings))
    return AnswerForm(
        links=linked and not request.stream,
        format=(request.output_format or request.format) if turned else None,
        compression=request.output_compression if turned else None,
        quality=quality_of(request),
        keep_s=keep_s,
    )


def priced_quality(request: PriceRequest) -> str | None:
    """``low``, ``medium`` or ``high``, where it says any."""
    return request.quality and _QUALITIES.get(request.quality, request.quality)


def quality_of(request: GenerationRequest) -> str:
    """``low``, ``medium`` or ``high``."""
    return _QUALITIES.get(request.quality, request.quality)


def _previews(partial_images: int, steps: int) -> int:
    """Steps between two previews, so that about so many come."""
    return max(1, steps // (partial_images + 1)) if partial_images else 0


def _is_turned(request: GenerationRequest) -> bool:
    lossy = (request.output_format or request.format) is not PictureFormat.PNG
    return lossy and request.output_compression is not None


def _is_linked(request: GenerationRequest, settings: Settings) -> bool:
    name = request.model or settings.default_model or ""
    return name.startswith(_LINKED) and settings.find_model(name) is not None
