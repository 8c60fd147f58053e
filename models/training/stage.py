"""One stage of training: steps until its budget is spent, resumable at any point."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .progress import stage_bar

CHECKPOINT_SECONDS = 90.0
LOG_EVERY = 10


@dataclass(frozen=True)
class Budget:
    """How long a stage trains: minutes at work, or a number of steps when one is given."""

    minutes: float
    steps: int | None = None

    def spent(self, seconds: float, step: int) -> float:
        """The share that is spent, from 0 to 1."""
        share = step / self.steps if self.steps else seconds / (60 * self.minutes)
        return min(share, 1.0)


@dataclass(frozen=True)
class Schedule:
    """A warm-up, a plateau, and from `decay_from` of the budget on a cosine to zero."""

    rate: float
    decay_from: float
    warmup_steps: int = 50

    def at(self, spent: float, step: int) -> float:
        """The learning rate at this point."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        late = max(0.0, (spent - self.decay_from) / (1 - self.decay_from))
        return self.rate * warm * 0.5 * (1 + math.cos(math.pi * late))


class Stage:
    """Trains some modules; afterwards they hold the average of their last weights."""

    def __init__(
        self,
        name: str,
        modules: dict[str, nn.Module],
        work: Path,
        budget: Budget,
        schedule: Schedule,
        *,
        average: float = 0.998,
    ) -> None:
        self.name = name
        self.modules = modules
        self.budget = budget
        self.schedule = schedule
        self.average = average
        self.path = work / f"{name}.pt"
        self.log = work / f"{name}.csv"
        self.step = 0
        self.seconds = 0.0
        self.parameters: list[torch.Tensor] = [p for module in modules.values() for p in module.parameters()]
        self.averages = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=schedule.rate, betas=(0.9, 0.99), weight_decay=0.01, foreach=True
        )
        if self.path.exists():
            self._restore(torch.load(self.path, weights_only=True))

    @property
    def spent(self) -> float:
        """The share of the budget that is spent."""
        return self.budget.spent(self.seconds, self.step)

    def run(self, loss_of: Callable[[], torch.Tensor]) -> None:
        """Take steps on this loss until the budget is spent."""
        saved_at = time.monotonic()
        with stage_bar(self.name) as show:
            while self.spent < 1:
                loss = self._take_step(loss_of)
                if self.step % LOG_EVERY == 0:
                    self._write_log(loss)
                show(self.spent, self.step, loss)
                if time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                    self._save()
                    saved_at = time.monotonic()
        self._save()
        self.use_averages()

    def use_averages(self) -> None:
        """Put the averaged weights into the modules."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.averages)

    def _take_step(self, loss_of: Callable[[], torch.Tensor]) -> float:
        start = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.at(self.spent, self.step)
        loss = loss_of()
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        decay = min(self.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, 1 - decay)
        self.step += 1
        self.seconds += time.monotonic() - start
        return loss.item()

    def _write_log(self, loss: float) -> None:
        rate = self.schedule.at(self.spent, self.step)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{self.step},{self.seconds:.1f},{loss:.5f},{rate:.2e}\n")

    def _save(self) -> None:
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "modules": {name: module.state_dict() for name, module in self.modules.items()},
            "averages": self.averages,
            "optimizer": self.optimizer.state_dict(),
        }
        partial = self.path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.path)

    def _restore(self, state: dict[str, Any]) -> None:
        self.step, self.seconds = state["step"], state["seconds"]
        for name, module in self.modules.items():
            module.load_state_dict(state["modules"][name])
        self.averages = state["averages"]
        self.optimizer.load_state_dict(state["optimizer"])
