"""The walk of rows through their schedulers: one scheduler object a row, so that no row sees another's history."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

if TYPE_CHECKING:
    from actors.engine.families.base import LatentRow

Advanced = tuple[torch.Tensor, torch.Tensor]
"""Latents after one step, and the clean latents that the scheduler reckons with (for previews): [1, ...] each."""


class Sampler:
    """A diffusers scheduler with its timesteps set, and the row's own random numbers, drawn on the CPU.

    It stays on the CPU: only the sigmas that a step needs go to the device, and no step waits for it.
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
        self._fresh = _attributes(scheduler)

    @property
    def steps(self) -> int:
        """Evaluations of the denoiser until the end."""
        return len(self.timesteps)

    @property
    def plain_euler(self) -> bool:
        """Whether a step is ``latents + (next sigma - sigma) * prediction`` and nothing else."""
        return type(self.scheduler) is FlowMatchEulerDiscreteScheduler and not self.scheduler.config.stochastic_sampling

    def timestep(self, step: int) -> torch.Tensor:
        """The timestep of the evaluation after ``step`` of them; shape []."""
        return self.timesteps[step]

    def scale(self, latents: torch.Tensor, step: int) -> torch.Tensor:
        """Latents as the denoiser takes them: k-diffusion's schedulers scale them by the noise level."""
        if not hasattr(self.scheduler, "scale_model_input"):
            return latents
        scaled: torch.Tensor = self.scheduler.scale_model_input(latents, self.timestep(step))
        return scaled

    def advance(self, prediction: torch.Tensor, latents: torch.Tensor, step: int) -> Advanced:
        """One step of the scheduler. Both tensors have the shape and number format of ``latents``."""
        output = self.scheduler.step(prediction, self.timestep(step), latents, return_dict=True, **self._extra)
        after: torch.Tensor = output.prev_sample.to(latents.dtype)
        clean = getattr(output, "pred_original_sample", None)
        if clean is None:
            clean = self._clean(prediction, latents, step)
        return after, after if clean is None else clean.to(latents.dtype)

    def mark(self) -> tuple[dict[str, Any], torch.Tensor]:
        """Where the walk stands, for ``back``."""
        return _attributes(self.scheduler), self.generator.get_state()

    def back(self, mark: tuple[dict[str, Any], torch.Tensor]) -> None:
        """Undo what came after ``mark``."""
        attributes, numbers = mark
        vars(self.scheduler).clear()
        vars(self.scheduler).update(attributes)
        self.generator.set_state(numbers)

    def memory(self) -> dict[str, Any]:
        """The scheduler's attributes that its steps have changed."""
        missing = object()
        return {
            name: value
            for name, value in _attributes(self.scheduler).items()
            if value is not self._fresh.get(name, missing)
        }

    def remember(self, memory: Mapping[str, Any], numbers: torch.Tensor) -> None:
        """Take up a ``memory`` and the state of a generator, whatever this sampler did before."""
        self.back((_copied({**self._fresh, **memory}), numbers))

    def _clean(self, prediction: torch.Tensor, latents: torch.Tensor, step: int) -> torch.Tensor | None:
        """The clean latents where the scheduler doesn't give them; None where they can't be told.

        x0 = x - sigma * v in rectified flow (https://arxiv.org/abs/2209.03003), the newest of the history where that
        is x0, and x0 = (x - sqrt(1 - a) * e) / sqrt(a) of predicted noise (https://arxiv.org/abs/2010.02502).
        """
        scheduler, config = self.scheduler, self.scheduler.config
        if "FlowMatch" in type(scheduler).__name__ or config.get("prediction_type") == "flow_prediction":
            flown: torch.Tensor = latents.float() - scheduler.sigmas[step] * prediction.float()
            return flown
        if getattr(scheduler, "predict_x0", False) or "++" in config.get("algorithm_type", ""):
            newest: torch.Tensor = scheduler.model_outputs[-1]
            return newest
        if hasattr(scheduler, "alphas_cumprod") and config.get("prediction_type") == "epsilon":
            kept = scheduler.alphas_cumprod[int(self.timestep(step))]
            denoised: torch.Tensor = (latents.float() - (1 - kept).sqrt() * prediction.float()) / kept.sqrt()
            return denoised
        return None


def own_scheduler(template: Any) -> Any:
    """A copy of a pipeline's scheduler, without history."""
    return copy.deepcopy(template)


def advance_rows(rows: Sequence[LatentRow], predictions: torch.Tensor) -> list[Advanced]:
    """One step of every row's scheduler with its prediction of [rows, ...]; the rows keep their latents and steps.

    When it raises, no scheduler and no generator has changed.
    """
    if all(row.sampler.plain_euler for row in rows):
        return _euler(rows, predictions)
    marks = [row.sampler.mark() for row in rows]
    try:
        return [
            row.sampler.advance(predictions[index : index + 1], row.latents, row.step) for index, row in enumerate(rows)
        ]
    except BaseException:
        for row, mark in zip(rows, marks, strict=True):
            row.sampler.back(mark)
        raise


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small tensor of the CPU on the device; from pinned memory, because a copy from any other waits for CUDA."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _euler(rows: Sequence[LatentRow], predictions: torch.Tensor) -> list[Advanced]:
    """All rows at once, bit for bit what FlowMatchEulerDiscreteScheduler does to each alone."""
    sigmas = torch.stack([row.sampler.scheduler.sigmas[row.step : row.step + 2] for row in rows])
    latents = torch.cat([row.latents for row in rows])
    shape = (len(rows), *[1] * (latents.ndim - 1))
    now, then = (sigma.view(shape) for sigma in on_device(sigmas, latents.device).unbind(1))
    # The scheduler multiplies by a tensor of no dimensions, which is rounded to the prediction's number format first.
    step = (then - now).to(predictions.dtype)
    after = (latents.float() + step * predictions).to(predictions.dtype).to(latents.dtype)
    clean = (latents.float() - now * predictions.float()).to(latents.dtype)
    for row in rows:
        row.sampler.scheduler._step_index = row.step + 1
    return [(after[index : index + 1], clean[index : index + 1]) for index in range(len(rows))]


def _attributes(scheduler: Any) -> dict[str, Any]:
    return _copied(vars(scheduler))


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Containers anew, since schedulers change theirs in place; what they hold is replaced, not changed."""
    return {name: copy.copy(value) if type(value) in (list, dict, set) else value for name, value in attributes.items()}
