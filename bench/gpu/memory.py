"""What each memory plan takes at its worst moment: encoding, stepping and decoding one picture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from actors.engine.devices import Device
from actors.engine.embeds import EmbedCache
from actors.engine.latent import LatentModel
from actors.engine.passes import Eager
from bench.gpu.architectures import Architecture
from bench.gpu.timing import settle

PLANS = ("resident", "staged", "grouped")


def peak_bytes(architecture: Architecture, plan: str, side: int, device: Device, dtype: torch.dtype) -> int | None:
    """Bytes that torch had allocated on the device at most; None where the device keeps no count (a CPU).

    Weights are zeros: only their size matters.
    """
    from actors.engine.memory.placing import place

    pipeline = _whole(architecture, dtype)
    if device.kind == "cuda":
        torch.cuda.reset_peak_memory_stats(device.place)
    places = place(pipeline, _named(plan), device, stepped=True)
    family = architecture.family(pipeline, device.place, dtype)
    with torch.no_grad():
        with places.encoding():
            _encode(pipeline, architecture, device.place)
        rows = architecture.rows(family, side, 1)
        model = LatentModel(
            name=architecture.name,
            family=family,
            device=device,
            embeds=EmbedCache(0),
            passes=Eager(family.denoiser),
            limits=lambda _key: 1,
            places=places,
        )
        for _ in range(2):
            model.step(rows)
        with places.decoding():
            family.decode(rows[0].latents, rows[0].key)
    settle(device.place)
    return torch.cuda.max_memory_allocated(device.place) if device.kind == "cuda" else None


def _whole(architecture: Architecture, dtype: torch.dtype) -> Any:
    """The pipeline on the CPU, with its text encoders."""
    pipeline = replace(architecture, name=f"{architecture.name}-zeros").pipeline("meta", dtype)
    parts = {"text_encoder": _clip, "text_encoder_2": _t5}
    for name, build in parts.items():
        with torch.device("meta"):
            setattr(pipeline, name, build(architecture).to(dtype).eval().requires_grad_(requires_grad=False))
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.to_empty(device="cpu")
            for tensor in (*component.parameters(), *component.buffers()):
                tensor.zero_()
    return pipeline


def _clip(architecture: Architecture) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(CLIPTextConfig(**architecture.encoders["clip"]))


def _t5(architecture: Architecture) -> Any:
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(T5Config(feed_forward_proj="gated-gelu", **architecture.encoders["t5"]))


def _encode(pipeline: Any, architecture: Architecture, place: str) -> None:
    """Both text encoders over one text."""
    ids = torch.zeros(1, architecture.text_length, dtype=torch.long, device=place)
    pipeline.text_encoder(ids[:, : min(77, architecture.text_length)])
    pipeline.text_encoder_2(ids)


def _named(plan: str) -> Any:
    if plan not in PLANS:
        raise ValueError(f"no memory plan {plan!r}; there are {', '.join(PLANS)}")
    return plan
