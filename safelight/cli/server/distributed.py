"""What processes of the distributed mode have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safelight.cli.exits import StartError
from safelight.config import ConfigError, Settings

if TYPE_CHECKING:
    from dramatiq import Broker


def require_servers(settings: Settings) -> None:
    """Refuse settings that only work inside one process. Raises ConfigError."""
    wrong = []
    if settings.store == "embedded":
        wrong.append("SAFELIGHT_STORE=postgresql://user:password@host/database")
    if settings.broker == "memory":
        wrong.append("SAFELIGHT_BROKER=amqp://user:password@host:5672")
    if wrong:
        raise ConfigError(
            "several processes need servers that all of them reach; set "
            + " and ".join(wrong)
            + " (or run everything in one process:  safelight up)"
        )


def broker_of(settings: Settings) -> Broker:
    """The broker of the settings, not yet connected. Raises StartError."""
    from actors.broker import BrokerSetupError, make_broker

    try:
        return make_broker(settings.broker)
    except BrokerSetupError as error:
        raise StartError(str(error), "check SAFELIGHT_BROKER") from error
