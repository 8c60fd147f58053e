"""A seed means a picture: the same each time, alone or among others."""

from __future__ import annotations

import numpy as np
import pytest

from actors.engine import Engine, RenderResult
from tests.engine.conftest import TIMEOUT_S, ask


def pixels(result: RenderResult, index: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """An image as signed numbers [height, width, 3], fit for differences."""
    return np.asarray(result.images[index]).astype(np.int16)


def test_same_seed_same_picture(engine: Engine) -> None:
    """Bit for bit, on one machine."""
    first, second = (engine.submit(ask()).result(TIMEOUT_S) for _ in range(2))
    assert (pixels(first) == pixels(second)).all()
    assert first.images[0].size == (64, 64)


def test_other_seed_other_picture(engine: Engine) -> None:
    """2^32 is not taken for 2^32-1."""
    one = engine.submit(ask(seeds=(2**32, 2**32 - 1))).result(TIMEOUT_S)
    assert np.abs(pixels(one, 0) - pixels(one, 1)).max() > 8


def test_image_of_many_is_the_picture_of_its_seed_alone(engine: Engine) -> None:
    """Alone and batched differ by rounding at most."""
    together = engine.submit(ask(seeds=(5, 6, 7))).result(TIMEOUT_S)
    for index, seed in enumerate((5, 6, 7)):
        alone = engine.submit(ask(seeds=(seed,))).result(TIMEOUT_S)
        assert np.abs(pixels(together, index) - pixels(alone)).max() <= 1


@pytest.mark.parametrize(("width", "height"), [(64, 96), (96, 64)])
def test_width_and_height_are_not_swapped(engine: Engine, width: int, height: int) -> None:
    """The picture has the size that was asked for."""
    assert engine.submit(ask(width=width, height=height)).result(TIMEOUT_S).images[0].size == (width, height)


def test_result_tells_device_time_and_sampler(engine: Engine) -> None:
    """What is charged and what goes into the file's parameters."""
    result = engine.submit(ask()).result(TIMEOUT_S)
    assert result.device == "cpu"
    assert result.device_seconds > 0
    assert result.sampler == "FlowMatchEulerDiscrete"
