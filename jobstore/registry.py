"""Finds stores and outputs by the scheme of their URL, among those that installed packages offer.

A package offers one by an entry point in the group ``safelight.stores`` or ``safelight.outputs``: its name is the
scheme, its value a callable that takes the URL.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, cast

from jobstore.errors import UnknownSchemeError
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore

STORES = "safelight.stores"
OUTPUTS = "safelight.outputs"
_ALIASES = {"postgres": "postgresql"}


def open_store(url: str) -> JobStore:
    """The job store of that URL, not yet connected. Raises UnknownSchemeError."""
    return cast(JobStore, _factory(STORES, url)(url))


def open_outputs(url: str) -> Outputs:
    """The outputs of that URL. Raises UnknownSchemeError, ValueError."""
    return cast(Outputs, _factory(OUTPUTS, url)(url))


def _factory(group: str, url: str) -> Any:
    scheme = url.partition("://")[0]
    found = entry_points(group=group)
    for entry in found:
        if entry.name == _ALIASES.get(scheme, scheme):
            return entry.load()
    known = ", ".join(sorted({entry.name for entry in found})) or "none; is Safelight installed?"
    raise UnknownSchemeError(f"no {group.removeprefix('safelight.')} for {scheme!r}; there are: {known}")
