"""What every handler works with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from api.admin.sessions import Sessions
from api.backpressure import Backpressure
from api.canaries import Canaries
from api.keyring import KeyRing
from api.live import LiveProgress
from api.minutes import MinuteLimit
from api.openai.links import LinkSigner
from api.openai.pixels import PixelWork
from api.operating.recent import Recent
from api.quota_headers import SubmitHeaders
from api.sharing import SharedReads
from api.tail import Tail
from jobstore.live import Bell
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore
from safelight.config import Settings

_SIGN_INS_A_MINUTE = 20  # of an address, right or wrong
_OVERVIEW_S = 2.0  # how old an overview may be
_GLANCE_S = 2.0  # the same of counts and names that open pages ask for again and again
_COUNTED_S = 1.0  # the same of the lanes' jobs, every one of which is counted
_MESSAGES_A_MINUTE = 30  # tests and redeliveries of webhooks that a key asks a process for


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
    backpressure: Backpressure
    canaries: Canaries
    links: LinkSigner
    sessions: Sessions
    pixels: PixelWork = field(default_factory=PixelWork)
    quota_headers: SubmitHeaders = field(default_factory=SubmitHeaders)
    heartbeat_s: float = 15.0
    shared: SharedReads = field(default_factory=SharedReads)
    messages: MinuteLimit = field(default_factory=lambda: MinuteLimit(_MESSAGES_A_MINUTE))
    overviews: Recent = field(default_factory=lambda: Recent(_OVERVIEW_S))
    counted: Recent = field(default_factory=lambda: Recent(_COUNTED_S))
    glances: Recent = field(default_factory=lambda: Recent(_GLANCE_S))
    sign_ins: MinuteLimit = field(default_factory=lambda: MinuteLimit(_SIGN_INS_A_MINUTE))

    def ring(self, lanes: Iterable[str]) -> None:
        """One bell for each of the lanes named, as often as it is named."""
        for lane in lanes:
            self.bell.ring(lane)
