"""RabbitMQ for the suite: one that answers, Debian's server as a child process, or compose.dev.yaml's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
from pika.exceptions import AMQPError

STANDARD = "amqp://guest:guest@127.0.0.1:5672"
COMPOSE = "amqp://safelight:safelight@127.0.0.1:5672"
_REPOSITORY = Path(__file__).parents[2]
_START_LIMIT_S = 120


@contextmanager
def rabbitmq_server() -> Iterator[str]:
    """The URL of a broker: SAFELIGHT_TEST_RABBITMQ, the standard port, or one started for the moment."""
    named = os.environ.get("SAFELIGHT_TEST_RABBITMQ")
    if named:
        yield named
    elif answers(STANDARD):
        yield STANDARD
    elif server := _installed():
        with _child(server) as url:
            yield url
    elif shutil.which("docker"):
        with _compose() as url:
            yield url
    else:
        raise RuntimeError(
            "the suite needs RabbitMQ: start one on 127.0.0.1:5672 (guest/guest), name one in SAFELIGHT_TEST_RABBITMQ, "
            "or install rabbitmq-server (Debian: apt-get install rabbitmq-server) or Docker"
        )


def answers(url: str) -> bool:
    """True when a broker lets us in."""
    parameters = pika.URLParameters(url + "?connection_attempts=1&socket_timeout=2&stack_timeout=5")
    try:
        pika.BlockingConnection(parameters).close()
    except (AMQPError, OSError):
        return False
    return True


def _installed() -> str | None:
    found = shutil.which("rabbitmq-server") or "/usr/sbin/rabbitmq-server"
    return found if Path(found).exists() else None


@contextmanager
def _child(server: str) -> Iterator[str]:
    """A node of our own, on a free port, with its data in a folder that is removed."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="rabbitmq-") as folder:
        if os.geteuid() == 0:  # Debian's script drops to the user rabbitmq
            shutil.chown(folder, "rabbitmq")
        environment = {
            **os.environ,
            "RABBITMQ_NODENAME": f"safelight{port}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",  # the machine's own may set a listener
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "HOME": folder,
        }
        process = subprocess.Popen(
            [server], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        url = f"amqp://guest:guest@127.0.0.1:{port}"
        try:
            _wait(url)
            yield url
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            process.wait(60)


@contextmanager
def _compose() -> Iterator[str]:
    command = ["docker", "compose", "--file", str(_REPOSITORY / "compose.dev.yaml"), "--project-name", "safelight-test"]
    subprocess.run([*command, "up", "--detach", "--wait", "rabbitmq"], check=True)
    try:
        _wait(COMPOSE)
        yield COMPOSE
    finally:
        subprocess.run([*command, "down", "--volumes"], check=False)


def _wait(url: str) -> None:
    end = time.monotonic() + _START_LIMIT_S
    while not answers(url):
        if time.monotonic() > end:
            raise RuntimeError(f"RabbitMQ did not answer on {url.rpartition('@')[2]} in {_START_LIMIT_S} s")
        time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
