"""Webhooks: addresses, signatures, messages, and their delivery to real receivers."""
