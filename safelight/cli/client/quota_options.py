"""What the options of ``safelight quotas`` mean, and whom they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import UUID

from safelight.cli.exits import CommandError, RefusedError

if TYPE_CHECKING:
    from safelight.cli.client.http import Client, Quota

OWNERS = {"team": "--team", "customer": "--customer", "key": "--key-id"}
LIMITS = {"spend": "--spend", "requests": "--requests", "concurrency": "--jobs"}


def owner_of(team: str | None, customer: str | None, key_id: str | None) -> dict[str, str]:
    """The owner that the options name, as the API takes it. Raises RefusedError unless it is one."""
    given = {kind: name for kind, name in (("team", team), ("customer", customer), ("key", key_id)) if name is not None}
    if len(given) != 1:
        raise RefusedError("name one of --team, --customer and --key-id")
    return {kind: key_of(name) if kind == "key" else name for kind, name in given.items()}


def key_of(text: str) -> str:
    """A key's id as it is written. Raises RefusedError."""
    try:
        return str(UUID(text))
    except ValueError as error:
        example = "01890000-0000-7000-8000-000000000000"
        raise RefusedError(
            f"--key-id must be a key's id, like {example}, and not {text!r}", "safelight keys ls  lists them"
        ) from error


def limit_of(spend: str | None, requests: int | None, jobs: int | None) -> tuple[str, str | int]:
    """Kind and limit that the options name. Raises RefusedError unless it is one."""
    kinds = (("spend", spend), ("requests", requests), ("concurrency", jobs))
    given = [(kind, limit) for kind, limit in kinds if limit is not None]
    if len(given) != 1:
        raise RefusedError("name one of --spend, --requests and --jobs")
    if spend is not None and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", spend, re.ASCII):
        raise RefusedError(f"--spend must be an amount like 10.50, and not {spend!r}")
    return given[0]


def is_of(quota: Quota, kind: str, period: str, *, rolling: bool) -> bool:
    """True for a quota of that kind and window."""
    return (quota["kind"], quota["period"], quota["rolling"]) == (kind, period, rolling)


def of_window(owned: list[Quota], per: str | None, rolling: bool | None) -> list[Quota]:
    """The quotas that ``clear`` means. Raises RefusedError where there is none, and where a window may be of two."""
    found = [quota for quota in owned if per in (None, quota["period"]) and rolling in (None, quota["rolling"])]
    if not found:
        raise RefusedError("there is no such quota", "safelight quotas list  lists them")
    both = {quota["kind"] for quota in found if quota["rolling"]} & {
        quota["kind"] for quota in found if not quota["rolling"]
    }
    if per is not None and both:
        raise RefusedError(f"there is a rolling quota per {per} and one of the calendar", "say --rolling or --calendar")
    return found


def names_of(client: Client, quotas: list[Quota]) -> dict[str, str]:
    """The names of the keys that own quotas, by their ids, as far as the client's key is told them."""
    if not any("key" in quota["owner"] for quota in quotas):
        return {}
    try:
        return {key["id"]: key["name"] for key in client.api_keys()}
    except RefusedError:  # no admin key: it sees its own quotas
        with suppress(CommandError):
            me = client.me()
            return {me["id"]: me["name"]}
    except CommandError:  # the quotas themselves are known, and that is what was asked for
        pass
    return {}


def is_nobodys(client: Client, owner: dict[str, str]) -> bool:
    """True where no key is of that team or customer."""
    if "key" in owner:
        return False
    with suppress(CommandError):  # the quota is set all the same
        return not client.api_keys(**owner)
    return False


@contextmanager
def by_options(options: dict[str, str]) -> Iterator[None]:
    """Say what the API refuses with the names of options, by those of its fields."""
    from safelight.cli.client.http import FieldRefusedError

    try:
        yield
    except FieldRefusedError as error:
        option = options.get(error.field)
        if option is None:
            raise
        if error.detail.startswith(f"{error.field} "):
            words = option + error.detail.removeprefix(error.field)
        else:
            words = f"{option}: {error.detail}"
        raise RefusedError(words, error.hint) from error
