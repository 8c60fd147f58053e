"""Settings that every process shares."""

from safelight.config.errors import ConfigError
from safelight.config.families import FAMILIES, Family
from safelight.config.load import load_settings
from safelight.config.settings import (
    AdapterSettings,
    EngineSettings,
    JobSettings,
    LimitSettings,
    LogSettings,
    ModelSettings,
    RetentionSettings,
    ServerSettings,
    Settings,
    WorkerSettings,
)

__all__ = [
    "FAMILIES",
    "AdapterSettings",
    "ConfigError",
    "EngineSettings",
    "Family",
    "JobSettings",
    "LimitSettings",
    "LogSettings",
    "ModelSettings",
    "RetentionSettings",
    "ServerSettings",
    "Settings",
    "WorkerSettings",
    "load_settings",
]
