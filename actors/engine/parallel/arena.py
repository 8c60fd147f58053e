"""Tensors in memory that two processes share. It has no name: when the last process goes, it is gone."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from typing import Any

import torch

_ALIGN = 64  # bytes: a cache line, and enough for any number format


def shared_file() -> int:
    """The descriptor of an empty file in memory without a name, for ``Arena`` or ``Beats``."""
    if hasattr(os, "memfd_create"):  # a container's /dev/shm may be small
        return os.memfd_create("safelight")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Arena:
    """One writer packs, the others unpack; whoever packs again must know that the others are through.

    What is packed may be of any shape: its tensors are laid out here, all else goes into the bytes that name them.
    The bytes are pickles, to be exchanged only between a process and those that it started.
    """

    def __init__(self, fd: int) -> None:
        """``fd`` comes from ``shared_file``, here or in the process that started this one; it belongs to the arena."""
        self.fd = fd
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def pack(self, *things: Any) -> list[bytes]:
        """Lay out the tensors of all, one that comes up again only once; each thing's bytes. Overwrites the last."""
        slots: dict[int, _Slot] = {}
        end = 0
        packed = []
        for thing in things:
            buffer = io.BytesIO()
            pickler = _Pickler(buffer, slots, end)
            pickler.dump(thing)
            end = pickler.end
            packed.append(buffer.getvalue())
        self._make_room(end)
        for slot in slots.values():
            self._view(slot.place).copy_(slot.tensor)
        return packed

    def unpack(self, data: bytes, device: torch.device | str) -> Any:
        """What was packed, with tensors of its own on a device."""
        return _Unpickler(io.BytesIO(data), self, torch.device(device)).load()

    def close(self) -> None:
        """Let go of the memory."""
        self._bytes = torch.empty(0, dtype=torch.uint8)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def read(self, place: _Place, device: torch.device) -> torch.Tensor:
        """A copy of a tensor that lies here."""
        if place.end > len(self._bytes):
            self._map()
        view = self._view(place)
        return view.clone() if device.type == "cpu" else view.to(device)

    def _make_room(self, size: int) -> None:
        if size > len(self._bytes):
            os.ftruncate(self.fd, max(size, 2 * len(self._bytes)))
            self._map()

    def _map(self) -> None:
        self._bytes = torch.frombuffer(mmap.mmap(self.fd, os.fstat(self.fd).st_size), dtype=torch.uint8)

    def _view(self, place: _Place) -> torch.Tensor:
        return self._bytes[place.start : place.end].view(place.dtype).view(place.shape)


class _Place:
    """Where a tensor lies, and how it is to be read. A plain class that pickles by its fields."""

    __slots__ = ("dtype", "end", "shape", "start")

    def __init__(self, start: int, end: int, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        self.start, self.end, self.dtype, self.shape = start, end, dtype, shape

    def __reduce__(self) -> tuple[Any, ...]:
        return _Place, (self.start, self.end, self.dtype, self.shape)


class _Slot:
    """A tensor, kept alive until it is copied, and its place."""

    __slots__ = ("place", "tensor")

    def __init__(self, tensor: torch.Tensor, place: _Place) -> None:
        self.tensor, self.place = tensor, place


class _Pickler(pickle.Pickler):
    """Leaves tensors out and notes where they go."""

    def __init__(self, buffer: io.BytesIO, slots: dict[int, _Slot], start: int) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._slots = slots
        self.end = start

    def persistent_id(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return None
        slot = self._slots.get(id(thing))
        if slot is None:
            start = -(-self.end // _ALIGN) * _ALIGN
            self.end = start + thing.numel() * thing.element_size()
            place = _Place(start, self.end, thing.dtype, tuple(thing.shape))
            slot = self._slots[id(thing)] = _Slot(thing.detach(), place)
        return slot.place


class _Unpickler(pickle.Unpickler):
    """Brings tensors back in."""

    def __init__(self, buffer: io.BytesIO, arena: Arena, device: torch.device) -> None:
        super().__init__(buffer)
        self._arena = arena
        self._device = device

    def persistent_load(self, place: Any) -> torch.Tensor:
        return self._arena.read(place, self._device)
