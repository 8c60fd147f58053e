"""What every handler works with."""

from __future__ import annotations

from dataclasses import dataclass

from api.keyring import KeyRing
from api.live import LiveProgress
from api.tail import Tail
from jobstore.live import Bell
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore
from safelight.config import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one API process."""

    settings: Settings
    store: JobStore
    outputs: Outputs
    bell: Bell
    live: LiveProgress
    tail: Tail
    keys: KeyRing
    heartbeat_s: float = 15.0
