"""Logs and metrics that every process shares."""

from safelight.telemetry.logs import configure_logging, get_logger

__all__ = ["configure_logging", "get_logger"]
