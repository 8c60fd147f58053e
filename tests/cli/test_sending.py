"""A submit that is tried again: when, how often, and always as the same one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest
from typer.testing import CliRunner

from safelight.cli.app import app
from safelight.cli.client.sending import PAUSES_S, fresh_key, persist

ANSWER = {"id": "01890000-0000-7000-8000-000000000000", "state": "queued", "request": {}, "queue": {"position": None}}

Told = httpx.Response | httpx.TransportError


def answers(*told: Told) -> Callable[[], httpx.Response]:
    """Something that answers so, one after the other."""
    rest = iter(told)

    def send() -> httpx.Response:
        answer = next(rest)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer

    return send


def busy(**headers: str) -> httpx.Response:
    """A 503."""
    return httpx.Response(503, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("code", [200, 202, 400, 409, 422, 429])
def test_an_answer_is_an_answer(code: int) -> None:
    """A refusal, too: the server is well."""
    pauses: list[float] = []
    assert persist(answers(httpx.Response(code)), sleep=pauses.append).status_code == code
    assert pauses == []


def test_broken_connections_and_server_errors_are_tried_again() -> None:
    """With longer pauses each time; what the server asks for counts, within a bound."""
    pauses: list[float] = []
    send = answers(httpx.ConnectError("gone"), httpx.ReadTimeout("late"), busy(), httpx.Response(202))
    assert persist(send, sleep=pauses.append).status_code == 202
    assert pauses == list(PAUSES_S)
    pauses.clear()
    send = answers(busy(retry_after="2"), busy(retry_after="9999"), busy(retry_after="soon"), httpx.Response(202))
    assert persist(send, sleep=pauses.append).status_code == 202
    assert pauses == [2.0, 5.0, PAUSES_S[2]]


def test_the_last_try_tells_what_is_wrong() -> None:
    """As it is: an error of the server, or a connection that broke."""
    assert persist(answers(*[busy()] * 4), sleep=lambda _: None).status_code == 503
    with pytest.raises(httpx.ConnectError):
        persist(answers(*[httpx.ConnectError("gone")] * 4), sleep=lambda _: None)


def test_every_submit_has_a_key_of_its_own_and_every_try_the_same(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers at the third try is asked for one job."""
    keys: list[str] = []
    told: Iterator[Told] = iter(())

    def send(_client: httpx.Client, request: httpx.Request, **_options: object) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        answer = next(told)
        if isinstance(answer, httpx.TransportError):
            raise answer
        answer.request = request
        return answer

    monkeypatch.setattr(httpx.Client, "send", send)
    monkeypatch.setattr("safelight.cli.client.http.persist", partial(persist, sleep=lambda _: None))
    for _ in range(2):
        told = iter([httpx.ReadError("cut"), httpx.Response(500), httpx.Response(202, json=ANSWER)])
        result = cli.invoke(app, ["submit", "a red circle"])
        assert result.exit_code == 0, result.output
        assert result.stdout.strip() == ANSWER["id"]
    assert len(keys) == 6
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]
    assert re.fullmatch(r'"[0-9a-f-]{36}"', fresh_key()["Idempotency-Key"])
