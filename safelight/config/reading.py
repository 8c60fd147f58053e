"""Turns the settings file into structs, with errors that name the file, the table and the key."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from safelight.config.errors import ConfigError
from safelight.config.settings import ModelSettings, Name, Settings

T = TypeVar("T", bound=msgspec.Struct)

# What msgspec says: "Expected `int`, got `str` - at `$.server.port`"
_MESSAGE = re.compile(r"(?s)(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")


def parse_settings(data: bytes, file: Path) -> Settings:
    """The settings that ``data`` holds, before defaults that depend on the place. Raises ConfigError."""
    raw = _toml(data, file)
    tables = raw.pop("models", {})
    settings = _converted(raw, Settings, file)
    if not isinstance(tables, dict):
        raise ConfigError(f"{file}: models is not a table: write  [models.NAME]")
    models = {_name(name, file): _converted(table, ModelSettings, file, f"models.{name}")
              for name, table in tables.items()}  # fmt: skip
    return msgspec.structs.replace(settings, models=models)


def _toml(data: bytes, file: Path) -> dict[str, Any]:
    try:
        text = data.decode()
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file} is not valid TOML: line {line} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        *_, last = text.split("\n")
        end = f"at line {text.count(chr(10)) + 1}, column {len(last) + 1}"
        raise ConfigError(f"{file} is not valid TOML: {str(error).replace('at end of document', end)}") from error


def _name(name: str, file: Path) -> str:
    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{file}: {name!r} can't be a model's name: take letters, digits and . _ / - (128 at most)"
        ) from error


def _converted(raw: object, kind: type[T], file: Path, table: str = "") -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {_words(str(error), kind, table)}") from error


def _words(message: str, kind: type[msgspec.Struct], table: str) -> str:
    """msgspec's message, with its place as the file writes it."""
    found = _MESSAGE.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    what = _MISSING.sub(r"the key '\1' is missing", what)
    inner = path.removeprefix(".")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        return _unknown(unknown[1], _keys_at(kind, inner), ".".join(part for part in (table, inner) if part))
    choices = _choices_at(kind, inner)
    if choices:
        what = f"{what}; there are {', '.join(choices)}"
    if not table and "." in inner:
        table, _, inner = inner.partition(".")
    return f"{f'[{table}] ' if table else ''}{f'{inner}: ' if inner else ''}{what}"


def _unknown(key: str, known: list[str], table: str) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return f"{f'[{table}]' if table else 'the top level'} has no key {key!r}; {meant}"


def _choices_at(kind: type[msgspec.Struct], path: str) -> list[str]:
    """What a key may be, where that is one of a few words: as the file writes them, and ``a number`` beside them."""
    table, _, key = path.rpartition(".")
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if table in fields:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(_table(fields[table]))}
    wanted = fields.get(key)
    parts = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    words = [f'"{word}"' for part in parts if get_origin(part) is Literal for word in get_args(part)]
    number = any(part in (int, float) or get_origin(part) is Annotated for part in parts)
    return [*words, "a number"] if words and number else words


def _keys_at(kind: type[msgspec.Struct], path: str) -> list[str]:
    """The keys of the table at ``path`` below ``kind``."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if path in fields:
        return [field.encode_name for field in msgspec.structs.fields(_table(fields[path]))]
    return list(fields)


def _table(kind: Any) -> Any:
    """The struct of a table that may be left out."""
    return next((part for part in get_args(kind) if part is not type(None)), kind)
