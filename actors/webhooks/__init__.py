"""Delivers webhooks."""
