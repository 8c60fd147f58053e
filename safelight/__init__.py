"""Safelight: a durable render queue for diffusion models."""

__version__ = "0.1.0"
