"""Which batch key a worker asks for first."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

from actors.mates import preferred
from jobstore.job import CacheOutcome, Job, JobState
from safelight.config import ModelSettings, Settings, WorkerSettings
from safelight.config.settings import EngineSettings
from tests.actors.harness import new_job

SETTINGS = Settings(
    models={"scenes": ModelSettings(model="a/b"), "large": ModelSettings(model="c/d", max_batch=1)},
    engine=EngineSettings(max_batch=4),
)


def job(batch_key: str, *, n: int = 1, lane: str = "default", model: str = "scenes") -> Job:
    """A job that is held."""
    new = new_job(lane, n=n, model=model)
    return Job(
        id=uuid4(),
        state=JobState.RUNNING,
        request=new.request,
        lane=lane,
        batch_key=batch_key,
        fingerprint=new.fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        cache=CacheOutcome.MISS,
        currency="USD",
        reserved=Decimal("0.01"),
        created_at=datetime.now(UTC),
    )


def test_nothing_held_prefers_nothing() -> None:
    """The next in line is taken."""
    assert preferred([], "default", SETTINGS) is None


def test_the_fullest_batch_that_has_room_is_filled() -> None:
    """Pictures count, not jobs."""
    assert preferred([job("a"), job("b", n=3), job("a")], "default", SETTINGS) == "b"
    assert preferred([job("a"), job("b", n=4)], "default", SETTINGS) == "a"
    assert preferred([job("a", n=4), job("b", n=5)], "default", SETTINGS) is None


def test_other_lanes_don_t_count() -> None:
    """A claim is of one lane."""
    assert preferred([job("a", lane="big")], "default", SETTINGS) is None


def test_a_models_own_limit_goes_before() -> None:
    """One that is rendered alone is no reason to ask for another."""
    assert preferred([job("a", model="large")], "default", SETTINGS) is None
    assert preferred([job("a", model="gone")], "default", SETTINGS) == "a"


def test_slots_are_a_batch_and_two() -> None:
    """The largest of the models that the worker serves; a number is a number."""
    assert Settings().slots == 10
    assert SETTINGS.slots == 6
    wide = ModelSettings(model="e/f", max_batch=16, lane="wide")
    models = {**SETTINGS.models, "wide": wide}
    settings = Settings(models=models, engine=SETTINGS.engine)
    assert settings.slots == 6
    served = Settings(models=models, engine=SETTINGS.engine, worker=WorkerSettings(lanes=("default", "wide")))
    assert served.slots == 18
    assert Settings(worker=WorkerSettings(slots=3)).slots == 3
