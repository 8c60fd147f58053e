"""The capture itself, where there is a CUDA device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
import torch

from actors.engine.compiled.capture import CudaCapture
from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.regional import Regional
from actors.engine.passes import Eager, Passes
from tests.engine.compiled.tiny import KEY, Listener, flux_inputs, some_rows, tiny_flux

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PLACE = "cuda:0"


@pytest.fixture(autouse=True)
def _engine() -> Iterator[None]:
    """As in the engine: no gradients."""
    with torch.no_grad():
        yield


def graphed(denoiser: torch.nn.Module, otherwise: Passes, listener: Listener) -> GraphedPasses:
    """Passes with real graphs."""
    return GraphedPasses(
        denoiser=denoiser,
        otherwise=otherwise,
        capture=CudaCapture(PLACE),
        device=torch.device(PLACE),
        model="tiny",
        observer=listener,
        limit_bytes=2_000_000_000,
        max_batch=8,
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_replays_equal_eager_passes(compiled: bool) -> None:
    """Any number of rows in any order, and outputs stay what they were through later replays."""
    denoiser, listener = tiny_flux().to(PLACE), Listener()
    cases = [flux_inputs(rows, seed=seed, device=PLACE) for seed, rows in enumerate(some_rows(20, 8))]
    expected = [Eager(denoiser).run(inputs, KEY) for inputs in cases]
    passes = graphed(denoiser, Regional(denoiser, "tiny") if compiled else Eager(denoiser), listener)
    passes.warm(flux_inputs(1, device=PLACE), KEY, 8)
    outputs = [passes.run(inputs, KEY) for inputs in cases]
    torch.testing.assert_close(outputs, expected, rtol=1e-3, atol=1e-4)
    assert listener.events == {"capture": 4, "replay": 20}


def test_a_capture_lets_other_threads_work() -> None:
    """A decode on another stream allocates, copies to the host and waits for its stream meanwhile."""
    denoiser = tiny_flux(num_single_layers=40).to(PLACE)
    passes = graphed(denoiser, Eager(denoiser), Listener())
    stop, errors = threading.Event(), list[Exception]()

    def decode() -> None:
        stream = torch.cuda.Stream(PLACE)  # type: ignore[no-untyped-call]
        try:
            while not stop.is_set():
                with torch.cuda.stream(stream):
                    torch.randn(512, 512, device=PLACE).matmul(torch.randn(512, 512, device=PLACE)).cpu()
                stream.synchronize()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=decode)
    thread.start()
    passes.warm(flux_inputs(1, device=PLACE), KEY, 8)
    stop.set()
    thread.join()
    assert errors == []
    assert len(passes._graphs) == 4


def test_a_failed_capture_leaves_the_device_usable() -> None:
    """The current stream is the one before, and work goes on."""
    before = torch.cuda.current_stream(PLACE)
    values = torch.ones(4, device=PLACE)
    with pytest.raises(RuntimeError):
        CudaCapture(PLACE).capture(
            lambda: values * (values.sum().item() if torch.cuda.is_current_stream_capturing() else 1)
        )
    assert torch.cuda.current_stream(PLACE) == before
    assert (values + 1).tolist() == [2.0] * 4


def test_memory_goes_back() -> None:
    """After a release the pool's memory is the device's again."""
    denoiser = tiny_flux().to(PLACE)
    passes = graphed(denoiser, Eager(denoiser), Listener())
    passes.run(flux_inputs(8, side=32, device=PLACE), KEY)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(PLACE)
    assert passes.idle()
    assert passes.nbytes > 0
    assert passes.release()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(PLACE) <= before


def test_graphs_share_a_pool() -> None:
    """Four batch sizes take less than twice what the largest takes alone."""
    capture, denoiser = CudaCapture(PLACE), tiny_flux().to(PLACE)
    taken = []
    replays = []
    for rows in (8, 4, 2, 1):
        replays.append(capture.capture(partial(Eager(denoiser).run, flux_inputs(rows, side=32, device=PLACE), KEY)))
        taken.append(capture.pool_bytes)
    assert taken[-1] < 2 * taken[0]
    for replay in replays:
        replay.drop()
