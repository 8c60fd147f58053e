"""Where pictures are kept: a folder or an S3 bucket, by URL, through obstore."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit
from urllib.request import url2pathname
from uuid import UUID, uuid4

import obstore
from obstore.store import LocalStore, S3Store

from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.job import Picture, PictureFormat

_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}){0,7}")


class Outputs(Protocol):
    """A flat store of immutable objects. Safe to use from any event loop."""

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        """Write an object: whole or not at all. Writing a key again replaces it.

        Raises ValueError on a bad key, OSError where there is no room, and obstore's errors.
        """

    async def get(self, key: str) -> bytes:
        """Read an object. Raises OutputNotFoundError."""

    async def exists(self, key: str) -> bool:
        """True when an object lies there."""

    async def size(self, key: str) -> int | None:
        """The object's length in bytes; None where none lies there."""

    def walk(self, prefix: str, older_than_s: float) -> AsyncIterator[Sequence[str]]:
        """The keys below ``prefix`` whose objects were written more than so many seconds ago, in batches."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is not there is no error."""

    async def ping(self, size_bytes: int = 9) -> None:
        """Return if an object of that size can be written, and looked at; raises otherwise. None is left behind."""


def picture_key(job_id: UUID, token: int, index: int, picture_format: PictureFormat) -> str:
    """Where a picture goes. The fencing token in it keeps a zombie from overwriting what its successor wrote."""
    return f"jobs/{job_id}/{token}/{index}.{picture_format.value}"


def check_key(key: str) -> str:
    """The key itself. Raises ValueError on one that could leave the store's root or is not bounded."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key[:200]!r} is not a key of an output")
    return key


async def check_whole(outputs: Outputs, picture: Picture) -> None:
    """Return if the picture's file is there in full; raises OutputNotFoundError or OutputDamagedError else."""
    size = await outputs.size(picture.key)
    if size is None:
        raise OutputNotFoundError(f"nothing lies under {picture.key}")
    _compare(picture, size)


async def get_whole(outputs: Outputs, picture: Picture) -> bytes:
    """The picture's file. Raises OutputDamagedError when a part of it is missing, and what ``get`` raises."""
    data = await outputs.get(picture.key)
    _compare(picture, len(data))
    return data


def _compare(picture: Picture, size: int) -> None:
    if size != picture.size_bytes:
        raise OutputDamagedError(f"{picture.key} has {size} bytes; the picture had {picture.size_bytes}")


class ObjectOutputs:
    """Outputs on any store of obstore.

    Its calls are made in threads, not through its coroutines: the threads of its own that these leave behind abort the
    interpreter now and then when it ends soon after one.
    """

    def __init__(self, store: LocalStore | S3Store) -> None:
        self._store = store
        # A folder keeps no attributes beside its files.
        self._attributes = isinstance(store, S3Store)

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        options: dict[str, Any] = {"attributes": {"Content-Type": media_type}} if self._attributes else {}
        await asyncio.to_thread(obstore.put, self._store, check_key(key), data, **options)

    async def get(self, key: str) -> bytes:
        def read() -> bytes:
            return bytes(obstore.get(self._store, check_key(key)).bytes())

        try:
            return await asyncio.to_thread(read)
        except FileNotFoundError as error:
            raise OutputNotFoundError(f"nothing lies under {key}") from error

    async def exists(self, key: str) -> bool:
        return await self.size(key) is not None

    async def size(self, key: str) -> int | None:
        try:
            return int((await asyncio.to_thread(obstore.head, self._store, check_key(key)))["size"])
        except FileNotFoundError:
            return None

    async def walk(self, prefix: str, older_than_s: float) -> AsyncIterator[Sequence[str]]:
        before = datetime.now(UTC) - timedelta(seconds=older_than_s)
        batches = iter(obstore.list(self._store, prefix, chunk_size=1000))
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield [found["path"] for found in batch if found["last_modified"] < before]

    async def delete(self, keys: Sequence[str]) -> None:
        async def remove(key: str) -> None:
            try:
                await asyncio.to_thread(obstore.delete, self._store, check_key(key))
            except FileNotFoundError:
                return

        await asyncio.gather(*(remove(key) for key in keys))

    async def ping(self, size_bytes: int = 9) -> None:
        key = f"ping/{uuid4().hex}"
        try:
            await self.put(key, bytes(size_bytes), "application/octet-stream")
            if await self.size(key) != size_bytes:
                raise OutputDamagedError(f"{key} is not as long as it was written")
        finally:
            await self.delete([key])


def open_outputs(url: str) -> Outputs:
    """Outputs of a ``file:///folder`` (made if missing) or ``s3://bucket/prefix`` URL.

    The query of an S3 URL sets what obstore's S3Store takes (``?endpoint=http://…&region=…``); credentials come from
    the usual ``AWS_*`` variables. Raises ValueError on a URL that names no place.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        folder = Path(url2pathname(parts.path))
        if not folder.is_absolute() or parts.netloc not in ("", "localhost"):
            raise ValueError(f"{url!r} names no absolute folder; write file:///folder")
        return ObjectOutputs(LocalStore(folder, mkdir=True))
    if parts.scheme == "s3" and parts.netloc:
        options: dict[str, Any] = dict(parse_qsl(parts.query))
        if options.get("endpoint", "").startswith("http://"):
            options["client_options"] = {"allow_http": True}
        return ObjectOutputs(S3Store(parts.netloc, prefix=parts.path.strip("/") or None, **options))
    raise ValueError(f"{url!r} is neither file:///folder nor s3://bucket/prefix")
