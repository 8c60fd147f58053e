"""A model of videos in the settings: its jobs fail with words, not with a picture short."""

from __future__ import annotations

import pytest

from actors.engine.errors import InvalidRequestError
from actors.engine.request import RenderResult, Video
from actors.rendering import check_pictures


def test_videos_are_refused_with_what_they_cost() -> None:
    """Another try would give the same."""
    video = Video(data=b"", width=64, height=64, frames=9, fps=8)
    with pytest.raises(InvalidRequestError, match="'film' renders videos") as caught:
        check_pictures("film", RenderResult(videos=(video,), device="cpu", device_seconds=2.5))
    assert caught.value.device_seconds == 2.5
