"""Reads the settings: the TOML file first, then the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from safelight.config.adapters import located_adapters
from safelight.config.canaries import check_canaries
from safelight.config.digest import model_revision
from safelight.config.errors import ConfigError
from safelight.config.fallbacks import check_fallbacks
from safelight.config.keys import KeySettings
from safelight.config.reading import parse_settings
from safelight.config.settings import ModelSettings, ServerSettings, Settings, WorkerSettings

CONFIG_NAME = "safelight.toml"
_OVERRIDES = {"SAFELIGHT_HOME": "home", "SAFELIGHT_STORE": "store", "SAFELIGHT_BROKER": "broker",
              "SAFELIGHT_OUTPUTS": "outputs"}  # fmt: skip
_PEPPER = "SAFELIGHT_KEY_PEPPER"

_FILE_STORE = "sqlite:///"


def load_settings(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from ``path``, ``SAFELIGHT_CONFIG`` or ``./safelight.toml``, with the environment's overrides.

    Paths inside the file are taken relative to the file, those of the environment relative to the working folder.
    A model folder or an adapter's file without a ``revision`` gets a digest of its content, so that other weights are
    another revision.
    Raises ConfigError.
    """
    file = path or (Path(environ["SAFELIGHT_CONFIG"]) if environ.get("SAFELIGHT_CONFIG") else Path(CONFIG_NAME))
    settings = _parse(file)
    base = file.resolve().parent
    changes: dict[str, object] = {
        name: environ[variable] for variable, name in _OVERRIDES.items() if environ.get(variable)
    }
    changes.setdefault("home", str(base / settings.home))
    changes.setdefault("store", _located_store(settings.store, base))
    if environ.get(_PEPPER):
        changes["keys"] = _peppered(environ[_PEPPER])
    changes["server"] = _located_tls(settings.server, base)
    settings = msgspec.structs.replace(settings, **changes)
    _check_times(settings.worker)
    return _with_models(_with_places(settings), base)


def _peppered(pepper: str) -> KeySettings:
    try:
        return KeySettings(pepper=pepper)
    except ValueError as error:
        raise ConfigError(f"{_PEPPER}: {error}") from None


def _located_tls(server: ServerSettings, base: Path) -> ServerSettings:
    """With the whole paths of its certificate and key. That these can be read is seen where they are used."""
    files = {
        name: str((base / Path(path).expanduser()).resolve())
        for name, path in (("tls_cert", server.tls_cert), ("tls_key", server.tls_key))
        if path
    }
    return msgspec.structs.replace(server, **files)


def _check_times(worker: WorkerSettings) -> None:
    if worker.lease_s < 2 * worker.beat_s:
        raise ConfigError(
            f"[worker] lease_s {worker.lease_s:g} is less than two beats of beat_s {worker.beat_s:g}: "
            "one late beat would cost the worker all its jobs"
        )


def _located_store(url: str, base: Path) -> str:
    """A SQLite store's URL with the whole path; any other as it stands."""
    path = url.removeprefix(_FILE_STORE)
    if path == url or path.startswith("/"):
        return url
    return f"{_FILE_STORE}{(base / path).resolve()}"


def _parse(file: Path) -> Settings:
    try:
        return parse_settings(file.read_bytes(), file)
    except FileNotFoundError:
        raise ConfigError(
            f"no settings at {file.resolve()}: run in a folder with a {CONFIG_NAME}, or set SAFELIGHT_CONFIG"
        ) from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error


def _with_places(settings: Settings) -> Settings:
    home = Path(settings.home).expanduser().resolve()
    outputs = settings.outputs or (home / "outputs").as_uri()
    if "://" not in outputs:
        raise ConfigError(f"outputs {outputs!r} is not a URL: use file:///folder or s3://bucket/prefix")
    if settings.store != "embedded" and "://" not in settings.store:
        raise ConfigError(
            f"store {settings.store!r} is neither 'embedded' nor a URL like postgresql://host/database or sqlite:///file"
        )
    store = _located_store(settings.store, Path())
    if settings.broker != "memory" and "://" not in settings.broker:
        raise ConfigError(f"broker {settings.broker!r} is neither 'memory' nor a URL like amqp://host")
    return msgspec.structs.replace(settings, home=str(home), store=store, outputs=outputs)


def _with_models(settings: Settings, base: Path) -> Settings:
    models = {name: _located(model, base, f"[models.{name}] model") for name, model in settings.models.items()}
    default = settings.default_model
    if settings.model:
        name = settings.model.rstrip("/").rsplit("/", 1)[-1]
        models.setdefault(name, _located(ModelSettings(model=settings.model), base, "model"))
        default = default or name
    if not models:
        raise ConfigError('no model is set: add  model = "black-forest-labs/FLUX.1-schnell"  or a [models.NAME] table')
    default = default or next(iter(models))
    settings = msgspec.structs.replace(settings, models=models, default_model=default)
    if settings.find_model(default) is None:
        raise ConfigError(f"default_model {default!r} is none of: {', '.join(models)}")
    names = [name for own, model in models.items() for name in (own, *model.aliases)]
    if len(names) != len(set(names)):
        raise ConfigError(
            "two models share a name or alias: " + ", ".join(sorted({n for n in names if names.count(n) > 1}))
        )
    check_fallbacks(models)
    check_canaries(models)
    return settings


def _located(model: ModelSettings, base: Path, key: str) -> ModelSettings:
    model = msgspec.structs.replace(model, adapters=located_adapters(model.adapters, base, key.removesuffix(" model")))
    if model.provider is not None:
        return msgspec.structs.replace(model, revision=model.revision or "remote")
    folder = base / Path(model.model).expanduser()
    if not folder.is_dir():
        if model.model.startswith((".", "/", "~")):
            raise ConfigError(f"{key}: the folder {folder} does not exist")
        return msgspec.structs.replace(model, revision=model.revision or "main")
    return msgspec.structs.replace(
        model, model=str(folder.resolve()), revision=model.revision or model_revision(folder)
    )
