"""A loaded model and its ways to render: row by row, or through whole pipelines that share its parts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
import torch

from actors.engine.devices import free_memory, is_device_lost, is_out_of_memory
from actors.engine.errors import EngineError, InvalidRequestError, OutOfMemoryError
from actors.engine.whole import WholeModel

if TYPE_CHECKING:
    from actors.engine.latent import LatentModel
    from actors.engine.request import RenderRequest
    from actors.engine.stepping import Stepper

_log = structlog.get_logger(__name__)


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
    _vae: Any = None

    def close(self) -> None:
        """Let go of what is held beside the weights."""
        if self.stepping is not None:
            self.stepping.passes.release()
        self.release()

    def stepper(self, request: RenderRequest) -> Stepper:
        """What renders the request. Raises InvalidRequestError where the model takes no such input, OutOfMemoryError.

        What a lost device raises comes through.
        """
        if request.image is None or "image" in self.whole.accepted:
            return self.whole if self.stepping is None else self.stepping
        kind = "inpaint" if request.mask is not None else "image"
        if kind not in self._derived:
            derived = self._tried(kind)
            if isinstance(derived, EngineError):
                raise derived
            self._derived[kind] = self.make(derived)
        return self._derived[kind]

    def _tried(self, kind: str) -> Any | EngineError:
        """A derived pipeline, or why there is none.

        Returning ends the exception, whose traceback holds a copied VAE.
        """
        try:
            return derive(self.whole.pipeline, kind, self._own_parts())
        except Exception as error:
            if is_device_lost(error):
                raise
            if not is_out_of_memory(error):
                field, what = ("mask", "input image with a mask") if kind == "inpaint" else ("image", "input image")
                if not isinstance(error, ValueError):  # that is from_pipe's own word for it
                    _log.exception("no pipeline derived", action="engine.derive_failed", model=self.whole.name)
                return InvalidRequestError(f"{field}: the model takes no {what}")
        free_memory(self.whole.device)
        return OutOfMemoryError(f"{self.whole.device.label} has not enough memory for another task's own parts")

    def _own_parts(self) -> dict[str, Any]:
        """A VAE of their own for derived pipelines where a decode beside theirs would spoil both.

        One kind is cast to float32 and back; another, made for video, keeps frames on itself while it works.
        """
        vae = getattr(self.whole.pipeline, "vae", None)
        if vae is None or self.stepping is None:  # without steps, nobody else decodes
            return {}
        dtype = self.stepping.family.dtype  # of the VAE itself it may not be: the family may have cast it for good
        is_cast = vae.config.get("force_upcast") and dtype != torch.float32
        if not is_cast and not hasattr(vae, "clear_cache"):
            return {}
        if self._vae is None:
            with self.whole.places.decoding():
                self._vae = copy.deepcopy(vae).to(device=self.whole.device.place, dtype=dtype)
        return {"vae": self._vae}


def derive(pipeline: Any, kind: str, parts: Mapping[str, Any]) -> Any:
    """A pipeline of another task (``image``, ``inpaint``) that shares the loaded one's parts but for these.

    Raises ValueError where diffusers has none, and whatever its constructor raises.
    """
    import diffusers

    auto = diffusers.AutoPipelineForInpainting if kind == "inpaint" else diffusers.AutoPipelineForImage2Image
    derived = auto.from_pipe(pipeline, **parts)
    derived.set_progress_bar_config(disable=True)
    return derived
