"""A job's dimensions: from the body, and from ``x-bf-dim-<name>`` headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from api.problems import invalid
from api.wording import NAMES, plainly

_PREFIX = b"x-bf-dim-"
_NAME = re.compile(r"[a-z0-9_-]{1,64}", re.ASCII)
_MAX_COUNT = 16
_MAX_VALUE = 256


def gather_dimensions(body: Mapping[str, str], headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Both together; where both name one, the body's counts. Raises ProblemError naming the dimension.

    ``headers`` are those of an ASGI scope, their names in lower case.
    """
    found = {
        name.removeprefix(_PREFIX).decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if name.startswith(_PREFIX)
    }
    found.update(body)
    if len(found) > _MAX_COUNT:
        raise invalid("dimensions", f"a job has at most {_MAX_COUNT} dimensions")
    for name, value in found.items():
        if not _NAME.fullmatch(name):
            raise invalid("dimensions", plainly(NAMES, ""))
        if len(value) > _MAX_VALUE or "\0" in value:
            raise invalid(f"dimensions.{name}", f"dimension values have at most {_MAX_VALUE} characters, and no U+0000")
    return found
