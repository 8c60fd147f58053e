"""Networks that are not the public internet's.

By IANA's special-purpose registries for IPv4 and IPv6 (https://www.iana.org/assignments/iana-ipv4-special-registry and
iana-ipv6-special-registry, RFC 6890 and what updates it), whether they say "globally reachable" or not: what is listed
there serves a protocol, and isn't a receiver. The interpreter's ``is_global`` is not asked: it differs by version, and
lets some of them through. Besides, multicast and addresses at which clouds answer their own machines.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

SPECIAL4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by a carrier's clients; Alibaba's metadata is in it
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, by Microsoft's documentation; not in the registry
        "169.254.0.0/16",  # link-local: most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # IETF protocols; Oracle's metadata is in it
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)

GLOBAL6 = IPv6Network("2000::/3")
"""All that IANA has given out as global unicast: the unique local ``fc00::/7`` and the rest are outside of it."""

SPECIAL6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # IETF protocols: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
