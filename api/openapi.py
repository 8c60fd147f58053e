"""How the API describes itself: every endpoint with every answer it can give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Litestar
from litestar.di import NamedDependency, Provide
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import PathParameter, SkipValidation
from litestar.types import ControllerRouterHandler

from api.key_schemas import KeyPatch, KeyRequest, RotateRequest
from api.openai.schemas import EditRequest, GenerationRequest, PriceRequest
from api.operating.schemas import CancelRequest, RedriveRequest
from api.problems import MEDIA_TYPE, Problem
from api.quota_schemas import QuotaPatch, QuotaRequest
from api.schemas import JobSubmit, PauseRequest
from api.services import Services
from api.webhook_schemas import EndpointPatch, EndpointRequest, RedeliverRequest
from safelight import __version__

JobId = Annotated[str, PathParameter(description="The job's id, a UUID.", schema_extra={"format": "uuid"})]
ServicesDependency = NamedDependency[SkipValidation[Services]]

_DETAILS = {
    400: "The request can't be taken; `field` names what is to blame.",
    401: "An API key is needed, or the one sent doesn't count.",
    402: "A budget is used up.",
    403: "The key may not do this, or a page of another origin asks.",
    404: "No such job, picture, model, lane or key (or not one of this key's).",
    405: "The method is not possible here.",
    409: "The job's state does not allow it, or the job of the `Idempotency-Key` has been deleted; or the key's state.",
    413: "The body is larger than this server takes.",
    415: "The body is not declared as JSON.",
    422: "The `Idempotency-Key` was used for another request.",
    429: "Too many jobs wait, or a quota has no room; try again after `Retry-After` seconds, where it is there.",
    500: "Something went wrong on the server's side.",
    504: "The job's deadline passed.",
    503: "The store or the outputs can't be reached; try again after `Retry-After` seconds.",
}
_ALWAYS = (401, 403, 500, 503)


def answers(*statuses: int, done: Any = None, always: tuple[int, ...] = _ALWAYS) -> dict[int, ResponseSpec]:
    """Documented problems of a route; ``done`` is what it answers with 200 where that isn't its usual status."""
    specs = {
        status: ResponseSpec(
            Problem,
            description=_DETAILS.get(status, HTTPStatus(status).description),
            media_type=MEDIA_TYPE,
            generate_examples=False,
        )
        for status in sorted({400, *statuses, *always})  # without 400 Litestar would document a shape of its own
    }
    if done is not None:
        specs[200] = ResponseSpec(done, description="Done already: found in the cache.", generate_examples=False)
    return specs


class ApiDocument:
    """The OpenAPI document, made when it is first asked for."""

    def __init__(self, routes: Callable[[], Sequence[ControllerRouterHandler]]) -> None:
        """``routes`` makes those that the document describes; a router belongs to one application alone."""
        self._routes = routes
        self._making = asyncio.Lock()

    async def made(self) -> dict[str, Any]:
        """The document, made in a thread: it takes seconds on a busy machine, and others are to be answered."""
        async with self._making:
            return await asyncio.to_thread(lambda: self.content)

    @cached_property
    def content(self) -> dict[str, Any]:
        """The document. Litestar can't make one without mounting pages of its own, so an application that never
        serves makes it."""
        scheme = SecurityScheme(type="http", scheme="bearer", description="An API key, where the server wants one.")
        config = OpenAPIConfig(
            title="Safelight",
            version=__version__,
            description="A durable render queue for diffusion models.",
            components=Components(security_schemes={"key": scheme}),
            use_handler_docstrings=True,
        )
        unused = {name: Provide(lambda: None, sync_to_thread=False) for name in ("services", "gauges")}
        app = Litestar(self._routes(), openapi_config=config, dependencies=unused, logging_config=None)
        document: dict[str, Any] = app.openapi_schema.to_schema()
        document["components"]["schemas"].update(
            _exact(JobSubmit, PauseRequest, GenerationRequest, EditRequest, PriceRequest)
        )
        document["components"]["schemas"].update(_exact(KeyRequest, KeyPatch, RotateRequest))
        document["components"]["schemas"].update(_exact(QuotaRequest, QuotaPatch))
        document["components"]["schemas"].update(_exact(EndpointRequest, EndpointPatch, RedeliverRequest))
        document["components"]["schemas"].update(_exact(CancelRequest, RedriveRequest))
        translated: dict[str, Any] = _with_others_patterns(document)
        return translated


def _with_others_patterns(node: Any) -> Any:
    r"""The document with patterns of ECMA-262, as JSON Schema has them: they end in ``$`` where ours end in ``\Z``."""
    if isinstance(node, dict):
        return {
            name: value.removesuffix(r"\Z") + "$"
            if name == "pattern" and isinstance(value, str) and value.endswith(r"\Z")
            else _with_others_patterns(value)
            for name, value in node.items()
        }
    return [_with_others_patterns(one) for one in node] if isinstance(node, list) else node


def _exact(*structs: type[msgspec.Struct]) -> dict[str, Any]:
    """The schemas of structs as msgspec decodes them: Litestar's lose the bounds of optional fields."""
    _, schemas = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    return schemas


def picture_answers() -> dict[int, ResponseSpec]:
    """What else than ``image/png`` a picture route answers."""
    return {304: ResponseSpec(None, description="The picture the client has is the right one.")}


def nothing_more() -> dict[int, ResponseSpec]:
    """A stream whose client has seen the end already."""
    return {204: ResponseSpec(None, description="The job has ended and the client has seen its last event.")}
