"""Ids, keys, the registry and the state machine."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobstore import registry
from jobstore.errors import UnknownSchemeError
from jobstore.ids import uuid7
from jobstore.job import JobState
from jobstore.keys import hash_secret, hint_of, make_secret
from jobstore.postgres.store import PostgresStore
from jobstore.states import TRANSITIONS, sources_of

DOCS = Path(__file__).parents[2] / "docs"


def test_ids_are_version_7_and_in_order() -> None:
    """Even within a millisecond."""
    ids = [uuid7() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}


def test_a_secret_is_long_random_and_told_apart_by_its_hint() -> None:
    """And nothing of it is in its hash."""
    one, other = make_secret(), make_secret()
    assert one.startswith("sl_")
    assert len(one) >= 46
    assert hash_secret(one) != hash_secret(other)
    assert hash_secret(one) == hash_secret(one)
    assert hint_of(one)[:-1] in one
    assert len(hint_of(one)) < 10


def test_a_third_party_store_is_found_by_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point is all it takes."""
    offered = EntryPoints([EntryPoint("mem", "tests.jobstore.test_small_parts:made", registry.STORES)])
    monkeypatch.setattr(registry, "entry_points", lambda group: offered.select(group=group))
    opened: object = registry.open_store("mem://x")
    assert opened == ("made", "mem://x")
    with pytest.raises(UnknownSchemeError, match="there are: mem"):
        registry.open_store("other://x")


def made(url: str) -> tuple[str, str]:
    """A factory as a third party ships it."""
    return "made", url


def test_the_projects_own_are_registered(tmp_path: Path) -> None:
    """Both spellings of PostgreSQL, files and S3."""
    for scheme in ("postgresql", "postgres"):
        assert isinstance(registry.open_store(f"{scheme}://host/db"), PostgresStore)
    registry.open_outputs(tmp_path.as_uri())
    registry.open_outputs("s3://bucket/prefix?region=eu-central-1")
    with pytest.raises(UnknownSchemeError, match="file, s3"):
        registry.open_outputs("ftp://host")


@given(st.sampled_from(JobState), st.sampled_from(JobState))
def test_the_two_views_of_the_machine_agree(current: JobState, target: JobState) -> None:
    """A state is among the sources of those that it may become, and of no others."""
    assert (current in sources_of(target)) == (target in TRANSITIONS[current])


def test_succeeded_and_canceled_are_final() -> None:
    """No way leads out of them."""
    assert TRANSITIONS[JobState.SUCCEEDED] == TRANSITIONS[JobState.CANCELED] == {}


def test_the_drawing_in_the_docs_is_the_machine() -> None:
    """Each transition is drawn with its label, and nothing else is."""
    drawn = re.findall(r"^ *(\w+) --> (\w+): (.*)$", (DOCS / "job-states.md").read_text(), re.M)
    assert set(drawn) == {
        (current.value, target.value, label)
        for current, targets in TRANSITIONS.items()
        for target, label in targets.items()
    }
