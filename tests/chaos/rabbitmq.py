"""A RabbitMQ node of the chaos tests' own: it is restarted, and told to run out of memory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tests.e2e.processes import free_port, wait_for
from tests.services.rabbitmq import answers

_START_LIMIT_S = 120.0
_DEBIAN = Path("/usr/lib/rabbitmq/bin")
_IMAGE = "rabbitmq:4-management"


class Node(Protocol):
    """A broker that can be started, stopped and told things."""

    port: int

    def start(self) -> None:
        """Start it; returns before it answers."""

    def stop(self) -> None:
        """Stop it in order; what is durable stays."""

    def alive(self) -> bool:
        """False once it is clear that it will not answer."""

    def control(self, *arguments: str) -> str:
        """What ``rabbitmqctl`` answers."""

    def remove(self) -> None:
        """Stop it and leave nothing behind."""


class OwnRabbit:
    """A node of Debian's server, or of the compose file's image where there is Docker alone."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._node = _make_node()
        self.port = self._node.port
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}"

    def __enter__(self) -> OwnRabbit:
        """Start it and wait until it answers."""
        try:
            self.start()
        except BaseException:
            self._node.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it and leave nothing behind."""
        self._node.remove()

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._node.start()
        wait_for("RabbitMQ to answer", lambda: answers(self.url) or not self._node.alive(), _START_LIMIT_S)
        if not self._node.alive():
            raise RuntimeError("RabbitMQ left while it started")

    def stop(self) -> None:
        """Stop it in order; durable queues and persistent messages stay."""
        self._node.stop()

    def control(self, *arguments: str) -> str:
        """What ``rabbitmqctl`` answers."""
        return self._node.control(*arguments)


class _Child:
    """Debian's scripts, with all their files in a folder that is removed and an epmd of its own."""

    def __init__(self, scripts: Path) -> None:
        self._scripts = scripts
        self.port, dist_port, epmd_port = _free_ports(3)
        self._folder = Path(tempfile.mkdtemp(prefix="safelight-rabbitmq-"))
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.file.level = warning\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "HOME": str(self._folder),
            "RABBITMQ_NODENAME": f"chaos{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq"),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._scripts / "rabbitmq-server"],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 15)
        self._process.wait(60)
        self._process = None

    def control(self, *arguments: str) -> str:
        command = [str(self._scripts / "rabbitmqctl"), "--quiet", *arguments]
        return subprocess.run(
            command, env=self._environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def remove(self) -> None:
        self.stop()
        with suppress(OSError, subprocess.SubprocessError):  # the daemon that the node left behind
            subprocess.run(["epmd", "-kill"], env=self._environment, check=False, capture_output=True, timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)


class _Container:
    """The compose file's image, in a container that is removed."""

    def __init__(self) -> None:
        self.port = free_port()
        self._name = f"safelight-chaos-{uuid.uuid4().hex[:12]}"
        self._docker("create", "--name", self._name, "--publish", f"127.0.0.1:{self.port}:5672", _IMAGE)

    def start(self) -> None:
        self._docker("start", self._name)
        wait_for("the node to be up", self._open_to_guest, _START_LIMIT_S)

    def _open_to_guest(self) -> bool:
        # guest may come from loopback alone, and through a published port it does not
        try:
            self.control("eval", "application:set_env(rabbit, loopback_users, []).")
        except subprocess.CalledProcessError:
            return False
        return True

    def alive(self) -> bool:
        return self._docker("inspect", "--format", "{{.State.Running}}", self._name).strip() == "true"

    def stop(self) -> None:
        self._docker("stop", self._name)

    def control(self, *arguments: str) -> str:
        return self._docker("exec", self._name, "rabbitmqctl", "--quiet", *arguments)

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._docker("rm", "--force", "--volumes", self._name)

    def _docker(self, *arguments: str) -> str:
        return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=300).stdout


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, no two alike."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _make_node() -> Node:
    found = shutil.which("rabbitmq-server")
    for folder in (_DEBIAN, *([Path(found).resolve().parent] if found else [])):
        if (folder / "rabbitmq-server").exists() and (folder / "rabbitmqctl").exists():
            return _Child(folder)
    if shutil.which("docker"):
        return _Container()
    raise RuntimeError(
        "chaos needs a RabbitMQ of its own: install rabbitmq-server (Debian: apt-get install rabbitmq-server) or Docker"
    )
