"""The pages about the command and the settings tell everything there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import typer

from safelight.cli.app import app
from safelight.config.base import Base
from safelight.config.keys import KeySettings
from safelight.config.parallel import ParallelSettings, VerifySettings
from safelight.config.providers import ProviderSettings
from safelight.config.queueing import LimitSettings, RetentionSettings, ScalingSettings
from safelight.config.settings import (
    EngineSettings,
    JobSettings,
    LogSettings,
    ModelSettings,
    ServerSettings,
    Settings,
    WorkerSettings,
)
from safelight.config.telemetry import TelemetrySettings
from safelight.config.webhooks import WebhookSettings
from tests.e2e.processes import REPOSITORY

SETTINGS = (REPOSITORY / "docs/settings.md").read_text()
COMMANDS = (REPOSITORY / "docs/cli.md").read_text()
TABLES: dict[str, type[Base]] = {
    "Top level": Settings,
    "`[server]`": ServerSettings,
    "`[worker]`": WorkerSettings,
    "`[engine]`": EngineSettings,
    "`[jobs]`": JobSettings,
    "`[limits]`": LimitSettings,
    "`[scaling]`": ScalingSettings,
    "`[retention]`": RetentionSettings,
    "`[webhooks]`": WebhookSettings,
    "`[models.NAME]`": ModelSettings,
    "`[models.NAME.provider]`": ProviderSettings,
    "`[models.NAME.parallel]`": ParallelSettings,
    "`[models.NAME.parallel.verify]`": VerifySettings,
    "`[log]`": LogSettings,
    "`[keys]`": KeySettings,
    "`[telemetry]`": TelemetrySettings,
}


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", page, re.M | re.S)
    assert found, f"no section {title!r}"
    return found[1]


@pytest.mark.parametrize(("title", "table"), TABLES.items(), ids=list(TABLES))
def test_every_key_of_the_settings_is_explained(title: str, table: type[Base]) -> None:
    """Each has a row in its table's section, and no row is about a key that is gone."""
    written = re.findall(r"^\| `(\w+)` \|", section(SETTINGS, title), re.M)
    tables = {
        "server", "worker", "engine", "jobs", "limits", "scaling", "retention", "webhooks", "log", "keys", "telemetry",
        "models",
    }  # fmt: skip
    own = [name for name in table.__struct_fields__ if table is not Settings or name not in tables]
    assert written == own


@pytest.mark.parametrize(("title", "table"), TABLES.items(), ids=list(TABLES))
def test_defaults_are_told_as_they_are(title: str, table: type[Base]) -> None:
    """A default in code font is the one of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section(SETTINGS, title), re.M))
    for field in msgspec.structs.fields(table):
        if field.name in rows:
            assert msgspec.toml.decode(f"x = {rows[field.name]}")["x"] == plain(field.default), field.name


def test_every_table_of_the_settings_is_held_here() -> None:
    """A new table wants a section and a line in this file."""
    structs = {field.type for field in msgspec.structs.fields(Settings) if isinstance(field.type, type)}
    assert {table for table in structs if issubclass(table, Base)} <= set(TABLES.values())


def commands(group: Any, prefix: str = "safelight") -> Iterator[tuple[str, Any]]:
    """All commands below ``group`` with their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        elif not command.hidden:  # another name of one that is listed
            yield f"{prefix} {name}", command


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ALL)
def test_every_command_is_explained_with_its_exit_codes(name: str) -> None:
    """Each has a section of its own, which says how it may end."""
    assert "Exit codes: 0" in section(COMMANDS, f"`{name}`").replace("\n", " ")


def test_no_section_is_about_a_command_that_is_gone() -> None:
    """The page names exactly the commands there are."""
    assert set(re.findall(r"^### `(.+)`$", COMMANDS, re.M)) == set(ALL)


@pytest.mark.parametrize("name", ["safelight up", "safelight worker", "safelight submit", "safelight doctor"])
def test_every_option_is_named_on_the_page(name: str) -> None:
    """The long form of each, but for those that belong to all commands."""
    common = {"--config", "--url", "--key", "--json", "--help", "--n"}
    for parameter in ALL[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option not in common:
                assert f"`{option}" in COMMANDS, option


def plain(value: object) -> object:
    """A default as TOML has it."""
    return list(value) if isinstance(value, tuple) else value
