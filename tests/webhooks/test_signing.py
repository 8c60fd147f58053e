"""Messages as others' libraries verify them, and when they are tried again."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from jobstore.webhooks.schedule import PAUSES_S, pause_s, wish_of
from jobstore.webhooks.signing import headers_of, key_of, make_secret
from tests.e2e.processes import REPOSITORY

BODY = json.dumps({"type": "job.succeeded"}).encode()


def verify(secret: str, headers: dict[str, str], body: bytes = BODY) -> Any:
    """What the library of Standard Webhooks says."""
    return Webhook(secret).verify(body, headers)


def test_the_standards_own_library_verifies_them() -> None:
    """Whole, with the right secret, and young."""
    secret = make_secret()
    headers = headers_of(str(uuid4()), int(time.time()), BODY, [secret])
    assert verify(secret, headers) == {"type": "job.succeeded"}
    for wrong in (make_secret(),):
        with pytest.raises(WebhookVerificationError):
            verify(wrong, headers)
    with pytest.raises(WebhookVerificationError):
        verify(secret, headers, BODY + b" ")
    with pytest.raises(WebhookVerificationError):
        verify(secret, headers_of(headers["webhook-id"], int(time.time()) - 3600, BODY, [secret]))


def test_the_pages_snippet_receives() -> None:
    """docs/webhooks.md as it stands."""
    [snippet] = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/webhooks.md").read_text(), re.S)
    scope: dict[str, Any] = {}
    exec(snippet, scope)
    secret = make_secret()
    headers = headers_of(str(uuid4()), int(time.time()), BODY, [secret])
    assert scope["receive"](secret, headers, BODY) == {"type": "job.succeeded"}
    assert scope["receive"](secret, headers, b"{}") is None


def test_while_a_secret_rotates_either_verifies() -> None:
    """Two signatures, the new one first."""
    old, new = make_secret(), make_secret()
    headers = headers_of(str(uuid4()), int(time.time()), BODY, [new, old])
    assert verify(old, headers) == verify(new, headers)
    assert len(headers["webhook-signature"].split(" ")) == 2


def test_without_a_secret_nothing_is_signed() -> None:
    """Rather than by a key that everybody knows."""
    assert set(headers_of("a", 1, b"", [])) == {"webhook-id", "webhook-timestamp"}


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_c2hvcnQ=", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "whsec_!", "whsec_" + "A" * 100]
)
def test_what_is_no_secret_is_refused(secret: str) -> None:
    """Too short, too long, no base64, no prefix."""
    with pytest.raises(ValueError, match="a secret is"):
        key_of(secret)
    assert len(key_of(make_secret())) == 32


def test_tries_are_spread_over_three_days() -> None:
    """Thirteen; soon at first. Those that failed together come again apart, by a fifth at most."""
    least = [pause_s(tries, chance=0.0) for tries in range(1, 20)]
    assert least == [*PAUSES_S, *[None] * 7]
    assert 2.5 < sum(PAUSES_S) / 86_400 < 1.2 * sum(PAUSES_S) / 86_400 < 3.5
    assert pause_s(1, chance=1.0) == pytest.approx(6.0)
    assert 5.0 <= (pause_s(1) or 0.0) <= 6.0


def test_a_receivers_wish_lengthens_a_pause_within_a_day() -> None:
    """Seconds or a date; what can't be read is no wish."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert [
        wish_of(text, now) for text in ("120", "Tue, 01 Jan 2030 00:01:00 GMT", "Mon, 31 Dec 2029 00:00:00 GMT")
    ] == [120, 60, 0]
    assert [wish_of(text, now) for text in ("", "soon", "-5", "1.5", "\u0663")] == [0.0] * 5
    assert pause_s(1, 120.0, chance=0.0) == 120.0
    assert pause_s(1, 1.0, chance=0.0) == 5.0
    assert pause_s(1, 1e12, chance=0.0) == 86_400.0
    assert pause_s(13, 10.0) is None
