"""Checkpoints of a request's rows as bytes: a safetensors file whose header holds the plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.engine.stepping import RowState

if TYPE_CHECKING:
    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings


def identity_of(request: RenderRequest, settings: ModelSettings) -> str:
    """A digest of all that decides the latents: a checkpoint goes on only where it is the same."""
    raise NotImplementedError


def pack(states: Sequence[RowState], identity: str) -> bytes:
    """The states of a request's rows, in order."""
    raise NotImplementedError


def unpack(data: bytes, identity: str) -> list[RowState]:
    """The states that ``pack`` was given. Raises CheckpointError on damaged bytes, or another request's."""
    raise NotImplementedError
