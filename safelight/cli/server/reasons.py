"""Why a store is not to be had, in the database's own words, and what to do about it."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_LIMIT = 400
_ADVICE = (
    ("password authentication failed", "check user and password in SAFELIGHT_STORE"),
    ("no password supplied", "put the password into SAFELIGHT_STORE, or into ~/.pgpass"),
    ("no pg_hba.conf entry", "allow this host and user in the server's pg_hba.conf"),
    (
        "permission denied",
        "give the user of SAFELIGHT_STORE the rights to make tables there, or let it own the database",
    ),
    ("refused", "see that PostgreSQL runs, and check host and port in SAFELIGHT_STORE"),
    ("resolve host", "check the host's name in SAFELIGHT_STORE"),
    ("too many", "close connections, or raise max_connections in the server's settings"),
    ("starting up", "wait until PostgreSQL has started"),
)


def sentence_of(error: BaseException, url: str) -> str:
    """What ``error`` says, in one line and without the password of ``url``; its kind where it has no words."""
    text = str(error).partition("Multiple connection attempts failed")[0]
    text = re.sub(r"(?i)(password\s*=\s*)\S+", r"\1***", " ".join(text.split()))
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text[:_LIMIT] or type(error).__name__


def advice_for(sentence: str, url: str) -> str:
    """What to do about it, ready to paste where that can be."""
    missing = re.search(r'database "(.+)" does not exist', sentence)
    if missing:
        return f"make it:  createdb {_server(url)}{missing[1]}"
    if re.search(r'role ".+" does not exist', sentence):
        return "check the user in SAFELIGHT_STORE, or make it with  createuser"
    return next(
        (advice for words, advice in _ADVICE if words in sentence), "check SAFELIGHT_STORE, and that the database runs"
    )


def _secrets(url: str) -> list[str]:
    """The URL's password, as it is written and as it is meant."""
    raw = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    return sorted({text for text in (raw, unquote(raw)) if text}, key=len, reverse=True)


def _server(url: str) -> str:
    """The options of PostgreSQL's own programs that name the server and the user."""
    try:
        parts = urlsplit(url)
        named = (("-h", parts.hostname), ("-p", parts.port), ("-U", parts.username))
    except ValueError:
        return ""
    return "".join(f"{option} {value} " for option, value in named if value)
