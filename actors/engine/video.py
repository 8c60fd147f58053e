"""From a video pipeline's frames to an MP4 file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from actors.engine.errors import BadOutputError
from actors.engine.request import Video

_QUALITY = "18"  # H.264's constant rate factor: visually lossless


def to_video(frames: Any, fps: int) -> Video:
    """An H.264 file of frames [frames, height, width, 3] in 0…1, that browsers play before it is loaded whole.

    yuv420p needs even sides: a last odd row or column is left out. Raises BadOutputError where a value is not a number,
    or where no frame differs from one colour all over.
    """
    import av
    import numpy as np

    frames = np.asarray(frames)
    if not np.isfinite(frames).all():
        raise BadOutputError("the model gave values that are not numbers")
    if (frames == frames[0, 0, 0]).all():
        raise BadOutputError("the model gave one colour all over instead of a video")
    height, width = (side - side % 2 for side in frames.shape[1:3])
    pixels = (frames[:, :height, :width] * 255).round().astype("uint8")
    with NamedTemporaryFile(suffix=".mp4") as file:  # the index is moved to the front at the end, in a file alone
        with av.open(file.name, "w", options={"movflags": "+faststart"}) as container:
            stream = container.add_stream("libx264", rate=Fraction(fps), options={"crf": _QUALITY})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for array in pixels:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(array, format="rgb24")))
            container.mux(stream.encode())
        data = Path(file.name).read_bytes()
    return Video(data=data, width=width, height=height, frames=len(pixels), fps=fps)
