"""Secrets and signatures of Standard Webhooks (https://www.standardwebhooks.com, specification of 2023).

A message is signed over ``id.timestamp.body``; a receiver that knows one of the secrets can tell that it is ours,
whole, and not an old one sent again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
_BYTES = 32
_SHORTEST, _LONGEST = 24, 64  # bytes of a secret, by the specification


def make_secret() -> str:
    """A fresh secret of 256 random bits."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret. Raises ValueError on what is none."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise ValueError(f"a secret is {PREFIX} and the base64 of {_SHORTEST} to {_LONGEST} random bytes")
    return key


def headers_of(message_id: str, timestamp: int, body: bytes, known: Sequence[str]) -> dict[str, str]:
    """The headers of a message: a signature by each of the secrets; without any it is not signed.

    ``timestamp`` is in seconds since 1970.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = [hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in known]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in signatures)
    return headers
