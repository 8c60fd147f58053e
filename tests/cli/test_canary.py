"""``safelight canary``, over the API."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from jobstore.outputs import Outputs
from safelight.cli.app import app
from tests.api.site import Site
from tests.api.test_canaries import WITH_CANARY


@pytest.fixture
def url(database: str, outputs: Outputs) -> Iterator[str]:
    """An API with a canary."""
    with Site(database, outputs, WITH_CANARY).serve() as site:
        yield site.url


def test_shares_are_set_and_shown(url: str) -> None:
    """Each command prints the share in force; a name that is none is refused with those there are."""

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["canary", *arguments], env={"SAFELIGHT_URL": url, "COLUMNS": "120"})
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    def last(*arguments: str) -> str:
        return run(*arguments).splitlines()[-1]  # the server in this process logs to the same place

    assert last("set", "new", "0.5") == "0.5"
    assert last("promote", "new") == "1"
    assert "100.0%" in run("status")
    assert last("rollback", "new") == "0"
    text = run("status", "--json")
    [told], _ = json.JSONDecoder().raw_decode(text[text.index("[\n") :])
    assert (told["name"], told["share"], told["configured"]) == ("new", 0, 0.25)
    assert "there are: new" in run("promote", "scenes", code=2)
    run("set", "new", "1.5", code=2)
