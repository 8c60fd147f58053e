"""The header itself, and what makes two requests the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from litestar.datastructures import Headers

from api.idempotency import body_digest, read_key, replay_of
from api.problems import ProblemError
from api.schemas import JobSubmit, SubmitRequest
from safelight.config import JobSettings

SETTINGS = JobSettings(idempotency_s=100.0, sdk_retry_window_s=10.0)


def submit(**fields: Any) -> SubmitRequest:
    """A request as it comes over the wire."""
    return msgspec.json.decode(msgspec.json.encode({"prompt": "x", **fields}), type=SubmitRequest)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ('"abc"', "abc"),
        ("abc", "abc"),
        ('  "abc"\t', "abc"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ('a"b', 'a"b'),
        ("x" * 255, "x" * 255),
        ('"' + "~" * 255 + '"', "~" * 255),
        ("!", "!"),
    ],
)
def test_a_key_comes_in_quotes_or_bare(header: str, key: str) -> None:
    """Both name the same."""
    assert read_key([header]) == key


@pytest.mark.parametrize(
    "values",
    [
        [""], ['""'], ["x" * 256], ['"' + "x" * 256 + '"'], ["a b"], ['"a b"'], ["é"], ['"\xe9"'], ['"abc'], ['"'],
        [r'"a\b"'], ['"a"b"'], ['"a";p=1'], ["a\x7f"], ["a", "b"], ["a", "a"],
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused_by_the_headers_name(values: list[str]) -> None:
    """Also where it is sent twice."""
    with pytest.raises(ProblemError) as caught:
        read_key(values)
    assert (caught.value.status_code, caught.value.field) == (400, "Idempotency-Key")
    assert "1 to 255 visible ASCII" in caught.value.detail


def test_the_same_request_has_one_digest() -> None:
    """However its fields are ordered; a value that is left out is the one that the API takes for it."""
    body = b'{"n": 1, "dimensions": {"b": "2", "a": "1"}, "prompt": "x"}'
    decoded = msgspec.json.decode(body, type=SubmitRequest)
    assert body_digest(decoded, decoded.dimensions) == body_digest(submit(), {"a": "1", "b": "2"})


def test_what_a_submit_may_hold_since_later_changes_no_digest_where_it_is_not_sent() -> None:
    """A repeat is known after an update, too; a picture counts."""
    assert body_digest(JobSubmit(prompt="x"), {}) == body_digest(submit(), {})
    assert len({body_digest(JobSubmit(prompt="x", image=image), {}) for image in (None, "a", "b")}) == 3


def test_every_difference_is_another_request() -> None:
    """What decides the pixels and what doesn't, and a model's default written out: it may change."""
    changes: list[dict[str, Any]] = [
        {}, {"prompt": "y"}, {"prompt": "x "}, {"seed": 1}, {"n": 2}, {"steps": 8}, {"model": "scenes"},
        {"size": "64x64"}, {"guidance": 1}, {"format": "webp"}, {"priority": 6}, {"cache": "use"}, {"deadline_s": 5},
        {"start_deadline_s": 5}, {"negative_prompt": "y"}, {"start_at": "2030-01-01T00:00:00Z"},
    ]  # fmt: skip
    digests = {body_digest(submit(**change), {}) for change in changes}
    assert len(digests) == len(changes)
    assert body_digest(submit(), {"team": "a"}) not in digests


def test_a_key_is_kept_as_long_as_the_settings_say() -> None:
    """And counts before an SDK's header."""
    headers = Headers({"Idempotency-Key": '"abc"', "x-stainless-retry-count": "0"})
    replay = replay_of(submit(), {}, headers, SETTINGS)
    assert replay is not None
    assert (replay.key, replay.keep_s, replay.renew) == ("key:abc", 100.0, False)
    assert replay.body_sha256 == body_digest(submit(), {})


def test_an_sdk_is_known_by_its_request() -> None:
    """Its first try begins anew, the later ones join it."""
    digest = body_digest(submit(), {})
    for count, renew in (("0", True), ("1", False), ("2", False)):
        replay = replay_of(submit(), {}, Headers({"X-Stainless-Retry-Count": count}), SETTINGS)
        assert replay is not None
        assert (replay.key, replay.body_sha256, replay.keep_s, replay.renew) == (f"sdk:{digest}", digest, 10.0, renew)


@pytest.mark.parametrize("count", ["", "x", "-1", "1.5", "9" * 400, "\u0661"])
def test_a_count_that_is_none_is_left_alone(count: str) -> None:
    """It is another program's header: nobody asked us to check it."""
    headers = Headers([(b"x-stainless-retry-count", count.encode())])
    assert replay_of(submit(), {}, headers, SETTINGS) is None
    assert replay_of(submit(), {}, Headers(), SETTINGS) is None
