"""Request bodies, decoded strictly: no number out of a string, no field that isn't known."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.dto import MsgspecDTO

from api.problems import from_decoding
from api.schemas import SubmitRequest


class SubmitBody(MsgspecDTO[SubmitRequest]):
    """Decodes with msgspec's strict mode, where Litestar itself would take ``"5"`` for 5."""

    def decode_bytes(self, value: bytes) -> Any:
        """The request. Raises ProblemError naming the field."""
        try:
            return msgspec.json.decode(value, type=SubmitRequest)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise from_decoding(error) from error
