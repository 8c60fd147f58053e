"""The servers that a house of processes stands on: PostgreSQL and RabbitMQ of its own, each behind a proxy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests.chaos.postgres import OwnPostgres
from tests.chaos.proxy import Proxy, to_port, to_socket
from tests.chaos.rabbitmq import OwnRabbit


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers, and the proxies that Safelight's processes reach them through."""

    postgres: OwnPostgres
    rabbit: OwnRabbit
    to_postgres: Proxy
    to_rabbit: Proxy

    def store_url(self, database: str) -> str:
        """The database as the processes reach it."""
        return f"postgresql://postgres@127.0.0.1:{self.to_postgres.port}/{database}"

    def direct_url(self, database: str) -> str:
        """The database as an observer reaches it, past the proxy."""
        return make_conninfo(self.postgres.url, dbname=database)

    @property
    def broker_url(self) -> str:
        """The broker as the processes reach it."""
        return f"amqp://guest:guest@127.0.0.1:{self.to_rabbit.port}"

    def restore(self) -> None:
        """Let everything through the proxies again."""
        self.to_postgres.restore()
        self.to_rabbit.restore()


@contextmanager
def own_servers() -> Iterator[Servers]:
    """Both, started; nothing is left of them afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="safelight-chaos-", ignore_cleanup_errors=True))
        postgres = stack.enter_context(OwnPostgres(Path(folder) / "postgres"))
        rabbit = stack.enter_context(OwnRabbit())
        proxies = [Proxy(to_socket(postgres.socket)), Proxy(to_port(rabbit.port))]
        for proxy in proxies:
            proxy.start()
            stack.callback(proxy.stop)
        yield Servers(postgres, rabbit, *proxies)
