"""Plain words for what msgspec says about a value that it refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum

from jobstore.job import SEED_LIMIT, CacheMode, JobState, PictureFormat

NAMES = "dimension names"
VALUES = "dimension values"

_CHOICES: dict[str, type[StrEnum]] = {
    "cache": CacheMode,
    "format": PictureFormat,
    "output_format": PictureFormat,
    "state": JobState,
}
_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "array": "a list",
    "object": "an object",
}
_TIMES = ("start_at", "expires_at", "created_after", "created_before", "finished_after", "finished_before")
_OWNERS = ("team", "customer")
# Parts of a request whose whole rule fits one sentence, whichever half of it was broken.
_RULES = {
    "seed": f"seed must be a whole number from 0 to {SEED_LIMIT - 1}, or -1 for a random one",
    **{field: f"{field} must be a time like 2026-01-31T12:00:00Z" for field in _TIMES},
    "states": "states must be scheduled, queued or running for a cancel, dead or failed for a redrive; one or more",
    "adapters": "adapters must be names with weights from -10 to 10, or a list of names, 4 at most",
    "previews": "previews must be true, false, or how many steps lie between two, 0 to 1000",
    "scopes": "scopes must be one or more of submit, read, observe and admin",
    "models": "models must be a list of 1 to 100 models' names",
    **{field: f"{field} must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or a digit" for field in _OWNERS},
    "kind": "kind must be one of spend, requests and concurrency",
    "owner": 'owner must be one of {"key": ID}, {"team": NAME} and {"customer": NAME}',
    "lane": "lane must be the name of a lane",
    "error_code": "error_code must be one of the codes that a job's error may have",
    "model": "model must be the name of a model",
    **{field: f"{field} must be a data: URL with a PNG, JPEG or WebP picture in base64" for field in ("image", "mask")},
    "webhook": "webhook must be a URL, or an object with url, events (types of job events) and secret",
    "events": "events must be one or more types of job events, such as job.succeeded",
    "cursor": "cursor is not one that a page gave",
    "response_format": "response_format must be url or b64_json",
    "quality": "quality must be one of auto, low, medium, high, standard, hd",
    "background": "background must be one of auto, opaque, transparent",
    "moderation": "moderation must be auto or low",
    NAMES: "dimension names are 1 to 64 of a-z, 0-9, _ and -",
    VALUES: "dimension values are text of at most 256 characters",
}
_BOUNDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}

# msgspec's fixed forms (its _core.c): a bound, a length, a type, a number too large for its type.
_BOUND = re.compile(r"Expected `(?:int|float)` ([<>]=?) (-?[0-9.e+]+)$")
_LENGTH = re.compile(r"Expected `(str|array|object)` of length ([<>]=) ([0-9]+)$")
_KIND = re.compile(r"Expected `([a-z]+)(?: \| null)?`(?:, got `[a-z]+`)?$")
_AMOUNT = re.compile(r"Expected `int \| str(?: \| null)?`")
_RANGE = re.compile(r"(?:Number|Integer value) out of range$")


def plainly(field: str, message: str) -> str:
    """What is wrong with ``field``, and what is allowed; msgspec's own message where it has another form."""
    if field in _RULES:
        return _RULES[field]
    if field in _CHOICES:
        return f"{field} must be one of {', '.join(_CHOICES[field])}"
    forms: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
        (_BOUND, lambda found: f"must be {_BOUNDS[found[1]]} {float(found[2]):g}"),
        (_LENGTH, lambda found: _length(*found.groups())),
        (_KIND, lambda found: f"must be {_KINDS.get(found[1], found[1])}"),
        (_AMOUNT, lambda _found: 'must be an amount in quotes, like "0.10", or a whole number'),
        (_RANGE, lambda _found: "is out of range"),
    )
    for pattern, words in forms:
        if found := pattern.match(message):
            return f"{field} {words(found)}"
    return f"{field}: {message}"


def unknown(name: str, known: Iterable[str], kind: str = "field") -> str:
    """That there is no such field, with the one that was probably meant."""
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {kind} {name[:100]!r}{hint}"


def _length(kind: str, relation: str, length: str) -> str:
    if (kind, relation, length) == ("str", ">=", "1"):
        return "must not be empty"
    return f"must have {_BOUNDS[relation]} {length} {'characters' if kind == 'str' else 'entries'}"
