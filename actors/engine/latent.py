"""A model whose rows step together: a family's adapter and its denoiser's forward pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import torch

from actors.engine.arguments import input_arguments
from actors.engine.devices import Device, other_stream
from actors.engine.embeds import EmbedCache, Embeds
from actors.engine.errors import InvalidRequestError
from actors.engine.families.base import Family, LatentRow
from actors.engine.observer import Observer, Unobserved
from actors.engine.outputs import to_picture
from actors.engine.passes import Passes, run_step
from actors.engine.previews import small_picture
from actors.engine.prompts import check_request, refusing, request_warnings
from actors.engine.resuming import restore_row, row_state
from actors.engine.sampling import advance_rows
from actors.engine.stepping import Adapters, Admitted, BatchKey, Row, RowState

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine.request import RenderRequest


class Places(Protocol):
    """Where a model's parts lie while they are used: a memory plan (memory.py)."""

    def encoding(self) -> AbstractContextManager[None]:
        """The text encoders can be called inside."""

    def decoding(self) -> AbstractContextManager[None]:
        """The VAE can be called inside; entered on another thread than ``encoding``."""


class Resident:
    """Everything lies on the device all the time."""

    def encoding(self) -> AbstractContextManager[None]:
        """Nothing moves."""
        return nullcontext()

    def decoding(self) -> AbstractContextManager[None]:
        """Nothing moves."""
        return nullcontext()


class AdapterSet(Protocol):
    """The LoRA adapters of one pipeline (adapters.py)."""

    def check(self, wanted: Adapters) -> None:
        """Raise InvalidRequestError where one is not in the model's settings."""

    def use(self, wanted: Adapters) -> None:
        """Let these, and no others, act from now on. Loads them if need be."""


def check_adapters(adapters: AdapterSet | None, wanted: Adapters) -> None:
    """Raise InvalidRequestError where one is not in the model's settings, which may name none at all."""
    if adapters is not None:
        adapters.check(wanted)
    elif wanted:
        raise InvalidRequestError(f"adapters: the model has no {', '.join(name for name, _ in wanted)}; it has none")


@dataclass(slots=True, kw_only=True)
class LatentModel:
    """A loaded model as the loop sees it (``stepping.Stepper``)."""

    name: str
    family: Family
    device: Device
    embeds: EmbedCache
    passes: Passes
    limits: Callable[[BatchKey], int]
    places: Places = field(default_factory=Resident)
    adapters: AdapterSet | None = None
    observer: Observer = field(default_factory=Unobserved)

    def key(self, request: RenderRequest) -> BatchKey:
        """The request's batch key. Raises InvalidRequestError on what the model can't render."""
        with refusing(self.name):
            check_request(request)
            input_arguments(request, accepted=())
            check_adapters(self.adapters, request.adapters)
            return self.family.key(request)

    def limit(self, key: BatchKey) -> int:
        """How many rows are worth stepping together."""
        return self.limits(key)

    @torch.no_grad()
    def admit(self, request: RenderRequest) -> Admitted:
        """Encode the prompt, draw the latents."""
        self._use(request.adapters)
        conditions = self.family.conditions(request, lambda text: self._encode(text, request.adapters))
        rows = self.family.rows(request, conditions)
        warnings = request_warnings(request, self.family.pipeline, self.family.settings)
        return Admitted(rows=rows, warnings=warnings, sampler=self.family.sampler)

    @torch.no_grad()
    def step(self, rows: Sequence[Row]) -> int:
        """One denoising step of all rows. No row has changed when it raises."""
        latent = cast("Sequence[LatentRow]", rows)
        key = latent[0].key
        self._use(key.adapters)
        outputs = run_step(self.passes, self.family.inputs(latent), key, latent)
        predictions = self.family.combine(outputs, latent)
        for row, (latents, clean) in zip(latent, advance_rows(latent, predictions), strict=True):
            row.latents, row.clean = latents, clean
            row.step += 1
        return self.passes.padding(len(rows), key)

    @torch.no_grad()
    def finish(self, row: Row) -> Sequence[Image]:
        """The row's picture, decoded on the calling thread's own stream."""
        latent = cast("LatentRow", row)
        with other_stream(self.device, latent.latents), self.places.decoding():
            return [to_picture(self.family.decode(latent.latents, latent.key), latent.key.width, latent.key.height)]

    def preview(self, row: Row) -> Callable[[], Image] | None:
        """A call that makes a small picture of what the row has come to."""
        latent = cast("LatentRow", row)
        clean, key = latent.latents if latent.clean is None else latent.clean, latent.key

        def make() -> Image:
            with torch.no_grad(), other_stream(self.device, clean), self.places.decoding():
                return small_picture(self.family, clean, key)

        return make

    def snapshot(self, row: Row) -> Callable[[], RowState] | None:
        """A call that gives the row's state as it stands now."""
        return row_state(cast("LatentRow", row))

    @torch.no_grad()
    def restore(self, row: Row, state: RowState) -> None:
        """Let a fresh row go on from a state. Raises CheckpointError."""
        restore_row(cast("LatentRow", row), state)

    def drop(self, row: Row) -> None:
        """Nothing is held for a row but its tensors."""

    def _use(self, adapters: Adapters) -> None:
        if self.adapters is not None:
            self.adapters.use(adapters)

    def _encode(self, text: str, adapters: Adapters) -> Embeds:
        name = self._name(text, adapters)

        def encode() -> Embeds:
            with self.places.encoding():
                return self.family.encode(text)

        embeds, hit = self.embeds.get(name, encode)
        self.observer.embedded(self.name, hit=hit)
        return {key: tensor.to(self.family.device) for key, tensor in embeds.items()}

    def _name(self, text: str, adapters: Adapters) -> Hashable:
        """All that decides a text's embeds: the files of the weights and of the adapters, not what they are called."""
        family, settings = self.family, self.family.settings
        files = [(settings.adapters[name], weight) for name, weight in adapters]
        return (
            (settings.model, settings.revision, settings.variant, type(family), str(family.dtype), family.text_length),
            tuple((adapter.path, adapter.file, adapter.revision, weight) for adapter, weight in files),
            text,
        )
