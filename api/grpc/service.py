"""The calls: each is a request of REST, and its answer as a message."""

from __future__ import annotations

from typing import Any, Never
from uuid import UUID

import grpc
import msgspec
from google.protobuf.message import Message
from litestar.datastructures import Headers

from api.auth import is_stranger
from api.grpc.describing import METHODS, SERVICE
from api.grpc.events import Frames
from api.grpc.messages import filled, message_class, plain
from api.grpc.problems import Metadata, Refusal, refusal_for, refusal_of, told
from api.grpc.requests import Answer, Asgi, Call, answer_to, passed_on, peer_of, stream_of
from api.problems import ProblemError
from api.services import Services

Context = grpc.aio.ServicerContext[Any, Any]
_NOWHERE = "/v1/jobs/-"  # there is no such job, and whether there is one is told to those alone who may ask


class Calls:
    """The service's methods, over the application."""

    def __init__(self, app: Asgi, *, secure: bool) -> None:
        """``secure``: calls come over TLS."""
        self._app = app
        self._secure = secure

    async def submit(self, message: Message, context: Context) -> Message:
        """``POST /v1/jobs``."""
        try:
            body = msgspec.json.encode(plain(message))
        except ProblemError as problem:
            await ended(context, refusal_for(problem))
        return await self._asked("Submit", "Job", context, "POST", "/v1/jobs", body)

    async def get(self, message: Any, context: Context) -> Message:
        """``GET /v1/jobs/{id}``."""
        return await self._asked("Get", "Job", context, "GET", _path(message.id))

    async def cancel(self, message: Any, context: Context) -> Message:
        """``POST /v1/jobs/{id}/cancel``."""
        return await self._asked("Cancel", "Job", context, "POST", _path(message.id) + "/cancel")

    async def list_models(self, _message: Message, context: Context) -> Message:
        """``GET /v1/models``."""
        return await self._asked("ListModels", "ModelList", context, "GET", "/v1/models")

    async def watch(self, message: Any, context: Context) -> None:
        """``GET /v1/jobs/{id}/events``."""
        after = f"last_event_id={message.last_event_id}".encode() if message.HasField("last_event_id") else b""
        call = self.call_of("Watch", context, "GET", _path(message.id) + "/events", query=after)
        frames = Frames()

        async def each(part: bytes) -> None:
            for event in frames.events(part):
                await context.write(event)

        answer = await stream_of(self._app, call, each)
        if answer.status >= 400:
            await ended(context, refusal_of(answer))
        context.set_trailing_metadata(told(answer.headers))
        if answer.status == 200 and not frames.ended:
            detail = "the stream broke off before the job ended: watch it again, from the last event's id on"
            await ended(context, Refusal(grpc.StatusCode.UNAVAILABLE, detail, told(answer.headers)))

    async def refuse(self, _messages: Any, context: Context) -> None:
        """Tell a stranger so, without having read what it sent."""
        answer = await answer_to(self._app, self.call_of("", context, "GET", "/v1/models"))
        if answer.status < 400:  # the key came into force a moment ago
            metadata: Metadata = (("grpc-retry-pushback-ms", "0"),)
            await ended(context, Refusal(grpc.StatusCode.UNAVAILABLE, "try again", metadata))
        await ended(context, refusal_of(answer))

    def call_of(
        self, name: str, context: Context, method: str, path: str, body: bytes = b"", query: bytes = b"", rpc: str = ""
    ) -> Call:
        """The request that a call becomes."""
        return Call(
            rpc=rpc or f"/{SERVICE}/{name}".rstrip("/"),
            method=method,
            path=path,
            headers=passed_on(context.invocation_metadata() or ()),
            client=peer_of(context.peer()),
            secure=self._secure,
            query=query,
            body=body,
        )

    async def _asked(
        self, name: str, kind: str, context: Context, method: str, path: str, body: bytes = b""
    ) -> Message:
        answer: Answer = await answer_to(self._app, self.call_of(name, context, method, path, body))
        if answer.status >= 400:
            await ended(context, refusal_of(answer))
        context.set_trailing_metadata(told(answer.headers))
        return filled(kind, msgspec.json.decode(answer.body))


class KeysFirst(grpc.aio.ServerInterceptor):
    """Turns strangers away before what they send is read: else memory would be theirs."""

    def __init__(self, services: Services, calls: Calls) -> None:
        """Health and reflection have rules of their own."""
        self._services = services
        self._refusal: Any = grpc.stream_stream_rpc_method_handler(calls.refuse)

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The method's handler, or the one that refuses."""
        if handler_call_details.method.startswith(f"/{SERVICE}/"):
            headers = Headers(passed_on(handler_call_details.invocation_metadata or ()))
            if await is_stranger(headers, self._services):
                return self._refusal
        return await continuation(handler_call_details)


def handlers_of(calls: Calls) -> grpc.GenericRpcHandler:
    """What the server asks for a method's handler."""
    own = {
        "Submit": calls.submit, "Get": calls.get, "Cancel": calls.cancel, "Watch": calls.watch,
        "ListModels": calls.list_models,
    }  # fmt: skip
    handlers = {}
    for name, (takes, gives, streams) in METHODS.items():
        make: Any = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        handlers[name] = make(own[name], message_class(takes).FromString, message_class(gives).SerializeToString)
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


async def ended(context: Context, refusal: Refusal) -> Never:
    """End a call with a refusal."""
    await context.abort(refusal.code, refusal.detail, refusal.metadata)
    raise AssertionError("abort raises")


def _path(job_id: str) -> str:
    """The job's path: an id alone, whatever else stands in its place."""
    try:
        UUID(job_id)
    except ValueError:
        return _NOWHERE
    return f"/v1/jobs/{job_id}" if len(job_id) == 36 else _NOWHERE
