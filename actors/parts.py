"""What a worker process is made of: the things its actors work with."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.gate import OutputsGate
from actors.paces import Paces
from actors.previewing import Previewer
from actors.providers.registry import Providers
from actors.renderer import Renderer
from jobstore.live import Bell, ProgressChannel
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore, Worker
from safelight.config import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that a render needs, put together once a process by ``actors.worker``."""

    settings: Settings
    store: JobStore
    outputs: Outputs
    engine: Renderer
    bell: Bell
    progress: ProgressChannel
    previews: Previewer
    worker: Worker
    gate: OutputsGate
    paces: Paces = field(default_factory=Paces)
    providers: Providers = field(default_factory=Providers)
