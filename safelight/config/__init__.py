"""Settings that every process shares."""

from safelight.config.errors import ConfigError
from safelight.config.families import FAMILIES, Family
from safelight.config.keys import KeySettings
from safelight.config.load import load_settings
from safelight.config.parallel import ParallelSettings, VerifySettings
from safelight.config.pricing import PricingSettings
from safelight.config.providers import ProviderSettings
from safelight.config.queueing import LimitSettings, RetentionSettings, ScalingSettings
from safelight.config.settings import (
    AdapterSettings,
    EngineSettings,
    JobSettings,
    LogSettings,
    ModelSettings,
    ServerSettings,
    Settings,
    WorkerSettings,
)
from safelight.config.telemetry import TelemetrySettings
from safelight.config.webhooks import WebhookSettings

__all__ = [
    "FAMILIES",
    "AdapterSettings",
    "ConfigError",
    "EngineSettings",
    "Family",
    "JobSettings",
    "KeySettings",
    "LimitSettings",
    "LogSettings",
    "ModelSettings",
    "ParallelSettings",
    "PricingSettings",
    "ProviderSettings",
    "RetentionSettings",
    "ScalingSettings",
    "ServerSettings",
    "Settings",
    "TelemetrySettings",
    "VerifySettings",
    "WebhookSettings",
    "WorkerSettings",
    "load_settings",
]
