"""What the capture asks of torch.cuda, and in which order; where there is no device, torch.cuda is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from actors.engine.compiled.capture import CudaCapture


class Stream:
    """In place of a CUDA stream: who waited for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits: list[str] = []

    def wait_stream(self, other: Stream) -> None:
        """Note it."""
        self.waits.append(other.name)


class Cuda:
    """In place of torch.cuda, with torch's own ways: a capture that can't be ended leaves its stream current."""

    def __init__(self) -> None:
        self.current = self.engine = Stream("engine")
        self.calls: list[str] = []
        self.graphs: list[dict[str, Any]] = []
        self.pools = 0
        self.fails = False

    def graph_pool_handle(self) -> tuple[int, int]:
        """A new one each time."""
        self.pools += 1
        return (0, self.pools)

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """Make it current inside."""
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph: object, **options: Any) -> Iterator[None]:
        """As torch.cuda.graph: where ending the capture raises, its stream stays current."""
        self.graphs.append(options)
        before, self.current = self.current, options["stream"]
        yield
        if self.fails:
            raise RuntimeError("operation failed due to a previous error during capture")
        self.current = before


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A stand-in for those parts of torch.cuda that a capture uses."""
    stand_in = Cuda()

    def set_stream(stream: Stream) -> None:
        stand_in.current = stream

    @contextmanager
    def device(_device: torch.device) -> Iterator[None]:
        yield

    parts = {
        "Stream": lambda _device: Stream("capture"),
        "CUDAGraph": object,
        "graph_pool_handle": stand_in.graph_pool_handle,
        "current_stream": lambda _device=None: stand_in.current,
        "set_stream": set_stream,
        "stream": stand_in.stream,
        "graph": stand_in.graph,
        "device": device,
        "empty_cache": lambda: None,
        "memory_snapshot": lambda: [
            {"segment_pool_id": (0, pool), "total_size": 100 * pool} for pool in range(stand_in.pools + 1)
        ],
    }
    for name, part in parts.items():
        monkeypatch.setattr(torch.cuda, name, part)
    return stand_in


def test_warm_ups_and_the_capture_share_a_stream(cuda: Cuda) -> None:
    """Workspaces belong to a stream. The engine's stream waits for the warm-ups, and they for it."""
    seen: list[str] = []

    def call() -> torch.Tensor:
        seen.append(cuda.current.name)
        return torch.zeros(1)

    CudaCapture("cuda:0").capture(call)
    assert seen == ["capture"] * 4
    assert cuda.current is cuda.engine
    assert cuda.engine.waits == ["capture"]
    assert cuda.graphs[0]["stream"].waits == ["engine"]


def test_captures_share_a_pool_until_it_is_renewed(cuda: Cuda) -> None:
    """And never break on what other threads do."""
    capture = CudaCapture("cuda:0")
    for _ in range(2):
        capture.capture(lambda: torch.zeros(1))
    assert capture.pool_bytes == 100
    capture.renew()
    capture.capture(lambda: torch.zeros(1))
    assert capture.pool_bytes == 200
    assert [options["pool"] for options in cuda.graphs] == [(0, 1), (0, 1), (0, 2)]
    assert len({id(options["stream"]) for options in cuda.graphs}) == 1
    assert {options["capture_error_mode"] for options in cuda.graphs} == {"thread_local"}


def test_after_a_failed_capture_the_engines_stream_is_current(cuda: Cuda) -> None:
    """Otherwise all that follows would go to a stream that nobody waits for."""
    cuda.fails = True
    with pytest.raises(RuntimeError, match="previous error"):
        CudaCapture("cuda:0").capture(lambda: torch.zeros(1))
    assert cuda.current is cuda.engine
