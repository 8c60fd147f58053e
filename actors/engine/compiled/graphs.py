"""Passes replayed from CUDA graphs: where launching kernels takes longer than running them, it is done once for all.

A graph is captured for one number of rows (``buckets.py``) and one shape of inputs. Requests don't wait for that: their
passes run as they would without graphs, and what they would have liked is captured in the next idle moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache

import structlog
import torch

from actors.engine.compiled.buckets import bucket_of, buckets
from actors.engine.compiled.capture import Capture, Replay
from actors.engine.compiled.rehearsal import NotCapturableError, rehearse
from actors.engine.compiled.static import StaticInputs, Weights, signature
from actors.engine.devices import is_out_of_memory
from actors.engine.errors import EngineError
from actors.engine.families.base import Inputs
from actors.engine.observer import GraphEvent, Observer
from actors.engine.passes import Eager, Passes, resized
from actors.engine.stepping import Adapters, BatchKey

_log = structlog.get_logger(__name__)

_WANTED_AT_MOST = 16  # each holds the inputs of a pass
_FAILURES_AT_MOST = 3  # each may cost memory for the life of the process: rehearsal.py tells why


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A pass that would have been replayed, had there been a graph for it."""

    key: BatchKey
    bucket: int
    inputs: Inputs


@dataclass(slots=True, kw_only=True)
class Graph:
    """A captured pass. ``nbytes`` are its static inputs and what it added to the pool."""

    key: BatchKey
    bucket: int
    static: StaticInputs
    replay: Replay
    weights: Weights
    nbytes: int

    def run(self, inputs: Inputs) -> torch.Tensor:
        """The pass's output, in memory of its own."""
        self.static.fill(inputs)
        self.replay.replay()
        return self.replay.output[: inputs.rows].clone()


@dataclass(slots=True, kw_only=True)
class GraphedPasses:
    """Passes of one denoiser, replayed where a graph is there, else run by ``otherwise``.

    ``use`` lets adapters act, as ``AdapterSet.use`` does. ``limit_bytes`` bounds what all graphs hold together: the one
    not used for longest makes room.
    """

    denoiser: torch.nn.Module
    otherwise: Passes
    capture: Capture
    device: torch.device
    model: str
    observer: Observer
    limit_bytes: int
    max_batch: int
    use: Callable[[Adapters], None] | None = None
    _graphs: OrderedDict[Hashable, Graph] = field(default_factory=OrderedDict)
    _wishes: OrderedDict[Hashable, Wish] = field(default_factory=OrderedDict)
    _refused: set[Hashable] = field(default_factory=set)
    _failures: int = 0
    _padded: tuple[BatchKey, int, int] | None = None

    @property
    def mode(self) -> str:
        """How passes are run."""
        if self._failures >= _FAILURES_AT_MOST:
            return self.otherwise.mode
        return f"{self.otherwise.mode}+graphs"

    @property
    def nbytes(self) -> int:
        """Device memory that all graphs hold: their pool and their inputs."""
        return self.capture.pool_bytes + sum(graph.static.nbytes for graph in self._graphs.values())

    def run(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        """One pass: [rows, ...]."""
        rows = inputs.rows
        bucket = bucket_of(rows, self._sizes(key))
        name = None if bucket is None else signature(inputs, key, bucket, self.device)
        graph = None if name is None else self._graphs.get(name)
        if graph is not None and graph.weights.moved:
            self.release()
            graph = None
        if bucket is None or name is None or graph is None:
            if bucket is not None and name is not None:
                self._wish(name, Wish(key=key, bucket=bucket, inputs=inputs))
            self._padded = None
            self._tell("fallback")
            return self.otherwise.run(inputs, key)
        self._graphs.move_to_end(name)
        self._padded = (key, rows, bucket - rows)
        self._tell("replay")
        return graph.run(inputs)

    def padding(self, rows: int, key: BatchKey) -> int:
        """How many rows of no use the last pass had, if it was one of so many rows of that key; else 0.

        Where guidance doubles the rows of a pass, two of them count as one.
        """
        if self._padded is None or self._padded[0] != key or self._padded[1] not in {rows, 2 * rows}:
            return 0
        _, ran, filled = self._padded
        return -(-filled * rows // ran)

    @torch.no_grad()
    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:
        """Compile, then capture for all batch sizes up to ``limit``: the largest first, whose memory serves all."""
        self.otherwise.warm(inputs, key, limit)
        sizes = [size for size in self._sizes(key) if size % inputs.rows == 0]
        largest = bucket_of(limit * inputs.rows, sizes) or sizes[-1]
        for bucket in reversed(sizes):
            name = signature(inputs, key, bucket, self.device)
            if bucket <= largest and name is not None and name not in self._graphs and not self._hopeless(name):
                self._take(name, Wish(key=key, bucket=bucket, inputs=resized(inputs, bucket)))

    @torch.no_grad()
    def idle(self) -> bool:
        """Capture what was wished for last; True where there was a wish."""
        if not self._wishes:
            return self.otherwise.idle()
        name, wish = self._wishes.popitem()
        self._take(name, wish)
        return True

    def release(self) -> bool:
        """Drop all graphs and wishes; False where there were no graphs. What could not be captured stays refused."""
        self._wishes.clear()
        held = bool(self._graphs)
        self._drop_all()
        return self.otherwise.release() or held

    def _sizes(self, key: BatchKey) -> tuple[int, ...]:
        """Rows of a pass that get a graph: guidance may double them."""
        return _buckets(self.max_batch * (2 if key.guided else 1), key.width * key.height)

    def _wish(self, name: Hashable, wish: Wish) -> None:
        if self._hopeless(name):
            return
        self._wishes[name] = wish
        self._wishes.move_to_end(name)
        if len(self._wishes) > _WANTED_AT_MOST:
            self._wishes.popitem(last=False)

    def _hopeless(self, name: Hashable) -> bool:
        return name in self._refused or self._failures >= _FAILURES_AT_MOST

    def _take(self, name: Hashable, wish: Wish) -> None:
        """Capture a wish, or refuse it for good. Where its adapters can't act now it is forgotten."""
        try:
            if self.use is not None:
                self.use(wish.key.adapters)
        except EngineError:
            return
        try:
            graph = self._captured(wish)
        except NotCapturableError as error:
            self._refuse(name, wish, str(error))
            return
        except Exception as error:
            if is_out_of_memory(error):
                reason, full = "out of memory", True
            else:
                reason, full = f"{type(error).__name__}: {str(error).strip()[:300]}", False
                self._failures += 1
        else:
            self._keep(name, graph)
            return
        # Outside the except block, whose traceback would keep the capture's tensors alive.
        if full:
            self.release()
        self._refuse(name, wish, reason)

    def _captured(self, wish: Wish) -> Graph:
        static, plain = StaticInputs(wish.inputs, wish.bucket), Eager(self.denoiser)

        def call() -> torch.Tensor:
            return plain.run(static.inputs, wish.key)

        rehearse(call)
        before = self.capture.pool_bytes
        replay = self.capture.capture(call)
        grown = max(0, self.capture.pool_bytes - before)
        weights = Weights.of(self.denoiser)
        return Graph(
            key=wish.key,
            bucket=wish.bucket,
            static=static,
            replay=replay,
            weights=weights,
            nbytes=static.nbytes + grown,
        )

    def _keep(self, name: Hashable, graph: Graph) -> None:
        self._graphs[name] = graph
        self._tell("capture")
        _log.info(
            "CUDA graph captured",
            action="engine.graph_captured",
            model=self.model,
            size=graph.key.size,
            rows=graph.bucket,
            bytes=graph.nbytes,
        )
        if self.nbytes > self.limit_bytes:
            self._make_room()

    def _make_room(self) -> None:
        """Let go of the graphs not used for longest until the others fit.

        The pool's memory goes back with the last of its graphs only: those that may stay are captured anew, in a pool
        of their own, when there is time.
        """
        staying = OrderedDict(self._graphs)
        while staying and sum(graph.nbytes for graph in staying.values()) > self.limit_bytes:
            name, gone = staying.popitem(last=False)
            if not staying:
                self._refused.add(name)
                self._log_refused(gone.key, gone.bucket, f"one graph takes {gone.nbytes} bytes")
        wishes = {
            name: Wish(key=graph.key, bucket=graph.bucket, inputs=graph.static.inputs)
            for name, graph in staying.items()
        }
        self._drop_all()
        for name, wish in wishes.items():
            self._wish(name, wish)

    def _drop_all(self) -> None:
        if self._graphs:
            self.capture.settle()
        while self._graphs:
            _, graph = self._graphs.popitem()
            graph.replay.drop()
            self._tell("evict")
        self.capture.renew()

    def _refuse(self, name: Hashable, wish: Wish, reason: str) -> None:
        self._refused.add(name)
        self._log_refused(wish.key, wish.bucket, reason)

    def _log_refused(self, key: BatchKey, bucket: int, reason: str) -> None:
        _log.warning(
            "no CUDA graph for such passes",
            action="engine.graph_refused",
            model=self.model,
            size=key.size,
            rows=bucket,
            reason=reason,
            given_up=self._failures >= _FAILURES_AT_MOST,
        )

    def _tell(self, event: GraphEvent) -> None:
        self.observer.graph(self.model, event)


@lru_cache(maxsize=64)
def _buckets(limit: int, pixels: int) -> tuple[int, ...]:
    return buckets(limit, pixels)
