"""What a model family must tell so that its rows can be stepped: encode, draw, denoiser inputs, decode.

A family adapts one kind of diffusers pipeline and follows that pipeline's ``__call__`` to the letter: the tests compare
every family with its own pipeline. It keeps no state of requests.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from actors.engine.arguments import pipeline_arguments, text_length
from actors.engine.embeds import Embeds
from actors.engine.errors import InvalidRequestError
from actors.engine.request import RenderRequest
from actors.engine.sampling import Sampler, on_device, own_scheduler
from actors.engine.stepping import BatchKey, Row
from safelight.config import ModelSettings

Encode = Callable[[str], Embeds]
"""Encodes one text, or finds it encoded; the tensors lie on the device, a batch of 1 in front."""


@dataclass(slots=True, eq=False, kw_only=True)
class LatentRow(Row):
    """A picture as latents. ``latents`` and all of ``conditions`` have a batch of 1 in front.

    ``clean`` is what the scheduler last took for the latents without noise.
    """

    latents: torch.Tensor
    sampler: Sampler
    conditions: Embeds
    guidance: float
    clean: torch.Tensor | None = None

    @property
    def timestep(self) -> torch.Tensor:
        """The timestep of the next evaluation; shape []."""
        return self.sampler.timestep(self.step)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one pass of the denoiser: ``batched`` tensors have a row each, ``shared`` are the same for all."""

    batched: dict[str, torch.Tensor]
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the pass has."""
        return len(next(iter(self.batched.values())))


Forward = Callable[[Inputs], torch.Tensor]
"""One pass of a denoiser: [rows, ...] of predictions. Raises whatever the device raises."""


class Family(ABC):
    """One kind of pipeline. Its pipeline, scheduler template and settings; no request's state.

    ``device`` is torch's name of the place where the denoiser computes.
    """

    def __init__(self, pipeline: Any, settings: ModelSettings, device: str, dtype: torch.dtype) -> None:
        """``pipeline`` is not moved, and not changed but where its class says so.

        ``dtype`` is what the denoiser computes in; its weights may be stored in another.
        """
        self.pipeline = pipeline
        self.settings = settings
        self.device = torch.device(device)
        self.dtype = dtype
        self._scheduler = own_scheduler(pipeline.scheduler)
        self._defaults = {
            name: parameter.default for name, parameter in inspect.signature(pipeline.__call__).parameters.items()
        }

    @property
    def denoiser(self) -> torch.nn.Module:
        """The transformer, called with ``Inputs``; a family with a UNet has another."""
        transformer: torch.nn.Module = self.pipeline.transformer
        return transformer

    @classmethod
    def dressed(cls, denoiser: torch.nn.Module) -> torch.nn.Module:
        """A denoiser, as loaded, that takes what ``inputs`` name. Without a pipeline, for processes that have none."""
        return denoiser

    @property
    @abstractmethod
    def size_multiple(self) -> int:
        """Width and height are multiples of so many pixels."""

    @property
    def sampler(self) -> str:
        """The scheduler's name."""
        return type(self._scheduler).__name__.removesuffix("Scheduler")

    def arguments(self, request: RenderRequest) -> dict[str, Any]:
        """What the pipeline's ``__call__`` would be given for the request, and its own defaults of all else.

        Raises InvalidRequestError on what it doesn't take.
        """
        return {**self._defaults, **pipeline_arguments(request, self.settings, self._defaults)}

    def guidance(self, request: RenderRequest) -> float:
        """The request's guidance scale; where it has none, the pipeline's own default."""
        return float(self.arguments(request)[self.guidance_argument] or 0.0)

    guidance_argument = "guidance_scale"

    @property
    def text_length(self) -> int:
        """Tokens that a text is padded to or cut at; 0 where the tokenizer alone decides."""
        default = self._defaults.get("max_sequence_length")
        return 0 if default is None else text_length(self.settings) or int(default)

    def key(self, request: RenderRequest) -> BatchKey:
        """The request's batch key. Raises InvalidRequestError on what the model can't render."""
        self.check(request)
        return BatchKey(
            model=request.model,
            width=request.width,
            height=request.height,
            text_length=self.text_length,
            guided=self.guided(request),
            adapters=request.adapters,
        )

    def check(self, request: RenderRequest) -> None:
        """Raise InvalidRequestError on what the pipeline would refuse, and on sizes that it would round."""
        given = {**self.arguments(request), "max_sequence_length": self.text_length or None}
        parameters = inspect.signature(self.pipeline.check_inputs).parameters.values()
        needed = {one.name: given.get(one.name) for one in parameters if one.default is one.empty or one.name in given}
        try:
            self.pipeline.check_inputs(**needed)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(f"the model refuses the request: {error}") from error
        except Exception as error:  # what it trips over says nothing to people
            raise InvalidRequestError(f"the model refuses the request: {type(error).__name__}") from error
        if request.width % self.size_multiple or request.height % self.size_multiple:
            raise InvalidRequestError(
                f"the model can't render {request.width}x{request.height}: "
                f"width and height must be multiples of {self.size_multiple}"
            )

    @abstractmethod
    def guided(self, request: RenderRequest) -> bool:
        """Whether classifier-free guidance asks the denoiser twice a step."""

    @abstractmethod
    def encode(self, text: str) -> Embeds:
        """What the text encoders make of one text; a batch of 1 in front of each tensor."""

    @abstractmethod
    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """All that a row's denoiser inputs need of the request beside latents and timestep; a batch of 1 in front."""

    @abstractmethod
    def draw(self, request: RenderRequest, generator: torch.Generator) -> torch.Tensor:
        """The first noise, from a CPU generator, as the denoiser takes it and not scaled; a batch of 1 in front."""

    @abstractmethod
    def schedule(self, scheduler: Any, request: RenderRequest, latents: torch.Tensor) -> torch.Tensor:
        """Set the scheduler's timesteps (on the CPU) for the request and give them: shape [evaluations]."""

    @abstractmethod
    def inputs(self, rows: Sequence[LatentRow]) -> tuple[Inputs, ...]:
        """The passes of the denoiser for one step of these rows, whose keys are equal."""

    @abstractmethod
    def combine(self, outputs: Sequence[torch.Tensor], rows: Sequence[LatentRow]) -> torch.Tensor:
        """One prediction a row of what the passes gave: [rows, ...]. Guidance happens here."""

    @abstractmethod
    def grid(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """Latents [B, ...] of one key in rows and columns: [B, channels, height / 8, width / 8] or so."""

    @abstractmethod
    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """Pictures of a grid of any size: [B, 3, height, width], about -1…1. May run on another thread."""

    def decode(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """Pictures of latents [B, ...] of one key: [B, 3, height, width], about -1…1. May run on another thread."""
        return self.decode_grid(self.grid(latents, key))

    def step_arguments(self, generator: torch.Generator) -> Mapping[str, Any]:
        """What each step of the scheduler is given beside the tensors.

        Some pipelines leave the generator out, and their schedulers then draw numbers that no seed decides: here a row
        has its own in every family.
        """
        known = {"generator": generator, "eta": 0.0}
        return {name: known[name] for name in inspect.signature(self._scheduler.step).parameters if name in known}

    def noise_scale(self, scheduler: Any) -> Any:  # noqa: ARG002
        """What the first noise is multiplied by, once the timesteps are set."""
        return 1.0

    def rows(self, request: RenderRequest, conditions: Embeds) -> list[LatentRow]:
        """One row a seed, drawn from a CPU generator of its own. Raises InvalidRequestError on impossible steps."""
        key, guidance = self.key(request), self.guidance(request)
        return [self._row(request, seed, key, guidance, conditions) for seed in request.seeds]

    def _row(self, request: RenderRequest, seed: int, key: BatchKey, guidance: float, conditions: Embeds) -> LatentRow:
        generator = torch.Generator("cpu").manual_seed(seed)
        latents = self.draw(request, generator)
        scheduler = own_scheduler(self._scheduler)
        try:
            timesteps = self.schedule(scheduler, request, latents)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(f"the model refuses the request: {error}") from error
        sampler = Sampler(scheduler, timesteps, generator, extra=self.step_arguments(generator))
        return LatentRow(
            key=key,
            steps=sampler.steps,
            latents=latents * self.noise_scale(scheduler),
            sampler=sampler,
            conditions=conditions,
            guidance=guidance,
        )


def decoded(vae: Any, grid: torch.Tensor) -> torch.Tensor:
    """What a VAE with a scale and a shift makes of a grid: [B, 3, height, width]."""
    pictures: torch.Tensor = vae.decode(grid / vae.config.scaling_factor + vae.config.shift_factor, return_dict=False)[
        0
    ]
    return pictures


def stacked(rows: Sequence[LatentRow], name: str) -> torch.Tensor:
    """One condition of all rows: [rows, ...]."""
    return torch.cat([row.conditions[name] for row in rows])


def doubled(rows: Sequence[LatentRow], name: str) -> torch.Tensor:
    """One condition of all rows, the negative prompts' first where the rows are guided: [rows or 2 rows, ...]."""
    positive = stacked(rows, name)
    return torch.cat([stacked(rows, NEGATIVE + name), positive]) if rows[0].key.guided else positive


NEGATIVE = "negative_"
"""What the names of a negative prompt's conditions begin with."""


def negative(embeds: Embeds) -> dict[str, torch.Tensor]:
    """Embeds as the conditions of a negative prompt."""
    return {NEGATIVE + name: tensor for name, tensor in embeds.items()}


def latents_of(rows: Sequence[LatentRow]) -> torch.Tensor:
    """The rows' latents: [rows, ...]."""
    return torch.cat([row.latents for row in rows])


def timesteps_of(rows: Sequence[LatentRow], device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The rows' timesteps: [rows], on the device."""
    timesteps = torch.stack([row.timestep for row in rows])
    return on_device(timesteps if dtype is None else timesteps.to(dtype), device)


def scales_of(rows: Sequence[LatentRow], device: torch.device) -> torch.Tensor:
    """The rows' guidance scales: [rows], float32, on the device."""
    return on_device(torch.tensor([row.guidance for row in rows], dtype=torch.float32), device)


def guided_sum(negative: torch.Tensor, positive: torch.Tensor, rows: Sequence[LatentRow]) -> torch.Tensor:
    """Classifier-free guidance with a scale a row (https://arxiv.org/abs/2207.12598): [rows, ...].

    Equal to that with one Python number, which is not rounded to the number format before it multiplies.
    """
    scale = scales_of(rows, positive.device).view(-1, *[1] * (positive.ndim - 1))
    return negative + (scale * (positive - negative)).to(positive.dtype)


def guided_halves(output: torch.Tensor, rows: Sequence[LatentRow]) -> torch.Tensor:
    """The prediction of one pass whose rows may be ``doubled``: [rows, ...]."""
    if not rows[0].key.guided:
        return output
    without, with_prompt = output.chunk(2)
    return guided_sum(without, with_prompt, rows)
