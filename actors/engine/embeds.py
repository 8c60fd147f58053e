"""Encoded prompts, kept on the CPU: a repeated prompt costs no text encoder."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

import torch

Embeds = Mapping[str, torch.Tensor]
"""What the text encoders made of one text, by the family's own names; each with a batch of 1 in front."""


class EmbedCache:
    """The embeds used last, up to so many bytes. Belongs to the engine's thread.

    The key must name everything that decides the embeds: the files of the model and of the adapters, each with its
    revision, the number format, the text and the length it is padded to.
    """

    def __init__(self, limit_bytes: int) -> None:
        """``limit_bytes`` 0 keeps nothing."""
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[Hashable, Embeds] = OrderedDict()
        self.size_bytes = 0

    def get(self, key: Hashable, encode: Callable[[], Embeds]) -> tuple[Embeds, bool]:
        """The embeds of that key, encoded where they are not kept; and whether they were."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept, True
        embeds = {name: tensor.detach().cpu() for name, tensor in encode().items()}
        self._keep(key, embeds)
        return embeds, False

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self.size_bytes = 0

    def _keep(self, key: Hashable, embeds: Embeds) -> None:
        size = _bytes(embeds)
        if size > self._limit_bytes:
            return
        self._kept[key] = embeds
        self.size_bytes += size
        while self.size_bytes > self._limit_bytes:
            _, dropped = self._kept.popitem(last=False)
            self.size_bytes -= _bytes(dropped)


def _bytes(embeds: Embeds) -> int:
    return sum(tensor.nbytes for tensor in embeds.values())
