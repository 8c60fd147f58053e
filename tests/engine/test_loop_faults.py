"""The loop with a model of arithmetic: who is to blame, and how a request leaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.engine.checkpoints import pack
from actors.engine.errors import CanceledError, EngineError, EngineStoppedError, OutOfMemoryError
from actors.engine.request import Handle, RenderRequest, Watch
from actors.engine.stepping import Finished, Row, RowState
from tests.engine.conftest import ask
from tests.engine.stage import Scripted, Stage


def test_out_of_memory_halves_the_batch_and_is_remembered() -> None:
    """Four rows on a device that holds two: halves at once, and no more than two from then on."""
    stage = Stage()
    stage.script(holds=2)
    handles = [stage.submit(steps=3) for _ in range(4)]
    stage.run()
    assert stage.batches == [2, 2, 2, 2, 2, 2]
    assert stage.steps.halvings == 1
    assert all(handle.result() for handle in handles)


def test_one_row_that_does_not_fit_fails_alone() -> None:
    """Nothing could be given up for it."""
    stage = Stage()
    stage.script(holds=0)
    handle = stage.submit()
    stage.run()
    with pytest.raises(OutOfMemoryError):
        handle.result(0)
    stage.shelf.peek(ask()).holds = 4  # type: ignore[union-attr]
    again = stage.submit()
    stage.run()
    assert again.result(0)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_bad_row_fails_alone(place: int) -> None:
    """Wherever it stands in the batch; the others have lost no step."""
    stage = Stage()
    stage.script(bad=frozenset({"bad"}))
    handles = [stage.submit(steps=3, prompt="bad" if index == place else "good") for index in range(4)]
    stage.run()
    for index, handle in enumerate(handles):
        error = handle.future.exception(0)
        assert (error is not None) == (index == place)
    assert stage.batches[-2:] == [3, 3]


def test_a_request_whose_row_is_bad_takes_its_other_rows_along() -> None:
    """A job has all its pictures or none; the rest of the batch goes on."""
    stage = Stage(batch=8)
    bad, good = stage.submit(steps=2, prompt="undecodable", seeds=(1, 2, 3)), stage.submit(steps=4)
    stage.run()
    assert bad.future.exception(0) is not None
    assert good.result(0)
    assert not stage.line.busy


def test_cancel_with_a_checkpoint_goes_on_elsewhere() -> None:
    """Only the steps that were left are taken."""
    stage = Stage()
    handle = stage.submit(steps=8, seeds=(1, 2))
    stage.run(until=lambda: len(stage.batches) == 5)
    handle.cancel(keep=True)
    stage.run()
    error = handle.future.exception(0)
    assert isinstance(error, CanceledError)
    assert error.checkpoint is not None
    assert error.device_seconds > 0
    stage.steps.taken.clear()
    again = stage.submit(steps=8, seeds=(1, 2), checkpoint=error.checkpoint)
    stage.run()
    assert stage.batches == [2, 2, 2]
    assert again.result(0).resumed_at == 5


def test_a_checkpoint_of_another_request_is_not_used() -> None:
    """The render begins anew and says so."""
    stage = Stage()
    handle = stage.submit(steps=8)
    stage.run(until=lambda: len(stage.batches) == 5)
    handle.cancel(keep=True)
    stage.run()
    error = handle.future.exception(0)
    assert isinstance(error, EngineError)
    again = stage.submit(steps=8, prompt="another", checkpoint=error.checkpoint)
    broken = stage.submit(steps=8, checkpoint=b"nonsense")
    stage.run()
    for result in (again.result(0), broken.result(0)):
        assert result.resumed_at == 0
        assert any("anew" in warning for warning in result.warnings)


def test_checkpoints_come_at_an_interval() -> None:
    """In seconds, not in steps."""
    stage = Stage()
    kept: list[bytes] = []
    stage.submit(Watch(on_checkpoint=kept.append, checkpoint_every_s=3.0), steps=10)
    stage.run()
    assert len(kept) == 3


def test_everything_leaves_when_the_line_closes() -> None:
    """One turn is enough."""
    stage = Stage()
    inside, waiting = stage.submit(steps=50), stage.submit(steps=50, width=128)
    stage.run(until=lambda: len(stage.batches) == 2)
    stage.line.close()
    stage.loop.turn()
    assert inside.future.exception(0) is not None
    assert waiting.future.exception(0) is not None
    assert not stage.line.busy


def test_a_finished_checkpoint_only_has_to_be_decoded() -> None:
    """No step is taken, and the loop goes on."""
    stage = Stage()
    again = stage.submit(steps=3, checkpoint=pack([RowState(step=3)], ask().prompt))
    stage.run()
    assert again.result(0).resumed_at == 3
    assert stage.batches == []


def test_other_rows_of_a_failed_request_are_not_stepped_on() -> None:
    """Its first four pictures can't be decoded: the eight that wait are let go."""
    stage = Stage()
    handle = stage.submit(steps=3, prompt="undecodable", seeds=tuple(range(12)))
    stage.run()
    assert handle.future.exception(0) is not None
    assert len(stage.batches) == 3


def test_a_line_that_closes_while_a_model_loads_ends_nothing_else() -> None:
    """Who waited has its answer by then, and is not let in after all."""
    stage = Stage()
    load = stage.shelf.load

    def load_slowly(name: str, in_use: set[str]) -> None:
        stage.line.close()
        load(name, in_use)

    stage.shelf.load = load_slowly  # type: ignore[method-assign]
    handle = stage.submit()
    stage.loop.turn()
    assert isinstance(handle.future.exception(0), EngineStoppedError)
    assert not stage.line.busy


def test_whatever_a_model_raises_on_the_way_in_fails_the_request_alone() -> None:
    """A damaged input picture, a check of a library's own."""
    stage = Stage()
    stage.script()
    model = stage.shelf.peek(ask())
    assert model is not None
    model.key = _raise  # type: ignore[method-assign,assignment]
    handle = stage.submit()
    stage.run()
    error = handle.future.exception(0)
    assert isinstance(error, EngineError)
    assert str(error) == "the render failed: OSError"
    assert not stage.line.busy


def _raise(_request: RenderRequest) -> Any:
    raise OSError("made up")


def test_a_decode_that_gives_nonsense_fails_its_request() -> None:
    """It does not wait for ever."""
    stage = Stage()
    stage.script(finish=lambda _row: None)
    handle = stage.submit()
    stage.run()
    assert isinstance(handle.future.exception(0), EngineError)
    assert not stage.line.busy


def test_a_model_is_in_use_until_its_pictures_are_made() -> None:
    """Not only until its last step."""
    stage = Stage()
    seen: list[set[str]] = []

    def finish(_row: Row) -> Finished:
        seen.append(stage.loop.in_use)
        return []

    stage.script(finish=finish)
    stage.submit(steps=2)
    stage.run()
    assert seen == [{"scenes"}]
    assert stage.loop.in_use == set()


def test_a_hand_back_while_decoding_gives_the_pictures() -> None:
    """They are all but done; a client's cancel still stops them."""
    stage = Stage()
    handles: list[Handle] = []

    def finish(_row: Row) -> Finished:
        handles[0].cancel(keep=len(handles) == 1)
        return []

    stage.script(finish=finish)
    handles.append(stage.submit(steps=2))
    stage.run()
    assert handles[0].result(0)
    handles.insert(0, stage.submit(steps=2))
    stage.run()
    assert isinstance(handles[0].future.exception(0), CanceledError)


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 6),  # steps
        st.integers(1, 5),  # pictures
        st.sampled_from([64, 96, 128]),
        st.sampled_from(["scenes", "other", "third"]),
        st.sampled_from(["good", "good", "bad", "undecodable"]),
        st.integers(0, 6),  # turns before the next comes
        st.booleans(),  # canceled at the next
    ),
    max_size=12,
)


@settings(max_examples=20, deadline=None)
@given(REQUESTS, st.integers(1, 6), st.integers(1, 3), st.integers(0, 2))
def test_whatever_comes_everyone_leaves(requests: list[Any], holds: int, open_groups: int, depth: int) -> None:
    """Good ones with their pictures, bad ones with an error; nothing stays behind, and no batch is too large."""
    stage = Stage({"open_groups": open_groups, "patience_s": 4.0}, depth=depth)
    Scripted.holds, Scripted.bad = holds, frozenset({"bad"})
    try:
        handles: list[tuple[Handle, RenderRequest, bool]] = []
        for steps, pictures, width, model, prompt, turns, canceled in requests:
            changes = {"steps": steps, "seeds": tuple(range(pictures)), "width": width}
            handle = stage.submit(model=model, prompt=prompt, **changes)
            handles.append((handle, handle.request, canceled))
            for _ in range(turns):
                stage.loop.turn()
            if canceled:
                handle.cancel(keep=turns % 2 == 0)
        stage.run()
    finally:
        Scripted.holds, Scripted.bad = 1_000, frozenset()
    for handle, request, canceled in handles:
        assert handle.future.done()
        if request.prompt == "good" and not canceled:
            assert handle.future.exception(0) is None
        elif request.prompt != "good":
            assert handle.future.exception(0) is not None
    assert not stage.line.busy
    assert not stage.loop.in_use
    assert max(stage.batches, default=0) <= min(stage.batch, max(holds, 1))
