"""A TCP proxy that can cut, refuse, hold or delay what passes through it."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CHUNK = 65_536


def to_port(port: int) -> Callable[[], Awaitable[Streams]]:
    """Connects to a port of this machine."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: Path) -> Callable[[], Awaitable[Streams]]:
    """Connects to a Unix socket."""
    return lambda: asyncio.open_unix_connection(str(path))


class Proxy:
    """Stands in front of one server, on a thread and a loop of its own. Its methods are safe from any thread."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        """``connect`` reaches the server; nothing is opened before ``start``."""
        self._connect = connect
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._delay_s = 0.0
        self.port = 0

    def start(self) -> int:
        """Listen on a free port of loopback; the port."""
        self._thread.start()
        self._do(self._listen())
        return self.port

    def stop(self) -> None:
        """Close everything."""
        self.cut()
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> int:
        """Reset all connections; how many there were. New ones are let through."""
        return self._do(self._abort())

    def refuse(self) -> None:
        """Reset all connections and every new one, until ``restore``."""
        self._refusing = True
        self.cut()

    def hold(self) -> None:
        """Let nothing through in either direction, as a network does that swallows packets, until ``restore``."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def delay(self, seconds: float) -> None:
        """Let every chunk wait so long before it goes on, until ``restore``."""
        self._delay_s = seconds

    def restore(self) -> None:
        """Let everything through again; what was held goes on."""
        self._refusing = False
        self._delay_s = 0.0
        self._loop.call_soon_threadsafe(self._open.set)

    def _do(self, work: Awaitable[int]) -> int:
        async def wrapped() -> int:
            return await work

        return asyncio.run_coroutine_threadsafe(wrapped(), self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def _close(self) -> int:
        if self._server is not None:
            self._server.close()
        others = asyncio.all_tasks() - {task for task in [asyncio.current_task()] if task}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return len(others)

    async def _abort(self) -> int:
        writers = list(self._writers)
        for writer in writers:
            _reset(writer)
        return len(writers) // 2

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _reset(writer)
            return
        try:
            there, back = await self._connect()
        except OSError:  # the server is down: so is the proxy, as far as anybody can tell
            _reset(writer)
            return
        ends = {writer, back}
        self._writers |= ends
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        except asyncio.CancelledError:  # at the stop; asyncio's streams would complain of a cancelled handler
            return
        finally:
            self._writers -= ends
            for end in ends:
                end.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset instead of an orderly end."""
    end = writer.get_extra_info("socket")
    if end is not None and end.family == socket.AF_INET and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
