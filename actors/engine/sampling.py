"""The walk of one row through its scheduler: one scheduler object a row, so that no row sees another's history."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch


class Sampler:
    """A diffusers scheduler with its timesteps set, and how far the row has come.

    It stays on the CPU: only the sigmas that a step needs go to the device, and no step waits for it. ``generator`` is
    the row's own random numbers, drawn on the CPU.
    """

    def __init__(
        self,
        scheduler: Any,
        timesteps: torch.Tensor,
        generator: torch.Generator,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """``scheduler`` becomes this row's own; ``extra`` goes to each of its steps."""
        self.scheduler = scheduler
        self.timesteps = timesteps
        self.generator = generator
        self._extra = dict(extra or {})
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(0)  # otherwise each step looks its index up by the timestep, and waits for it

    @property
    def steps(self) -> int:
        """Evaluations of the denoiser until the end."""
        return len(self.timesteps)

    def timestep(self, step: int) -> torch.Tensor:
        """The timestep of the evaluation after ``step`` of them; shape []."""
        return self.timesteps[step]

    def scale(self, latents: torch.Tensor, step: int) -> torch.Tensor:
        """Latents as the denoiser takes them: k-diffusion's schedulers scale them by the noise level."""
        if not hasattr(self.scheduler, "scale_model_input"):
            return latents
        scaled: torch.Tensor = self.scheduler.scale_model_input(latents, self.timestep(step))
        return scaled

    def advance(self, prediction: torch.Tensor, latents: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents after one step, and the clean latents that the scheduler reckons with (for previews).

        Both have the shape and number format of ``latents``.
        """
        output = self.scheduler.step(prediction, self.timestep(step), latents, return_dict=True, **self._extra)
        after: torch.Tensor = output.prev_sample.to(latents.dtype)
        clean = getattr(output, "pred_original_sample", None)
        return after, after if clean is None else clean


def own_scheduler(template: Any) -> Any:
    """A copy of a pipeline's scheduler, without history."""
    return copy.deepcopy(template)
