"""Request bodies, decoded strictly: no number out of a string, no field that isn't known."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from litestar.dto import MsgspecDTO
from litestar.openapi.spec import Reference, Schema
from litestar.typing import FieldDefinition

from api.canary_schemas import ShareRequest
from api.key_schemas import KeyPatch, KeyRequest, RotateRequest
from api.openai.schemas import PriceRequest
from api.operating.schemas import CancelRequest, RedriveRequest
from api.problems import from_decoding
from api.quota_schemas import QuotaPatch, QuotaRequest
from api.schemas import PauseRequest
from api.webhook_schemas import EndpointPatch, EndpointRequest, RedeliverRequest

T = TypeVar("T", bound=msgspec.Struct)


class _StrictBody(MsgspecDTO[T], Generic[T]):
    """Decodes with msgspec's strict mode, where Litestar itself would take ``"5"`` for 5."""

    struct: ClassVar[type[msgspec.Struct]]

    def decode_bytes(self, value: bytes) -> Any:
        """The request. Raises ProblemError naming the field."""
        try:
            return msgspec.json.decode(value, type=self.struct)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise from_decoding(error, self.struct.__struct_fields__) from error

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any
    ) -> Reference | Schema:
        """A reference to the struct's own schema; ``api.openapi`` puts msgspec's in its place."""
        del handler_id
        own = FieldDefinition.from_annotation(field_definition.annotation)
        made: Reference | Schema = schema_creator.for_field_definition(own)
        return made


class PriceBody(_StrictBody[PriceRequest]):
    """The body of a submit that is to be priced."""

    struct = PriceRequest


class RedriveBody(_StrictBody[RedriveRequest]):
    """The filter of a redrive."""

    struct = RedriveRequest


class CancelBody(_StrictBody[CancelRequest]):
    """The filter of a cancel."""

    struct = CancelRequest


class KeyBody(_StrictBody[KeyRequest]):
    """The body of a new key."""

    struct = KeyRequest


class KeyPatchBody(_StrictBody[KeyPatch]):
    """What changes in a key."""

    struct = KeyPatch


class RotateBody(_StrictBody[RotateRequest]):
    """The body of a rotation."""

    struct = RotateRequest


class QuotaBody(_StrictBody[QuotaRequest]):
    """The body of a new quota."""

    struct = QuotaRequest


class QuotaPatchBody(_StrictBody[QuotaPatch]):
    """A quota's limit."""

    struct = QuotaPatch


class EndpointBody(_StrictBody[EndpointRequest]):
    """The body of a new webhook endpoint."""

    struct = EndpointRequest


class RedeliverBody(_StrictBody[RedeliverRequest]):
    """The filter of redeliveries."""

    struct = RedeliverRequest


class EndpointPatchBody(_StrictBody[EndpointPatch]):
    """What changes in a webhook endpoint."""

    struct = EndpointPatch


class ShareBody(_StrictBody[ShareRequest]):
    """The body that sets a canary's share."""

    struct = ShareRequest


class PauseBody(_StrictBody[PauseRequest]):
    """The body of a pause."""

    struct = PauseRequest
