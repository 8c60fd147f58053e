"""An engine whose model is spread over ranks: the same pictures, progress and checkpoints, and ranks that may go."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from actors.engine import Engine, StepProgress, Watch
from actors.engine.errors import CanceledError, ModelUnavailableError
from actors.engine.request import RenderResult
from safelight.config import ParallelSettings
from tests.engine.conftest import TIMEOUT_S, ask, scenes
from tests.engine.parallel.alike import check_alike

REQUEST = ask(seeds=(1, 2), steps=4)


def ranks() -> list[int]:
    """The rank processes that there are, the first rank first."""
    mine = psutil.Process().children()
    return sorted(
        rank.pid for nursery in mine if "parallel.nursery" in " ".join(nursery.cmdline()) for rank in nursery.children()
    )


@pytest.fixture(scope="module")
def spread() -> Iterator[Engine]:
    """An engine that serves ``scenes`` on two ranks; stopping it leaves none."""
    parallel = ParallelSettings(kind="ulysses", devices=2, timeout_s=60, silence_s=5)
    engine = Engine({"scenes": scenes(parallel=parallel)}, device="cpu")
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)
    assert ranks() == []


@pytest.fixture(scope="module")
def expected(engine: Engine) -> RenderResult:
    """The request's pictures on one device."""
    return engine.submit(REQUEST).result(TIMEOUT_S)


def test_pictures_are_those_of_one_device(spread: Engine, expected: RenderResult) -> None:
    """With progress, in company, and from a checkpoint of the one device."""
    seen: list[StepProgress] = []
    handle = spread.submit(REQUEST, Watch(on_progress=seen.append))
    mate = spread.submit(replace(REQUEST, seeds=(9,), steps=6))
    check_alike(handle.result(TIMEOUT_S), expected)
    assert [one.step for one in seen] == sorted(one.step for one in seen)
    assert mate.result(TIMEOUT_S).batch_rows > 1
    assert len(ranks()) == 2


def test_a_render_that_is_stopped_goes_on_elsewhere(spread: Engine, engine: Engine, expected: RenderResult) -> None:
    """A checkpoint knows nothing of ranks."""
    handle = spread.submit(REQUEST, Watch(on_progress=lambda seen: handle.cancel(keep=True) if seen.step else None))
    with pytest.raises(CanceledError) as stopped:
        handle.result(TIMEOUT_S)
    assert stopped.value.checkpoint is not None
    result = engine.submit(replace(REQUEST, checkpoint=stopped.value.checkpoint)).result(TIMEOUT_S)
    assert result.resumed_at > 0
    check_alike(result, expected)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_goes_in_mid_render_costs_no_picture(
    spread: Engine, expected: RenderResult, number: signal.Signals
) -> None:
    """Killed or stopped: the group is replaced, and the step taken again: nobody has lost one."""
    spread.submit(ask(steps=1)).result(TIMEOUT_S)
    before = ranks()

    def strike(seen: StepProgress) -> None:
        if seen.step == 3 and ranks() == before:
            os.kill(before[1], number)

    result = spread.submit(REQUEST, Watch(on_progress=strike)).result(TIMEOUT_S)
    check_alike(result, expected)
    assert not set(before) & set(ranks())
    assert len(ranks()) == 2
    assert spread.healthy


def test_a_model_that_can_t_be_spread_so_is_unavailable() -> None:
    """Four heads are no three ranks' to share: no process is started."""
    parallel = ParallelSettings(kind="ulysses", devices=3)
    engine = Engine({"scenes": scenes(parallel=parallel)}, device="cpu")
    engine.start()
    with pytest.raises(ModelUnavailableError, match="4 attention heads can't be shared equally by 3 devices"):
        engine.submit(REQUEST).result(TIMEOUT_S)
    assert engine.stop(TIMEOUT_S)
