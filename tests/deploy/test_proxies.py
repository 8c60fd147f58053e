"""The proxies in front: what their files say is what the server's settings need."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from api.grpc.describing import SERVICE
from safelight.config import ServerSettings
from tests.deploy.files import DEPLOY, REPOSITORY

SETTINGS = ServerSettings()
NGINX = (DEPLOY / "proxies/nginx.conf").read_text()
CADDY = (DEPLOY / "proxies/Caddyfile").read_text()
BYTES = {"k": 1024, "m": 1024**2, "KB": 1000, "MB": 1000**2}
SECONDS = {"s": 1, "m": 60, "h": 3600}


class Block(NamedTuple):
    """What stands between braces: simple directives by name, and blocks with what names them."""

    name: str
    simple: dict[str, list[str]]
    blocks: list[Block]

    def block(self, name: str) -> Block:
        """The one block of that name."""
        (found,) = (block for block in self.blocks if block.name == name)
        return found


def read(text: str, ends: str) -> Block:
    """A file of either proxy; ``ends`` is what ends a directive."""
    text = re.sub(r"(^|\s)#.*", "", text)
    tokens = re.findall(rf"[^{{}}{ends}]+|[{{}}{ends}]", text.replace("\n", "\n" if ends == "\n" else " "))
    stack = [Block("", {}, [])]
    said = ""
    for token in tokens:
        if token == "{":
            stack.append(Block(said.strip(), {}, []))
        elif token in (ends, "}"):
            name, _, value = said.strip().partition(" ")
            if name:
                stack[-1].simple.setdefault(name, []).append(" ".join(value.split()))
            if token == "}":
                closed = stack.pop()
                stack[-1].blocks.append(closed)
        else:
            said = token
            continue
        said = ""
    (whole,) = stack  # else a brace is missing
    return whole


def amount(text: str, units: dict[str, int]) -> int:
    """A number with its unit."""
    found = re.fullmatch(r"(\d+)([A-Za-z]+)", text)
    assert found, text
    return int(found[1]) * units[found[2]]


def check(limits: dict[str, Any]) -> None:
    """A body as large as the server takes fits, and an answer that is held back comes."""
    assert SETTINGS.upload_limit_bytes <= limits["body"] < 2 * SETTINGS.upload_limit_bytes
    assert SETTINGS.sync_wait_s + 5 < limits["wait"]


def test_nginx_passes_streams_addresses_and_bodies() -> None:
    """In each place where something is passed on; only the server's own words on the client count."""
    http = read(NGINX, ";").block("http")
    (site,) = (server for server in http.blocks if "ssl_certificate" in server.simple)
    rest, calls = site.block("location /"), site.block(f"location /{SERVICE}/")
    assert rest.simple["proxy_pass"] == ["http://safelight"]
    assert rest.simple["proxy_buffering"] == rest.simple["gzip"] == rest.simple["proxy_next_upstream"] == ["off"]
    told = set(rest.simple["proxy_set_header"])
    assert told == {'Connection ""', "Host $host", "X-Forwarded-For $remote_addr", "X-Forwarded-Proto $scheme"}
    assert set(calls.simple["grpc_set_header"]) == {"X-Forwarded-For $remote_addr", "X-Forwarded-Proto $scheme"}
    assert calls.simple["grpc_pass"] == ["grpc://safelight_grpc"]
    assert "http2" in site.simple["listen"][0]
    assert http.block("upstream safelight").simple["server"] == [f"{SETTINGS.host}:{SETTINGS.port}"]
    assert site.block("location = /metrics").simple["return"] == ["404"]
    body, wait = site.simple["client_max_body_size"][0], rest.simple["proxy_read_timeout"][0]
    check({"body": amount(body, BYTES), "wait": amount(wait, SECONDS)})


def test_caddy_passes_streams_and_bodies() -> None:
    """Addresses it tells by itself."""
    site = read(CADDY, "\n").block("images.example.org")
    rest = site.block(f"reverse_proxy {SETTINGS.host}:{SETTINGS.port}")
    calls = site.block(f"reverse_proxy /{SERVICE}/* h2c://127.0.0.1:50051")
    assert rest.simple["flush_interval"] == calls.simple["flush_interval"] == ["-1"]
    assert site.simple["respond"] == ["/metrics 404"]
    assert "header_up" not in CADDY and "trusted_proxies" not in CADDY
    wait = rest.block("transport http").simple["response_header_timeout"][0]
    check({"body": amount(site.block("request_body").simple["max_size"][0], BYTES), "wait": amount(wait, SECONDS)})


def test_the_page_names_what_the_files_say() -> None:
    """Each setting of its table stands in the file."""
    page = (REPOSITORY / "docs/proxies.md").read_text()
    for said in ("proxy_buffering off", "gzip off", "client_max_body_size 32m", "proxy_read_timeout 75s", "grpc_pass"):
        assert f"`{said}`" in page and said in NGINX
    for said in ("flush_interval -1", "response_header_timeout 75s", "h2c://"):
        assert f"`{said}`" in page and said in CADDY
