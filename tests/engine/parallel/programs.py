"""Programs for rank processes of tests: small, quick to start, and breakable on demand."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.orders import Order, Seat

_SO_ATTACH_FILTER = 26


class Adder:
    """Adds up the ranks' numbers: each pass gives ``x + sum of all ranks``. An order's note may ask for trouble."""

    def load(self, seat: Seat) -> int:
        """Loads nothing."""
        self._rank = seat.rank
        if seat.model.identity == "broken" and seat.rank == 1:
            raise ModelUnavailableError("made up: it is broken")
        return 100 + seat.rank

    def run(self, order: Order) -> Sequence[torch.Tensor]:
        """Meets the others, unless it is to fail."""
        if order.note.get("fails") == self._rank or order.note.get("fails") == "all":
            raise ValueError("made up")
        if order.note.get("memory") == self._rank:
            raise torch.OutOfMemoryError("made up")
        if order.note.get("sleeps") == self._rank:
            time.sleep(60)
        if order.note.get("cuts") == self._rank:
            cut_links()
        if order.note.get("silences") == self._rank:
            silence_links()
        total = torch.tensor(float(self._rank))
        torch.distributed.all_reduce(total)
        return [one.batched["x"] + total for one in order.passes]


def cut_links() -> None:
    """Take this process's TCP connections down, behind the backs of those who use them."""
    for link in links():
        link.shutdown(socket.SHUT_RDWR)


def silence_links() -> None:
    """Let this process's TCP connections take nothing in any more, as if the network were gone (Linux).

    By a filter of one instruction that lets nothing through: BPF_RET | BPF_K, 0.
    """
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(nothing))
    for link in links():
        link.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def links() -> Iterator[socket.socket]:
    """This process's TCP connections."""
    for name in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name.name))) as link:
            if link.family in (socket.AF_INET, socket.AF_INET6) and link.getpeername():
                yield link
