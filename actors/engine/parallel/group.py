"""A group of rank processes: started together, stopped together, and never mended: a broken one is replaced."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from actors.engine.errors import ModelUnavailableError, OutOfMemoryError
from actors.engine.parallel.arena import Arena, shared_file
from actors.engine.parallel.beats import Beats
from actors.engine.parallel.births import Child, bear
from actors.engine.parallel.meeting import Meeting
from actors.engine.parallel.orders import LOAD_S, Assignment, Done, Failed, Order, Ready, Reply, Seat
from actors.engine.parallel.seats import cores_of

if TYPE_CHECKING:
    import torch

    from actors.engine.devices import Device
    from safelight.config import EngineSettings, ModelSettings, ParallelSettings

_LOOK_S = 0.25
_AFTERMATH_S = 2.0  # for the others to tell that they failed too: else they wait for the one that did
_LOAD_SILENCE_S = 300.0  # importing a library from a slow disk keeps a rank from beating, as Python's lock is held


class GroupLostError(Exception):
    """The group is of no use any more, and has been ended; the message says which rank was lost how."""


@dataclass(frozen=True, slots=True)
class _Rank:
    process: Child
    connection: Connection
    outputs: Arena


class Group:
    """The ranks of one model. Used by one thread at a time; ends with this process at the latest."""

    def __init__(
        self,
        model: ModelSettings,
        parallel: ParallelSettings,
        engine: EngineSettings,
        devices: Sequence[Device],
        program: str,
        on_progress: Callable[[], None],
    ) -> None:
        """``program`` is what runs in each rank, ``module:Class``.

        ``on_progress`` is called now and then while all ranks are alive.
        """
        self._seats = [
            Seat(rank=rank, size=len(devices), device=device, model=model, engine=engine)
            for rank, device in enumerate(devices)
        ]
        self._parallel = parallel
        self._program = program
        self._on_progress = on_progress
        self._ranks: list[_Rank] = []
        self._meeting: Meeting | None = None
        self.weights: tuple[int, ...] = ()
        self.peaks: tuple[int, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """The ranks' processes, in order."""
        return tuple(rank.process.pid for rank in self._ranks)

    @property
    def folder(self) -> str:
        """Where the ranks meet; nothing before the start."""
        return "" if self._meeting is None else str(self._meeting.folder)

    @property
    def alive(self) -> bool:
        """True while no rank is known to be lost."""
        return bool(self._ranks) and all(not rank.process.ended() for rank in self._ranks)

    def start(self) -> None:
        """Start the processes and wait until all have loaded; ``weights`` then holds the bytes of each.

        Raises ModelUnavailableError, OutOfMemoryError, GroupLostError; no process is left then.
        """
        self._meeting = Meeting()
        self._beats = Beats(shared_file(), len(self._seats))
        self._inputs = Arena(shared_file())
        self._began = time.monotonic()
        try:
            for seat in self._seats:
                self._ranks.append(self._born(seat))
            ready = self._collect(LOAD_S, max(self._parallel.silence_s, _LOAD_SILENCE_S))
        except BaseException:
            self.stop()
            raise
        self.weights = tuple(one.weights for one in ready if isinstance(one, Ready))

    def run(self, orders: Sequence[Order], device: Device) -> list[list[torch.Tensor]]:
        """Have an order done by each rank; their tensors, on that device.

        Raises GroupLostError, OutOfMemoryError, and RuntimeError for what went wrong in an order. The group may have
        been ended by then (``alive``).
        """
        self._began = time.monotonic()
        try:
            for rank, data in zip(self._ranks, self._inputs.pack(*orders), strict=True):
                rank.connection.send_bytes(data)
        except OSError as error:
            raise self._lost("a rank has died") from error
        replies = self._collect(self._parallel.timeout_s, self._parallel.silence_s)
        done = [one for one in replies if isinstance(one, Done)]
        self.peaks = tuple(one.peak for one in done)
        return [rank.outputs.unpack(one.tensors, device.place) for rank, one in zip(self._ranks, done, strict=True)]

    def stop(self) -> None:
        """End all processes at once, whatever they do, and take away what they shared."""
        if self._meeting is None:
            return  # it was never started
        for rank in self._ranks:
            rank.process.kill()
        for rank in self._ranks:
            rank.connection.close()
            rank.outputs.close()
            rank.process.wait()
        self._ranks = []
        self._inputs.close()
        self._beats.close()
        self._meeting.close()

    def _born(self, seat: Seat) -> _Rank:
        ours, theirs = socket.socketpair()
        outputs = shared_file()
        assignment = Assignment(
            seat=seat,
            program=self._program,
            folder=self.folder,
            timeout_s=self._parallel.timeout_s,
            cores=cores_of(seat.device, seat.size),
        )
        with theirs:
            fds = [theirs.fileno(), self._beats.fd, self._inputs.fd, outputs]
            try:
                process = bear(fds, quick=seat.device.kind == "cpu")
            except OSError as error:
                ours.close()
                os.close(outputs)
                raise GroupLostError(f"rank {seat.rank} can't be started: {error}") from error
        connection = Connection(ours.detach())
        connection.send(assignment)
        return _Rank(process, connection, Arena(outputs))

    def _collect(self, limit_s: float, silence_s: float) -> list[Reply]:
        """A reply of each rank. Raises what they failed with, and ends the group where they can't go on."""
        replies: dict[int, Reply] = {}
        until = time.monotonic() + limit_s
        while len(replies) < len(self._ranks):
            pending = {rank.connection: number for number, rank in enumerate(self._ranks) if number not in replies}
            for connection in wait(list(pending), timeout=_LOOK_S):
                number = pending[connection]  # type: ignore[index]
                replies[number] = reply = self._receive(number)
                if isinstance(reply, Failed):
                    until = min(until, time.monotonic() + _AFTERMATH_S)
            self._look_after([one for one in pending.values() if one not in replies], replies, until, silence_s)
            self._on_progress()
        failures = [reply for reply in replies.values() if isinstance(reply, Failed)]
        if failures:
            raise self._error(failures, all_told=True)
        return [replies[number] for number in range(len(self._ranks))]

    def _receive(self, number: int) -> Reply:
        try:
            reply: Reply = self._ranks[number].connection.recv()
        except (EOFError, OSError) as error:
            raise self._lost(f"rank {number} has died") from error
        return reply

    def _look_after(self, waited_for: Sequence[int], replies: dict[int, Reply], until: float, silence_s: float) -> None:
        """Raise where a rank that is waited for shows no sign of life, or all of them have taken too long."""
        for number in waited_for:
            if self._beats.silence_s(number, self._began) > silence_s:
                raise self._lost(f"rank {number} has been silent for {silence_s:g} s")
        if waited_for and time.monotonic() > until:
            failures = [reply for reply in replies.values() if isinstance(reply, Failed)]
            if failures:
                raise self._error(failures, all_told=False)
            raise self._lost(f"rank {waited_for[0]} gave no answer in {time.monotonic() - self._began:.0f} s")

    def _error(self, failures: Sequence[Failed], *, all_told: bool) -> Exception:
        """What to raise: the first failure of the kind that says most. Ranks that are out of step are ended."""
        first = {failure.kind: failure.words for failure in reversed(failures)}
        if not all_told or len(failures) < len(self._ranks):
            self.stop()
        if "memory" in first:
            return OutOfMemoryError(f"a rank has not enough memory: {first['memory']}")
        if "model" in first:
            return ModelUnavailableError(first["model"])
        if all_told and set(first) == {"order"}:
            return RuntimeError(first["order"])
        words = first.get("device") or first.get("order") or first["link"]
        return self._lost(words)

    def _lost(self, words: str) -> GroupLostError:
        self.stop()
        return GroupLostError(words)
