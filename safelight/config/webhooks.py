"""The settings of webhooks: ``[webhooks]``."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

from msgspec import Meta

from safelight.config.base import Base


class WebhookSettings(Base, frozen=True, kw_only=True):
    """Where webhooks may go, and how they are delivered.

    Loopback and private networks are refused unless ``allow_private``; ``allow_networks`` are addresses that are
    allowed whatever they are. ``slots`` is how many deliveries a process has under way, ``look_s`` how often, in
    seconds, it looks for those that no bell told of. ``base_url`` is what the links in messages begin with.
    """

    deliver: bool = True  # by this process, where it is a worker
    base_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?\Z", max_length=500)] = ""
    allow_http: bool = False
    allow_private: bool = False
    allow_networks: tuple[str, ...] = ()
    max_endpoints: Annotated[int, Meta(ge=0, le=1000)] = 10
    slots: Annotated[int, Meta(ge=1, le=1000)] = 32
    timeout_s: Annotated[float, Meta(gt=0, le=120)] = 15.0
    look_s: Annotated[float, Meta(gt=0, le=31_536_000)] = 2.0
    rotation_s: Annotated[float, Meta(ge=0, le=31_536_000)] = 86_400.0
    disable_after_days: Annotated[float, Meta(gt=0, le=365)] = 5.0

    def __post_init__(self) -> None:
        """Check the networks. Raises ValueError."""
        for network in self.allow_networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise ValueError(f"allow_networks: {error}") from None
