"""What each model family calls its parameters: a render request becomes the arguments of a diffusers pipeline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.engine.errors import InvalidRequestError, ModelUnavailableError, OutOfMemoryError

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings

_NEEDED = ("prompt", "num_inference_steps", "generator")
_INPUTS = {"image": "input image", "mask": "mask", "strength": "strength", "frames": "number of frames"}
_INPUT_ARGUMENTS = {"image": "image", "mask": "mask_image", "strength": "strength", "frames": "num_frames"}


@dataclass(frozen=True, slots=True)
class Adapter:
    """How a family names things.

    ``guidance`` is the argument that takes the guidance scale; ``tokenizer`` the pipeline's component whose length
    decides how much of a prompt is read (the others of the family read less, by design); ``length`` how many
    tokens that is when the settings don't say (None: what the tokenizer says). ``negative_prompt`` is what goes in
    where a request has none: some families guide only when they are given one.
    """

    guidance: str = "guidance_scale"
    tokenizer: str = "tokenizer"
    length: int | None = None
    negative_prompt: str | None = None


_ADAPTERS = {
    "flux": Adapter(tokenizer="tokenizer_2", length=512),
    "sd3": Adapter(tokenizer="tokenizer_3", length=256),
    "qwen-image": Adapter(guidance="true_cfg_scale", length=512, negative_prompt=" "),
}
_GENERIC = Adapter()


def adapter_of(model: ModelSettings) -> Adapter:
    """The adapter of a model's family; the generic one where the family needs none of its own."""
    return _ADAPTERS.get(model.traits.name, _GENERIC)


def text_length(model: ModelSettings) -> int | None:
    """Tokens of a prompt that the model reads; None leaves it to the tokenizer."""
    return model.max_sequence_length or adapter_of(model).length


def pipeline_arguments(request: RenderRequest, model: ModelSettings, accepted: Collection[str]) -> dict[str, Any]:
    """The keyword arguments of the pipeline's ``__call__`` without the generators.

    ``accepted`` are the names that the pipeline takes. Raises ModelUnavailableError where it is not a pipeline that
    renders prompts, InvalidRequestError on an input that it doesn't take.
    """
    missing = [name for name in _NEEDED if name not in accepted]
    if missing:
        raise ModelUnavailableError(
            f"model {request.model!r} is no pipeline that renders prompts: it takes no {', '.join(missing)}"
        )
    adapter = adapter_of(model)
    optional = {
        "width": request.width,
        "height": request.height,
        adapter.guidance: request.guidance,
        "negative_prompt": request.negative_prompt if request.negative_prompt is not None else adapter.negative_prompt,
        "max_sequence_length": text_length(model),
    }
    arguments = {name: value for name, value in optional.items() if value is not None and name in accepted}
    arguments |= {"prompt": request.prompt, "num_inference_steps": request.steps}
    return arguments | input_arguments(request, accepted)


def input_arguments(request: RenderRequest, accepted: Collection[str]) -> dict[str, Any]:
    """What a request brings along, by the pipeline's names. Pictures are brought to the size that is rendered.

    Raises InvalidRequestError on an input that is not accepted.
    """
    inputs: dict[str, Any] = {}
    for name, words in _INPUTS.items():
        value = getattr(request, name)
        if value is None:
            continue
        if _INPUT_ARGUMENTS[name] not in accepted:
            raise InvalidRequestError(f"{name}: model {request.model!r} takes no {words}")
        if name in ("image", "mask"):
            value = _resized(name, value, (request.width, request.height))
        inputs[_INPUT_ARGUMENTS[name]] = value
    return inputs


def _resized(name: str, picture: Image, size: tuple[int, int]) -> Image:
    try:
        return picture.convert("RGB" if name == "image" else "L").resize(size)
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: this machine has not enough memory for the picture") from error
    except Exception as error:  # Pillow reads a file when it is used, and its plugins raise errors of any kind
        raise InvalidRequestError(f"{name}: the picture can't be read: it is damaged or cut off") from error
