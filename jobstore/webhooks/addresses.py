"""Which addresses may be called. A client must not make this server talk to what only the server can reach (SSRF).

Two looks: at the URL, when a client names it, for an answer that says what is wrong; and at every address that its name
resolves to, when a connection is made. Only the second one protects: names may point elsewhere by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpx

from jobstore.webhooks.networks import GLOBAL6, SPECIAL4, SPECIAL6
from safelight.config import WebhookSettings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LONGEST_URL = 2048
_LOWEST_PORT = 1024  # below are other protocols' own ports, but for the two of HTTP
_HIGHEST_PORT = 65_535
_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[!-~]+")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)
_LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa")

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_PRIVATE = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1/128")
)


class RefusedAddressError(ValueError):
    """An address that may not be called; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be called, as far as it tells by itself. ``origin`` is its scheme, host and port."""

    url: str
    origin: str


class AddressRules:
    """What the settings allow."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._allowed: tuple[Network, ...] = tuple(ip_network(text) for text in settings.allow_networks)

    def check_url(self, text: str) -> Target:
        """The target of a URL. Raises RefusedAddressError."""
        url = _parsed(text)
        if url.scheme not in _PORTS or (url.scheme == "http" and not self._settings.allow_http):
            plain = " or http://" if self._settings.allow_http else "; [webhooks] allow_http takes http:// as well"
            raise RefusedAddressError("it must begin with https://" + plain)
        if "@" in re.split("[/?#]", text.partition("//")[2])[0]:
            raise RefusedAddressError("it must hold no user name and no password")
        port = _PORTS[url.scheme] if url.port is None else url.port
        if port not in _PORTS.values() and not _LOWEST_PORT <= port <= _HIGHEST_PORT:
            raise RefusedAddressError(f"its port must be 80, 443, or {_LOWEST_PORT} and above")
        host = url.raw_host.decode("ascii").lower().rstrip(".")
        self._check_host(host)
        written = f"[{host}]" if ":" in host else host
        return Target(url=str(url), origin=f"{url.scheme}://{written}:{port}")

    def _check_host(self, host: str) -> None:
        """Refuse what can be told of a host without asking anybody."""
        address = _literal(host)
        if address is not None:
            self.check_address(address)
        elif _NUMBER.fullmatch(host.rpartition(".")[2]):
            raise RefusedAddressError("its host is an address in an unusual form")
        elif not (self._settings.allow_private or self._allowed) and ("." not in host or _is_local(host)):
            raise RefusedAddressError("its host is a name of local machines; [webhooks] allow_private takes them")

    def check_address(self, address: Address) -> None:
        """Raise RefusedAddressError unless the address may be connected to."""
        inner = _embedded(address)
        if inner is not None:
            return self.check_address(inner)
        if any(address in network for network in self._allowed) or _is_public(address):
            return None
        if self._settings.allow_private and any(address in network for network in _PRIVATE):
            return None
        setting = "allow_private" if any(address in network for network in _PRIVATE) else "allow_networks"
        raise RefusedAddressError(f"{_kind(address)} addresses are not called; [webhooks] {setting} opens them")


def _parsed(text: str) -> httpx.URL:
    if len(text) > _LONGEST_URL:
        raise RefusedAddressError(f"it is longer than {_LONGEST_URL} characters")
    if not _PLAIN.fullmatch(text) or "\\" in text:
        raise RefusedAddressError("it holds characters that a URL doesn't have")
    try:
        url = httpx.URL(text)
        host = url.host  # decoded: what is no name of IDNA breaks here
    except (httpx.InvalidURL, ValueError):
        raise RefusedAddressError("it is not a URL") from None
    if not url.raw_host or "%" in host or url.fragment:
        raise RefusedAddressError("it must be a URL with a host, and without a fragment")
    return url


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)


def _embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64 or 6to4."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL4)
    return address in GLOBAL6 and not any(address in network for network in SPECIAL6)


def _kind(address: Address) -> str:
    kinds = (
        ("unspecified", address.is_unspecified),
        ("loopback", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("private", any(address in network for network in _PRIVATE)),
    )
    return next((name for name, fits in kinds if fits), "reserved")
