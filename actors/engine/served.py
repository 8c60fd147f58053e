"""A loaded model and its ways to render: row by row, or through whole pipelines that share its parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from actors.engine.errors import InvalidRequestError
from actors.engine.whole import WholeModel

if TYPE_CHECKING:
    from actors.engine.latent import LatentModel
    from actors.engine.request import RenderRequest
    from actors.engine.stepping import Stepper


@dataclass(slots=True)
class ServedModel:
    """``stepping`` renders text to pictures row by row, where a family knows how; ``whole`` what the pipeline does.

    ``make`` builds a whole model around a pipeline derived from the loaded one; ``release`` takes off what moves
    parts.
    """

    whole: WholeModel
    stepping: LatentModel | None
    make: Callable[[Any], WholeModel]
    release: Callable[[], None]
    _derived: dict[str, WholeModel] = field(default_factory=dict)

    def close(self) -> None:
        """Let go of what is held beside the weights."""
        if self.stepping is not None:
            self.stepping.passes.release()
        self.release()

    def stepper(self, request: RenderRequest) -> Stepper:
        """What renders the request. Raises InvalidRequestError where the model takes no such input."""
        if request.image is None or "image" in self.whole.accepted:
            return self.whole if self.stepping is None else self.stepping
        kind = "inpaint" if request.mask is not None else "image"
        if kind not in self._derived:
            self._derived[kind] = self.make(_derive(self.whole.pipeline, kind))
        return self._derived[kind]


def _own_parts(pipeline: Any) -> dict[str, Any]:
    """A VAE of its own where the derived pipeline casts it back and forth, while others decode with the shared one."""
    vae = getattr(pipeline, "vae", None)
    if vae is None or not vae.config.get("force_upcast") or pipeline.dtype == torch.float32:
        return {}
    return {"vae": copy.deepcopy(vae).to(device=pipeline.device, dtype=pipeline.dtype)}


def _derive(pipeline: Any, kind: str) -> Any:
    """A pipeline of another task that shares the loaded one's parts."""
    import diffusers

    auto = diffusers.AutoPipelineForInpainting if kind == "inpaint" else diffusers.AutoPipelineForImage2Image
    try:
        derived = auto.from_pipe(pipeline, **_own_parts(pipeline))
    except ValueError as error:
        what = "input image with a mask" if kind == "inpaint" else "input image"
        raise InvalidRequestError(f"{'mask' if kind == 'inpaint' else 'image'}: the model takes no {what}") from error
    derived.set_progress_bar_config(disable=True)
    return derived
