"""Checks of remote models: their secrets are there, and so is the library that some of them need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from safelight.cli.doctor.check import Check, ok, warn
from safelight.config import Settings

_OWN = ("localhost", "127.0.0.1", "::1")


def check_providers(settings: Settings, environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """One check a remote model. Nothing is asked of a provider: it would cost money."""
    for name, model in settings.models.items():
        provider = model.provider
        if provider is None:
            continue
        title = f"model {name}"
        if unset := provider.unset(environ):
            words = f"{', '.join(unset)} is not set: its worker would be refused"
            yield warn(title, words, "set it where the worker of its lane runs")
        elif provider.kind == "litellm" and find_spec("litellm") is None:
            yield warn(title, "litellm is not installed", "pip install 'safelight[litellm]'")
        elif provider.variables and _in_the_clear(provider.base_url):
            words = f"{provider.base_url} is http: its secrets go over the network in the clear"
            yield warn(title, words, "use https, unless nobody else is on that network")
        else:
            yield ok(title, f"remote, {provider.identity}, not asked")


def _in_the_clear(url: str) -> bool:
    place = urlsplit(url)
    return place.scheme == "http" and place.hostname not in _OWN
