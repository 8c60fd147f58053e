"""Request bodies, decoded strictly: no number out of a string, no field that isn't known."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar._openapi.schema_generation import SchemaCreator
from litestar.dto import MsgspecDTO
from litestar.openapi.spec import Reference, Schema
from litestar.typing import FieldDefinition

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

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        """The struct's own schema: the one made of its transfer model loses bounds of optional fields."""
        del handler_id
        return schema_creator.for_field_definition(FieldDefinition.from_annotation(field_definition.annotation))
