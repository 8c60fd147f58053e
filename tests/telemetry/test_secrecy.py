"""Names that say that a value is a secret."""

from __future__ import annotations

import pytest

from safelight.telemetry.secrecy import is_secret

SECRET = [
    "token", "access_token", "refresh-token", "accessToken", "token_secret", "TOKEN", "apikey", "api_key", "api-key",
    "apiKey", "X-API-Key", "client_secret", "clientSecret", "secret", "Secret2", "cookie", "Set-Cookie", "signature",
    "x-amz-signature", "webhook-signature", "password", "password2", "DB_PASSWORD", "authorization",
    "proxy-authorization", "x-auth", "key", "Key", "private_key", "cookies", "aws_secret_access_key", "x-bf-vk",
    "credentials",
]  # fmt: skip
TOLD = [
    "team", "key_id", "key_name", "tokens", "max_tokens", "prompt_tokens", "tokenizer", "monkey", "keyboard", "author",
    "secretary", "cache_key_hit", "designature", "action", "job_id", "", "-", "\u00e9",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets_are_known(name: str) -> None:
    """By a word of theirs, in whatever case they are written."""
    assert is_secret(name)


@pytest.mark.parametrize("name", TOLD)
def test_other_names_are_told(name: str) -> None:
    """A part of a word is none."""
    assert not is_secret(name)
