"""Parts of a model that are on the device only while they are used."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary


class Part:
    """Modules that come to the device together and leave it together.

    Their weights never change while they are there, so that leaving copies nothing: the device's copy is dropped. On
    CUDA what stays behind is pinned, so that coming is one copy at the bus's full rate. Safe to use from any thread,
    and by several at once: the first brings the modules, the last lets them go.
    """

    def __init__(self, modules: Iterable[torch.nn.Module], device: torch.device) -> None:
        self._modules = tuple(modules)
        self._device = device
        self._users = 0
        self._lock = threading.Lock()
        self._homes: Any = WeakIdKeyDictionary()  # by weight, what of it stays on the CPU
        for weight in self._weights():
            weight.data = self._home(weight)

    @contextmanager
    def there(self) -> Iterator[None]:
        """The modules are on the device inside."""
        with self._lock:
            if self._users == 0:
                self._bring()
            self._users += 1
        try:
            yield
        finally:
            self._wait()
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._let_go()

    def _bring(self) -> None:
        try:
            for weight in self._weights():
                weight.data = self._home(weight).to(self._device, non_blocking=True, copy=True)
        except BaseException:  # out of memory half-way
            self._let_go()
            raise
        self._wait()

    def _wait(self) -> None:
        """Until this thread's work is done: users on other streams may read what came, and free what still is read."""
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def _let_go(self) -> None:
        for weight in self._weights():
            weight.data = self._home(weight)

    def _home(self, weight: torch.Tensor) -> torch.Tensor:
        """What of a weight stays on the CPU. Weights come and go with adapters, so that new ones are taken in."""
        home: torch.Tensor | None = self._homes.get(weight)
        if home is None:
            home = weight.data.to("cpu")
            home = home.pin_memory() if self._device.type == "cuda" else home
            self._homes[weight] = home
        return home

    def _weights(self) -> list[torch.Tensor]:
        """Parameters and buffers, each once."""
        tensors = (tensor for module in self._modules for tensor in (*module.parameters(), *module.buffers()))
        return list({id(tensor): tensor for tensor in tensors}.values())


class Staged:
    """Text encoders are on the device only inside ``encoding``, the VAE only inside ``decoding``.

    They leave at once. Where there is room to keep them, the plan is another one; and the next prompt is often one
    whose embeds are cached.
    """

    def __init__(
        self, encoders: Iterable[torch.nn.Module], decoders: Iterable[torch.nn.Module], device: torch.device
    ) -> None:
        self._encoders = Part(encoders, device)
        self._decoders = Part(decoders, device)

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """The text encoders are on the device inside; nesting it around several prompts brings them once."""
        with self._encoders.there():
            yield

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """The VAE is on the device inside."""
        with self._decoders.there():
            yield
