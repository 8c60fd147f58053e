"""Where a line of blocks is cut, and what then goes where."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.stages.cutting import cut, split
from actors.engine.parallel.stages.tracing import Block, Shape, Trace

COSTS = (1.0, 4.0, 2.0, 2.0, 7.0, 1.0, 3.0)


def dearest(cuts: tuple[int, ...], last_times: int) -> float:
    """What the dearest part costs."""
    parts = [sum(COSTS[a:b]) for a, b in zip((0, *cuts), (*cuts, len(COSTS)), strict=True)]
    return max(*parts[:-1], last_times * parts[-1]) if len(parts) > 1 else parts[0]


@pytest.mark.parametrize("last_times", [1, 2])
@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7])
def test_the_dearest_part_is_as_cheap_as_can_be(parts: int, last_times: int) -> None:
    """As all ways to cut, tried one by one."""
    ways = list(combinations(range(1, len(COSTS)), parts - 1))
    assert dearest(cut(COSTS, parts, last_times), last_times) == min(dearest(way, last_times) for way in ways)


def line() -> Trace:
    """a, b, c and d; d needs a's output as well as c's. All need t, which comes of no latents."""
    leaf = Shape(torch.utils._pytree.tree_flatten(0)[1], (((2, 3), torch.float32),))
    needs = {"t": (), "a": ("t",), "b": ("a", "t"), "c": ("b",), "d": ("a", "c", "t")}
    blocks = {
        name: Block(name, frozenset((one, 0) for one in of), name == "t", leaf) for name, of in needs.items()
    }  # fmt: skip
    return Trace(blocks, frozenset({("d", 0)}))


def test_what_skips_a_stage_goes_straight_to_where_it_is_needed() -> None:
    """And what comes of no latents is made wherever it is needed, and sent nowhere."""
    found = split(line(), dict.fromkeys("abcd", 1.0) | {"a": 2.0, "d": 2.0}, 3)
    assert [stage.flowing for stage in found.stages] == [("a",), ("b", "c"), ("d",)]
    assert [stage.steady for stage in found.stages] == [("t",), ("t",), ("t",)]
    links = [(link.source, link.target, link.ports) for link in found.links]
    assert links == [(0, 1, (("a", 0),)), (0, 2, (("a", 0),)), (1, 2, (("c", 0),))]
    assert [stage.seconds for stage in found.stages] == [2.0, 2.0, 2.0]


def test_more_stages_than_blocks_are_refused() -> None:
    """Before anything is loaded."""
    with pytest.raises(ModelUnavailableError, match="4 blocks can't be cut into 5 stages"):
        split(line(), dict.fromkeys("abcd", 1.0), 5)
