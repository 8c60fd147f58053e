"""Whom remote models are asked of."""
