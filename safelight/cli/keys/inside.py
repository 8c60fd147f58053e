"""How the commands about keys reach the store, and in whose name they act."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from safelight.cli.exits import RefusedError
from safelight.config import Settings

if TYPE_CHECKING:
    from jobstore.audit import Actor
    from jobstore.protocol import JobStore

T = TypeVar("T")

_WHERE = "safelight keys ls  lists them"


def in_store(settings: Settings, work: Callable[[JobStore], Awaitable[T]]) -> T:
    """The result of ``work`` on the migrated store. Raises CommandError; RefusedError where a key stands against it."""
    from jobstore.errors import KeyNotFoundError, KeyNotInForceError, LastAdminError
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    async def migrated(store: JobStore) -> T:
        await store.migrate()
        try:
            return await work(store)
        except KeyNotFoundError as error:
            raise RefusedError(f"there is {error}", _WHERE) from error
        except KeyNotInForceError as error:
            raise RefusedError(str(error)) from error
        except LastAdminError as error:
            hint = "make another one first:  safelight keys create NAME --admin  or say --force"
            raise RefusedError(f"{error}: nobody could look after keys over HTTP any more", hint) from error

    configure_for(settings.log, quiet_at_terminal=True)
    return with_store(settings, migrated)


def command_line() -> Actor:
    """Who acts, for the audit log: the user of this machine."""
    from jobstore.audit import Actor

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have them
        user = "unknown"
    return Actor(name=f"command line: {user}"[:100])


def key_id_of(text: str) -> UUID:
    """The id that was given. Raises RefusedError."""
    try:
        return UUID(text)
    except ValueError as error:
        raise RefusedError(f"{text!r} is no key's id; it is neither its name nor its secret", _WHERE) from error
