"""``[models.NAME.provider]``: whom a remote model's pictures are asked of. Secrets stay in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from safelight.config.base import Base

Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}\Z")]
_OURS = frozenset(
    {"accept-encoding", "content-length", "content-type", "host", "idempotency-key", "prefer", "transfer-encoding"}
)


class ProviderSettings(Base, frozen=True, kw_only=True):
    """A provider of pictures: an endpoint that speaks OpenAI's images API, or whatever the litellm library reaches.

    ``model`` is the provider's own name for the model. ``api_key_env`` and ``headers_env`` name environment variables
    that hold what is secret. ``timeout_s`` bounds one render there, ``max_concurrency`` how many a worker process asks
    for at once. With ``extra`` the seed, the steps, the guidance and the negative prompt are sent too: OpenAI's own
    service refuses fields that it doesn't know.
    """

    kind: Literal["openai", "litellm"]
    base_url: str = ""
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    api_key_env: Variable | None = None
    headers_env: dict[HeaderName, Variable] = field(default_factory=dict)
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    max_concurrency: Annotated[int, Meta(ge=1, le=256)] = 4
    extra: bool = False
    max_picture_mb: Annotated[int, Meta(ge=1, le=1024)] = 32

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        if self.kind == "openai" and not self.base_url:
            raise ValueError('base_url is missing: where the provider answers, such as "https://host/v1"')
        if self.base_url:
            _check_url(self.base_url)
        if ours := [name for name in self.headers_env if name.lower() in _OURS]:
            raise ValueError(f"headers_env: {', '.join(ours)} can't be set")

    @property
    def identity(self) -> str:
        """What is asked, and where: another place or name may give other pictures."""
        place = urlsplit(self.base_url)
        return f"{self.kind}:{self.model}@{place.netloc}{place.path.rstrip('/')}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that hold its secrets."""
        key = () if self.api_key_env is None else (self.api_key_env,)
        return (*key, *self.headers_env.values())

    def unset(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Those of them that aren't set."""
        return tuple(name for name in self.variables if not environ.get(name))


def _check_url(url: str) -> None:
    try:
        place = urlsplit(url)
        valid = place.scheme in ("http", "https") and bool(place.hostname) and (place.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"base_url {url.partition('?')[0]!r} is not a URL like https://host/v1")
    if place.username is not None or place.query or place.fragment:
        raise ValueError("base_url holds more than a place: put secrets into api_key_env or headers_env")
