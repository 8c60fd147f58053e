"""What no query may hold, whatever its route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.problems import invalid

if TYPE_CHECKING:
    from api.auth import Connection

_MAX_NAME = 100


def check_query(connection: Connection) -> None:
    """Raise ProblemError on U+0000 in a query: PostgreSQL takes it in no text, and no filter means it."""
    if b"%00" not in connection.scope["query_string"]:
        return
    for name, value in connection.query_params.multi_items():
        if "\0" in name or "\0" in value:
            told = name.replace("\0", "")[:_MAX_NAME]
            raise invalid(told, f"{told or 'a query parameter'} holds the character U+0000")
