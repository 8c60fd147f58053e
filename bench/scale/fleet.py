"""A queue and its workers in simulated time (SimPy).

A worker takes up to a batch of what waits and steps it together: a step of B pictures takes ``step_s + row_s * B``
seconds, as on the simulated device (``actors.engine.simulated.Pace``). Batches are taken whole: that rows may join a
batch under way, which shortens waits, is left out. A worker costs from the moment it is asked for until it is gone; it
serves once it has started and loaded its model, and leaves when its batch is done.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

from bench.scale.policies import Policy, Seen
from jobstore.rules.scaling import LATELY_S

Process = Generator[simpy.Event, Any, None]
Rate = Callable[[float], float]
"""Jobs a second at a moment."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in seconds; ``batch`` is the most pictures that step together."""

    steps: int = 28
    step_s: float = 0.05
    row_s: float = 0.07
    batch: int = 8
    start_s: float = 90.0
    store_s: float = 0.004  # of the database's, for a claim and a finish
    store_cores: int = 8
    poll_s: float = 15.0
    down_s: float = 300.0  # a fleet shrinks to the most that was wanted in so long

    def render(self, pictures: int) -> float:
        """Of a batch."""
        return self.steps * (self.step_s + self.row_s * pictures)

    @property
    def device_s(self) -> float:
        """Of a picture's share in a full batch: what the store expects of a job once it has seen some."""
        return self.render(self.batch) / self.batch


@dataclass(slots=True)
class Outcome:
    """What became of a run. Waits are seconds from a job's arrival to its start."""

    waits: list[float] = field(default_factory=list)
    worker_s: float = 0.0
    busy_s: float = 0.0
    store_s: float = 0.0
    seconds: float = 0.0
    left: int = 0
    line: list[tuple[float, float, int, int, float]] = field(default_factory=list)
    """At each look: time, jobs a second, queued, workers, oldest wait."""


class Fleet:
    """One run."""

    def __init__(self, times: Times, policy: Policy, rate: Rate, seed: int, workers: int) -> None:
        """Begins with so many ``workers`` that have started."""
        self._times, self._policy, self._rate = times, policy, rate
        self._random = random.Random(seed)
        self._env = simpy.Environment()
        self._queue: deque[float] = deque()
        self._store = simpy.Resource(self._env, capacity=times.store_cores)
        self._idle: deque[simpy.Event] = deque()
        self._workers = 0
        self._leaving = 0
        self._started = self._busy = self._running = 0
        self._counted = 0.0
        self._wanted: deque[tuple[float, int]] = deque()
        self.outcome = Outcome()
        for _ in range(workers):
            self._add(started=True)

    def run(self, seconds: float) -> Outcome:
        """Simulate so long; jobs that wait at the end are counted as ``left``."""
        self._env.process(self._arrive(seconds))
        self._env.process(self._control())
        self._env.run(until=seconds)
        self._count(0)
        self.outcome.seconds, self.outcome.left = seconds, len(self._queue)
        return self.outcome

    def _arrive(self, seconds: float) -> Process:
        """A Poisson process whose rate changes: thinned from the highest rate (Lewis and Shedler, 1979)."""
        highest = max(self._rate(seconds * part / 1000) for part in range(1001))
        while True:
            yield self._env.timeout(self._random.expovariate(highest))
            if self._random.random() * highest <= self._rate(self._env.now):
                self._queue.append(self._env.now)
                if self._idle:
                    self._idle.popleft().succeed()

    def _add(self, *, started: bool = False) -> None:
        self._count(1)
        self._env.process(self._work(0.0 if started else self._times.start_s))

    def _count(self, change: int) -> None:
        """Add up what the workers cost until now, and that there is one more, or one less."""
        self.outcome.worker_s += self._workers * (self._env.now - self._counted)
        self._counted = self._env.now
        self._workers += change

    def _work(self, start_s: float) -> Process:
        yield self._env.timeout(start_s)
        self._started += 1
        while not self._leaving:
            if not self._queue:
                bell = self._env.event()
                self._idle.append(bell)
                yield bell
                continue
            taken = [self._queue.popleft() for _ in range(min(self._times.batch, len(self._queue)))]
            with self._store.request() as turn:
                yield turn
                yield self._env.timeout(self._times.store_s)
            self.outcome.store_s += self._times.store_s
            self.outcome.waits += (self._env.now - came for came in taken)
            self._busy += 1
            self._running += len(taken)
            yield self._env.timeout(self._times.render(len(taken)))
            self._busy -= 1
            self._running -= len(taken)
            self.outcome.busy_s += self._times.render(len(taken))
        self._leaving -= 1
        self._started -= 1
        self._count(-1)

    def _control(self) -> Process:
        """Look every few seconds, and grow at once or shrink slowly, as a HorizontalPodAutoscaler does."""
        came: deque[tuple[float, int]] = deque()
        while True:
            oldest = self._env.now - self._queue[0] if self._queue else 0.0
            staying = self._workers - self._leaving
            self.outcome.line.append((self._env.now, self._rate(self._env.now), len(self._queue), staying, oldest))
            waiting_s = len(self._queue) * self._times.device_s
            came.append((self._env.now, len(self.outcome.waits) + len(self._queue)))
            while came[0][0] < self._env.now - LATELY_S:
                came.popleft()
            rate = (came[-1][1] - came[0][1]) / LATELY_S
            seen = Seen(
                queued=len(self._queue),
                running=self._running,
                waiting_s=waiting_s,
                arriving=rate * self._times.device_s,
                oldest_s=oldest,
                workers=max(0, self._started - self._leaving),
                slots=self._times.batch * max(0, self._started - self._leaving),
            )
            self._size(staying, self._policy(seen))
            yield self._env.timeout(self._times.poll_s)

    def _size(self, staying: int, wanted: int) -> None:
        self._wanted.append((self._env.now, wanted))
        while self._wanted[0][0] < self._env.now - self._times.down_s:
            self._wanted.popleft()
        for _ in range(wanted - staying):
            if self._leaving:
                self._leaving -= 1
            else:
                self._add()
        most = max(number for _, number in self._wanted)
        for _ in range(staying - most):
            self._leaving += 1
            if self._idle:
                self._idle.popleft().succeed()
