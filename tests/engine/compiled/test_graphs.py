"""The logic around CUDA graphs, with a stand-in for the capture itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.errors import ModelUnavailableError
from actors.engine.families.base import Inputs
from actors.engine.passes import Eager
from actors.engine.stepping import Adapters
from tests.engine.compiled.tiny import CPU, KEY, Listener, StandIn, flux_inputs, some_rows, tiny_flux

LARGE = replace(KEY, width=1024, height=1024)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """One thread, no gradients: as in the engine."""
    torch.set_num_threads(1)
    with torch.no_grad():
        yield


def graphed(capture: StandIn, listener: Listener | None = None, **changes: Any) -> GraphedPasses:
    """Passes of a tiny denoiser with graphs of a stand-in."""
    denoiser = changes.pop("denoiser", None) or tiny_flux()
    arguments: dict[str, Any] = {
        "denoiser": denoiser,
        "otherwise": Eager(denoiser),
        "capture": capture,
        "device": CPU,
        "model": "tiny",
        "observer": listener or Listener(),
        "limit_bytes": 1_000_000,
        "max_batch": 8,
    }
    return GraphedPasses(**arguments | changes)


def settle(passes: GraphedPasses) -> int:
    """Give it all the idle moments it wants; how many it took."""
    taken = 0
    while passes.idle():
        taken += 1
        assert taken < 100
    return taken


def test_replayed_passes_equal_eager_ones() -> None:
    """Any number of rows, in any order, with idle moments between: padding, cutting and copying change nothing."""
    capture, listener = StandIn(), Listener()
    passes = graphed(capture, listener)
    eager, outputs = Eager(passes.denoiser), []
    for seed, rows in enumerate(some_rows(40, 8)):
        inputs = flux_inputs(rows, seed=seed)
        outputs.append((passes.run(inputs, KEY), eager.run(inputs, KEY)))
        if seed % 5 == 0:
            passes.idle()
    for output, expected in outputs:
        assert output.shape == expected.shape
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    assert sorted(capture.captured) == [1, 2, 4, 8]
    assert listener.events["capture"] == 4
    assert listener.events["replay"] + listener.events["fallback"] == 40
    assert listener.events["replay"] >= 20


def test_requests_wait_for_no_capture() -> None:
    """The first passes run as they would without graphs; the capture happens in an idle moment, one in each."""
    capture = StandIn()
    passes = graphed(capture)
    for rows in (1, 1, 2):
        passes.run(flux_inputs(rows), KEY)
    assert capture.captured == []
    assert passes.idle()
    assert capture.captured == [2]
    assert passes.idle()
    assert not passes.idle()
    assert capture.captured == [2, 1]


def test_padding_is_told_as_it_was() -> None:
    """Rows of no use went along only where a graph was replayed."""
    passes = graphed(StandIn())
    passes.run(flux_inputs(3), KEY)
    assert passes.padding(3, KEY) == 0
    settle(passes)
    passes.run(flux_inputs(3), KEY)
    assert passes.padding(3, KEY) == 1
    assert passes.padding(2, KEY) == 0
    passes.run(flux_inputs(5), LARGE)
    settle(passes)
    passes.run(flux_inputs(5), LARGE)
    assert passes.padding(5, LARGE) == 0


def test_more_rows_than_the_largest_graph() -> None:
    """They run, and nothing is captured for them."""
    capture = StandIn()
    passes = graphed(capture, max_batch=2)
    assert len(passes.run(flux_inputs(3), KEY)) == 3
    assert not passes.idle()


def test_shared_tensors_are_inputs() -> None:
    """A replay reads this pass's ids, not those of the capture."""
    passes = graphed(StandIn())
    first = flux_inputs(2)
    passes.run(first, KEY)
    settle(passes)
    other = Inputs(first.batched, {**first.shared, "img_ids": first.shared["img_ids"] * 3})
    output = passes.run(other, KEY)
    torch.testing.assert_close(output, Eager(passes.denoiser).run(other, KEY))
    assert not torch.allclose(output, Eager(passes.denoiser).run(first, KEY))


def test_warm_captures_every_bucket_the_largest_first() -> None:
    """Up to the limit that is worth stepping together; then nothing is left to do and every pass is replayed."""
    capture, listener = StandIn(), Listener()
    passes = graphed(capture, listener)
    passes.warm(flux_inputs(1), KEY, 5)
    assert capture.captured == [8, 4, 2, 1]
    passes.warm(flux_inputs(1), LARGE, 3)
    assert capture.captured == [8, 4, 2, 1, 3, 2, 1]
    for rows in (1, 2, 3, 4, 5):
        passes.run(flux_inputs(rows), KEY)
    assert listener.events["replay"] == 5
    assert not passes.idle()


def test_guidance_doubles_rows() -> None:
    """Passes of a guided key may have twice the rows: they have graphs too, and two rows of padding count as one."""
    capture = StandIn()
    passes = graphed(capture)
    guided = replace(KEY, guided=True)
    passes.run(flux_inputs(16), guided)
    settle(passes)
    passes.run(flux_inputs(10), guided)
    assert passes.padding(5, guided) == 3
    passes.run(flux_inputs(16), KEY)
    assert not passes.idle()
    passes.warm(flux_inputs(2), guided, 4)
    assert capture.captured == [16, 8, 4, 2]


def test_a_capture_that_fails_is_not_tried_again() -> None:
    """Its passes run without; the others have their graphs. After three failures graphs are given up."""
    capture, listener = StandIn(), Listener()
    passes = graphed(capture, listener)
    expected = Eager(passes.denoiser).run(flux_inputs(2), KEY)
    capture.errors = [RuntimeError("operation not permitted when stream is capturing")]
    for _ in range(2):
        torch.testing.assert_close(passes.run(flux_inputs(2), KEY), expected)
        settle(passes)
    assert listener.events == {"fallback": 2}
    passes.run(flux_inputs(1), KEY)
    settle(passes)
    assert capture.captured == [1]
    assert passes.mode == "eager+graphs"
    capture.errors = [RuntimeError("again"), RuntimeError("and again")]
    for rows in (3, 8):
        passes.run(flux_inputs(rows), KEY)
        settle(passes)
    assert passes.mode == "eager"
    passes.run(flux_inputs(8, side=6), KEY)
    assert not passes.idle()
    passes.run(flux_inputs(1), KEY)
    assert listener.events["replay"] == 1  # what is there goes on


def test_a_pass_that_waits_is_refused_before_any_capture() -> None:
    """It costs no failure: the rehearsal sees it."""

    class Waiting(torch.nn.Module):
        def forward(self, x: torch.Tensor, **_: object) -> tuple[torch.Tensor]:
            return (x * x.max().item(),)

    capture = StandIn()
    passes = graphed(capture, denoiser=Waiting())
    for shape in range(1, 6):
        passes.run(Inputs({"x": torch.ones(1, shape)}), KEY)
        settle(passes)
    assert capture.captured == []
    assert passes.mode == "eager+graphs"


def test_out_of_memory_at_a_capture_gives_all_back() -> None:
    """Graphs are a luxury: they go first, and that one is not tried again."""
    capture, listener = StandIn(), Listener()
    passes = graphed(capture, listener)
    passes.run(flux_inputs(1), KEY)
    settle(passes)
    passes.run(flux_inputs(8), KEY)
    capture.errors = [torch.OutOfMemoryError("CUDA out of memory")]
    settle(passes)
    assert capture.alive == []
    assert listener.events["evict"] == 1
    passes.run(flux_inputs(8), KEY)
    assert not passes.idle()
    passes.run(flux_inputs(1), KEY)
    assert settle(passes) == 1


def test_the_graph_not_used_for_longest_makes_room() -> None:
    """The others are captured anew in a pool of their own, as a pool's memory goes back with its last graph."""
    capture = StandIn({1: 300_000, 2: 300_000, 4: 300_000, 8: 300_000})
    listener = Listener()
    passes = graphed(capture, listener)
    for rows in (1, 2, 4):
        passes.run(flux_inputs(rows), KEY)
        settle(passes)
    assert capture.captured == [1, 2, 4]
    passes.run(flux_inputs(1), KEY)  # now 2 is the one not used for longest
    passes.run(flux_inputs(8), KEY)
    settle(passes)
    assert sorted(capture.captured[4:]) == [1, 4, 8]
    assert passes.nbytes <= 1_000_000
    assert sorted(len(replay.output) for replay in capture.alive) == [1, 4, 8]
    assert listener.events["capture"] - listener.events["evict"] == 3
    passes.run(flux_inputs(2), KEY)
    assert settle(passes) > 0
    assert passes.nbytes <= 1_000_000


def test_a_graph_that_is_too_large_alone() -> None:
    """It is refused; the room is for others."""
    capture = StandIn({8: 2_000_000, 1: 10})
    passes = graphed(capture)
    passes.run(flux_inputs(8), KEY)
    settle(passes)
    assert capture.alive == []
    for rows in (8, 1):
        passes.run(flux_inputs(rows), KEY)
        settle(passes)
    assert capture.captured == [8, 1]


def test_released_graphs_come_back_when_used() -> None:
    """Nothing is held after a release, passes still run, and the next idle moment captures again."""
    capture = StandIn({2: 1000})
    passes = graphed(capture)
    assert not passes.release()
    passes.run(flux_inputs(2), KEY)
    settle(passes)
    passes.run(flux_inputs(1), KEY)
    assert passes.release()
    assert (capture.alive, passes.nbytes) == ([], 0)
    assert not passes.idle()
    passes.run(flux_inputs(2), KEY)
    assert settle(passes) == 1


def test_a_graph_never_outlives_its_weights() -> None:
    """When the weights lie elsewhere no graph is replayed, and all go."""
    capture = StandIn()
    passes = graphed(capture)
    passes.run(flux_inputs(2), KEY)
    settle(passes)
    passes.denoiser.to(torch.float64).to(torch.float32)
    inputs = flux_inputs(2, seed=3)
    torch.testing.assert_close(passes.run(inputs, KEY), Eager(passes.denoiser).run(inputs, KEY))
    assert capture.alive == []
    assert settle(passes) == 1


def test_adapters_act_while_their_graph_is_captured() -> None:
    """Idle moments come between other requests: whatever acts then is none of the wish's business."""
    acting: list[Adapters] = []
    passes = graphed(StandIn(), use=acting.append)
    style: Adapters = (("style", 0.5),)
    passes.run(flux_inputs(1), replace(KEY, adapters=style))
    passes.run(flux_inputs(1), KEY)
    settle(passes)
    assert acting == [(), style]


def test_adapters_that_can_not_act_cost_no_failure() -> None:
    """The wish is forgotten; it may come again."""

    def fail(_adapters: Adapters) -> None:
        raise ModelUnavailableError("the adapter's file is gone")

    capture = StandIn()
    passes = graphed(capture, use=fail)
    for _ in range(5):
        passes.run(flux_inputs(1), KEY)
        assert settle(passes) == 1
    assert capture.captured == []
    assert passes.mode == "eager+graphs"


def test_wishes_are_bounded() -> None:
    """Each holds a pass's inputs: of many shapes only the latest are remembered."""
    passes = graphed(StandIn())
    for side in range(2, 30):
        passes.run(flux_inputs(1, side=side), KEY)
    assert settle(passes) == 16
