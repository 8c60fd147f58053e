"""The networks that an API key may be used from."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

MAX_NETWORKS = 32
MAX_TEXT = 50
"""Characters of a network: 39 of the longest address, and its length."""

_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291, 2.5.5.2: an IPv4 address in IPv6's clothes


def canonical(text: str) -> str:
    """A network in its one form, ``10.0.0.0/8``; an address alone is a network of one.

    Raises ValueError, in words that say what is wrong.
    """
    try:
        network = ip_network("" if "%" in text else text.strip(), strict=False)  # a zone means one machine's interface
    except ValueError:
        raise ValueError(f"{text[:MAX_TEXT]!a} is no network like 10.0.0.0/8 or 2001:db8::/32") from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        raise ValueError(f"{text[:MAX_TEXT]!a} holds IPv4 addresses: write it as IPv4")
    if "/" in text and network.network_address != ip_address(text.strip().partition("/")[0]):
        raise ValueError(f"{text[:MAX_TEXT]!a} is an address within {network}: write the network, or the address alone")
    return str(network)


def within(networks: tuple[str, ...], address: str | None) -> bool:
    """True where one of ``networks`` (canonical) holds ``address``; False for what is no address."""
    if address is None:
        return False
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or IPv6Address(int(found))  # without a zone, which names an interface here
    return any(found in network for network in _read(networks))


@lru_cache(maxsize=4096)
def _read(networks: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(network) for network in networks)
