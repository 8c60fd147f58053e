"""The capture of CUDA graphs itself: the only place that calls torch.cuda's graphs.

All graphs of one ``CudaCapture`` share a memory pool, so that they take about as much as the largest of them. That is
sound because they run one after the other on one stream and their outputs are copied out at once. Other threads may go
on using the device on streams of their own meanwhile (``thread_local``), but none may wait for the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

Call = Callable[[], torch.Tensor]

# The first calls allocate workspaces and pick algorithms, neither of which may happen during a capture.
_WARM_UPS = 3


class Replay(Protocol):
    """A captured call. ``output`` is the same memory after every replay."""

    output: torch.Tensor

    def replay(self) -> None:
        """Do it again, with what its inputs hold now."""

    def drop(self) -> None:
        """Let go of the graph and its output. It must not be replayed again."""


class Capture(Protocol):
    """Makes replays of calls."""

    @property
    def pool_bytes(self) -> int:
        """Device memory that the graphs captured since the last ``renew`` share."""

    def capture(self, call: Call) -> Replay:
        """Call a few times, then once for the record. Raises what the device raises."""

    def renew(self) -> None:
        """Begin another pool, and give back the memory of those whose replays are all dropped."""

    def settle(self) -> None:
        """Wait until no replay is under way."""


class CudaReplay:
    """A captured call on a CUDA device."""

    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self._graph = graph
        self.output = output

    def replay(self) -> None:
        """Do it again, on the current stream."""
        self._graph.replay()

    def drop(self) -> None:
        """Let go of the graph and its output."""
        self._graph.reset()
        del self.output


class CudaCapture:
    """Captures on one CUDA device. Belongs to the engine's thread."""

    def __init__(self, place: str) -> None:
        """``place`` is torch's name, with its index: ``cuda:0``."""
        self._device = torch.device(place)
        # One stream for all captures: memory of a pool is only shared within a stream.
        self._stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def pool_bytes(self) -> int:
        """The pool's segments, in bytes."""
        segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        return sum(
            segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) == tuple(self._pool)
        )

    def capture(self, call: Call) -> CudaReplay:
        """Warm up on the capture's stream, whose workspaces the graph will use, then capture."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._warm_up(call, current)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    output = call()
            except BaseException:
                # torch.cuda.graph leaves its own stream current where the capture can't be ended.
                torch.cuda.set_stream(current)
                raise
            return CudaReplay(graph, output)

    def renew(self) -> None:
        """Begin another pool, and give back what torch keeps of those that ended."""
        self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()

    def settle(self) -> None:
        """Wait for the engine's stream."""
        torch.cuda.current_stream(self._device).synchronize()

    def _warm_up(self, call: Call, current: torch.cuda.Stream) -> None:
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                call()
        current.wait_stream(self._stream)
