"""A request inside the engine: its rows, what it has cost, and its pictures as they come."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from actors.engine.errors import EngineError
from actors.engine.progress import RequestProgress
from actors.engine.request import Handle, Preview, RenderResult, StepProgress, Video
from actors.engine.stepping import Finished, Row, Stepper

if TYPE_CHECKING:
    from PIL.Image import Image

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class Task:
    """What the loop knows of a request that it let in. The loop's thread alone changes it, but for ``put``."""

    handle: Handle
    stepper: Stepper
    rows: Sequence[Row]
    sampler: str
    warnings: tuple[str, ...] = ()
    device_seconds: float = 0.0
    developing: int = 0
    resumed_at: int = 0
    checkpoint_at: float = 0.0
    checkpoint_under_way: bool = False
    _over: bool = False
    _arrived: dict[Row, int] = field(default_factory=dict)
    _shares: int = 0
    _mates: int = 0
    _progress: RequestProgress = field(init=False)
    _pictures: dict[Row, Finished] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Progress is told to whoever watches."""
        self._progress = RequestProgress(self.handle.request.steps, self._tell)

    def stepped(self, seconds: float, mates: int) -> None:
        """One of its rows took a step of ``seconds`` together with ``mates`` rows, itself counted."""
        self.charge(seconds / mates)
        self._shares += 1
        self._mates += mates

    @property
    def over(self) -> bool:
        """True once the request has its outcome, or is about to."""
        return self._over

    def end(self) -> bool:
        """Whoever hears True gives the request its outcome; all others hear False. From any thread."""
        with self._lock:
            over, self._over = self._over, True
            return not over

    def begin(self) -> None:
        """Note how far a checkpoint brought the request."""
        self._arrived = {row: row.step for row in self.rows}
        self.resumed_at = min((self._step(row, row.step) for row in self.rows), default=0)

    def arrived(self, row: Row, evaluation: int) -> None:
        """The device has done so many evaluations of a row; more of them may be under way."""
        self._arrived[row] = evaluation

    def charge(self, seconds: float) -> None:
        """The device worked so long for it. From any thread."""
        with self._lock:
            self.device_seconds += seconds

    def tell_progress(self) -> None:
        """Tell how far all rows together are on the device."""
        done = sum(row.images * min(self._arrived[row] / max(row.steps, 1), 1.0) for row in self.rows)
        self._progress.at(done / sum(row.images for row in self.rows))

    def tell_preview(self, row: Row, evaluation: int, image: Image) -> None:
        """Tell a small picture of one row as it stood after so many evaluations."""
        watch, request = self.handle.watch, self.handle.request
        if watch.on_preview is None or self.over:
            return
        step = self._step(row, evaluation)
        preview = Preview(index=self.rows.index(row), step=step, steps=request.steps, image=image)
        try:
            watch.on_preview(preview)
        except Exception:  # a listener's fault must not cost the render
            _log.exception("preview listener failed", action="engine.listener_failed")

    def tell_checkpoint(self, data: bytes) -> None:
        """Hand out a checkpoint."""
        if self.handle.watch.on_checkpoint is None or self.over:
            return
        try:
            self.handle.watch.on_checkpoint(data)
        except Exception:
            _log.exception("checkpoint listener failed", action="engine.listener_failed")

    def put(self, row: Row, finished: Finished) -> bool:
        """Take in a row's pictures; True when they are all there. From any thread."""
        with self._lock:
            self._pictures[row] = finished
            return len(self._pictures) == len(self.rows)

    def result(self, device: str) -> RenderResult:
        """The result, once all pictures are there."""
        made = [item for row in self.rows for item in self._pictures[row]]
        videos = tuple(item for item in made if isinstance(item, Video))
        return RenderResult(
            images=tuple(item for item in made if not isinstance(item, Video)),
            videos=videos,
            device=device,
            device_seconds=self.device_seconds,
            warnings=self.warnings,
            sampler=self.sampler,
            batch_rows=self._mates / max(self._shares, 1) if self._shares else 1.0,
            resumed_at=self.resumed_at,
        )

    def stamped(self, error: EngineError) -> EngineError:
        """The error, with what the request has cost."""
        error.device_seconds = self.device_seconds
        return error

    def _step(self, row: Row, evaluation: int) -> int:
        """The denoising step that so many evaluations come to."""
        steps = self.handle.request.steps
        return min(round(steps * evaluation / max(row.steps, 1)), steps)

    def _tell(self, progress: StepProgress) -> None:
        if self.handle.watch.on_progress is None:
            return
        try:
            self.handle.watch.on_progress(progress)
        except Exception:  # a listener's fault must not cost the render
            _log.exception("progress listener failed", action="engine.listener_failed")
