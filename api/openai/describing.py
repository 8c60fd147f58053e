"""What the document says of routes that read their bodies themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, Operation, Reference, RequestBody

from api.openai.schemas import ImagesAnswer, PendingAnswer


@dataclass
class Described(Operation):
    """An operation whose body is a generation."""

    def __post_init__(self) -> None:
        """Name the body's schema, which ``api.openapi`` puts into the document."""
        content = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/GenerationRequest"))
        self.request_body = RequestBody(content={"application/json": content}, required=True)


@dataclass
class DescribedEdit(Operation):
    """An operation whose body is an edit: JSON, or a form with files."""

    def __post_init__(self) -> None:
        """As for a generation."""
        content = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/EditRequest"))
        self.request_body = RequestBody(
            content={"application/json": content, "multipart/form-data": content}, required=True
        )


def generation_answers(done: Any = ImagesAnswer, pending: Any = PendingAnswer) -> dict[int, ResponseSpec]:
    """The pictures, or a promise of them."""
    return {
        200: ResponseSpec(done, description="The job has ended.", generate_examples=False),
        202: ResponseSpec(pending, description="The pictures are not there yet.", generate_examples=False),
    }
