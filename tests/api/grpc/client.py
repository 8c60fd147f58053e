"""A client of the gRPC server: grpc.aio in the server's own event loop, called from the test."""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc
from google.protobuf.json_format import MessageToDict

from api.grpc.describing import METHODS, SERVICE
from api.grpc.messages import message_class
from tests.api.site import Site


class Told(NamedTuple):
    """How a call ended: its message, if it got one, and else why not."""

    message: Any
    code: grpc.StatusCode
    detail: str
    metadata: dict[str, Any]


class Watching:
    """A stream of events, read one by one."""

    def __init__(self, site: Site, call: Any) -> None:
        """Nothing is read yet."""
        self.site = site
        self.call = call

    def next(self) -> Any:
        """The next event; None at the end. Raises AioRpcError."""
        event = self.site.call(self.call.read())
        return None if event is grpc.aio.EOF else event

    def rest(self) -> list[Any]:
        """All that come until the end."""
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events


class Caller:
    """Calls the service's methods."""

    def __init__(self, site: Site, secret: str | None = None, target: str = "", **channel: Any) -> None:
        """``secret`` is sent as a bearer token."""
        self.site = site
        self.metadata = [] if secret is None else [("authorization", f"Bearer {secret}")]
        self.target = target or f"127.0.0.1:{site.app.state.grpc_port}"
        self.channel: Any = site.call(self._open(**channel))

    async def _open(self, credentials: Any = None, options: Any = None) -> Any:
        if credentials is not None:
            return grpc.aio.secure_channel(self.target, credentials, options)
        return grpc.aio.insecure_channel(self.target, options)

    def close(self) -> None:
        """Hang up."""
        self.site.call(self.channel.close())

    def ask(self, name: str, metadata: dict[str, str] | None = None, **fields: Any) -> Told:
        """What a call of one message is answered."""
        return self.site.call(self._ask(name, self._sent(metadata), fields))

    def job(self, name: str = "Submit", metadata: dict[str, str] | None = None, **fields: Any) -> Any:
        """The same where it must be answered."""
        if name == "Submit":
            fields.setdefault("prompt", "a red circle")
        told = self.ask(name, metadata, **fields)
        assert told.code is grpc.StatusCode.OK, told
        return told.message

    def watch(self, job_id: str, **fields: Any) -> Watching:
        """A job's events."""
        return self.site.call(self._watch(message_class("WatchRequest")(id=job_id, **fields)))

    def _sent(self, metadata: dict[str, str] | None) -> Any:
        return (*self.metadata, *(metadata or {}).items())

    async def _watch(self, message: Any) -> Watching:
        method: Any = self.channel.unary_stream(
            f"/{SERVICE}/Watch",
            request_serializer=message_class("WatchRequest").SerializeToString,
            response_deserializer=message_class("WatchEvent").FromString,
        )
        return Watching(self.site, method(message, metadata=self._sent(None)))

    async def _ask(self, name: str, metadata: Any, fields: dict[str, Any]) -> Told:
        takes, gives, _ = METHODS[name]
        method = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=message_class(takes).SerializeToString,
            response_deserializer=message_class(gives).FromString,
        )
        call = method(message_class(takes)(**fields), metadata=metadata, timeout=20)
        try:
            message = await call
        except grpc.aio.AioRpcError as error:
            return Told(None, error.code(), error.details() or "", dict(error.trailing_metadata() or ()))
        return Told(message, grpc.StatusCode.OK, "", dict(await call.trailing_metadata()))


def as_json(message: Any) -> dict[str, Any]:
    """A message in protobuf's own JSON, whose 64-bit integers are strings."""
    return MessageToDict(message, preserving_proto_field_name=True)
